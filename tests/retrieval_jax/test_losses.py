"""The contrastive loss against closed forms, masks, and itself under sharding."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from retrieval_jax.losses import (
    contrastive_loss,
    contrastive_loss_from_embeddings,
    cosine_regression_loss,
    l2_normalize,
    pairwise_hinge_loss,
    weighted_mean,
)
from retrieval_jax.sharding import MeshConfig, make_mesh

RNG = np.random.default_rng(0)


def embeddings(n, m=None, dim=8):
    return (
        RNG.normal(size=(n, dim)).astype(np.float32),
        RNG.normal(size=(m or n, dim)).astype(np.float32),
    )


def reference(queries, candidates, temperature, negatives_of):
    """Row losses by the formula, with Python's math; `negatives_of(i)` lists columns."""
    q = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    c = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    losses = []
    for i in range(len(q)):
        logits = (c @ q[i]) / temperature
        total = sum(math.exp(logits[j] - logits[i]) for j in {i, *negatives_of(i)})
        losses.append(math.log(total))
    return losses


def test_two_equal_logits_cost_log_two():
    logits = jnp.zeros((1, 2))
    assert contrastive_loss(logits, jnp.array([0])) == pytest.approx(math.log(2))


def test_hand_computed_logits():
    logits = jnp.array([[2.0, 0.0, -1.0], [0.5, 1.5, 0.0]])
    first = math.log(1 + math.exp(-2) + math.exp(-3))
    second = math.log(math.exp(-1) + 1 + math.exp(-1.5))
    losses = contrastive_loss(logits, jnp.array([0, 1]), reduce="none")
    np.testing.assert_allclose(losses, [first, second], rtol=1e-6)
    weighted = contrastive_loss(logits, jnp.array([0, 1]), weights=jnp.array([3.0, 1.0]))
    assert weighted == pytest.approx((3 * first + second) / 4, rel=1e-6)


def test_masked_candidate_does_not_count_but_a_masked_positive_does():
    logits = jnp.array([[2.0, 0.0, 9.0]])
    loss = contrastive_loss(logits, jnp.array([0]), mask=jnp.array([[False, True, False]]))
    assert loss == pytest.approx(math.log(1 + math.exp(-2)), rel=1e-6)


def test_only_the_positive_left_costs_nothing():
    loss, grad = jax.value_and_grad(contrastive_loss)(
        jnp.array([[1.0, 5.0]]), jnp.array([0]), jnp.zeros((1, 2), bool)
    )
    assert loss == 0.0
    np.testing.assert_array_equal(grad, 0.0)


def test_extreme_logits_stay_finite():
    logits = jnp.array([[1e4, -1e4], [-1e4, 1e4]])
    loss, grad = jax.value_and_grad(contrastive_loss)(logits, jnp.array([0, 0]))
    assert loss == pytest.approx(1e4)
    assert np.isfinite(grad).all()


def test_weights_of_zero_remove_a_query_and_all_zero_gives_zero():
    logits = jnp.array([[2.0, 0.0], [jnp.inf, 0.0]])
    weights = jnp.array([1.0, 0.0])
    loss = contrastive_loss(logits, jnp.array([0, 1]), weights=weights)
    assert loss == pytest.approx(math.log(1 + math.exp(-2)), rel=1e-6)
    assert weighted_mean(jnp.ones(2), jnp.zeros(2)) == 0.0


def test_in_batch_negatives_match_the_formula():
    queries, candidates = embeddings(6)
    expected = np.mean(reference(queries, candidates, 0.2, lambda i: range(6)))
    loss = contrastive_loss_from_embeddings(queries, candidates, 0.2)
    assert loss == pytest.approx(float(expected), rel=1e-5)


def test_hard_negatives_are_negatives_of_every_query():
    queries, candidates = embeddings(4, 7)
    expected = np.mean(reference(queries, candidates, 0.5, lambda i: range(7)))
    loss = contrastive_loss_from_embeddings(queries, candidates, 0.5)
    assert loss == pytest.approx(float(expected), rel=1e-5)
    without = contrastive_loss_from_embeddings(queries, candidates[:4], 0.5)
    assert loss > without


def test_second_occurrence_of_an_entity_is_no_negative():
    queries, candidates = embeddings(5)
    ids = np.array([7, 3, 7, 1, 3])
    expected = np.mean(
        reference(queries, candidates, 0.3, lambda i: [j for j in range(5) if ids[j] != ids[i]])
    )
    loss = contrastive_loss_from_embeddings(
        queries, candidates, 0.3, query_ids=ids, candidate_ids=ids
    )
    assert loss == pytest.approx(float(expected), rel=1e-5)
    unmasked = contrastive_loss_from_embeddings(queries, candidates, 0.3)
    assert abs(loss - unmasked) > 1e-3


def test_ids_reach_hard_negatives():
    queries, candidates = embeddings(3, 5)
    query_ids, candidate_ids = np.array([0, 1, 2]), np.array([0, 1, 2, 1, 9])
    expected = np.mean(
        reference(
            queries,
            candidates,
            0.3,
            lambda i: [j for j in range(5) if candidate_ids[j] != query_ids[i]],
        )
    )
    loss = contrastive_loss_from_embeddings(
        queries, candidates, 0.3, query_ids=query_ids, candidate_ids=candidate_ids
    )
    assert loss == pytest.approx(float(expected), rel=1e-5)


def test_symmetric_is_the_mean_of_both_directions_masks_included():
    queries, candidates = embeddings(5)
    ids = np.array([0, 1, 0, 2, 3])
    kwargs = {"query_ids": ids, "candidate_ids": ids}
    forward = contrastive_loss_from_embeddings(queries, candidates, 0.3, **kwargs)
    backward = contrastive_loss_from_embeddings(candidates, queries, 0.3, **kwargs)
    both = contrastive_loss_from_embeddings(queries, candidates, 0.3, symmetric=True, **kwargs)
    assert both == pytest.approx(float(forward + backward) / 2, rel=1e-6)


def test_learned_temperature_has_the_gradient_of_finite_differences():
    queries, candidates = embeddings(5)

    def loss(log_temperature):
        return contrastive_loss_from_embeddings(queries, candidates, jnp.exp(log_temperature))

    step = 1e-2
    numeric = (loss(-1 + step) - loss(-1 - step)) / (2 * step)
    assert jax.grad(loss)(-1.0) == pytest.approx(float(numeric), rel=1e-2)


def test_bfloat16_embeddings_give_float32_similarities():
    queries, candidates = embeddings(16, dim=64)
    half = [jnp.asarray(a, jnp.bfloat16) for a in (queries, candidates)]
    loss = contrastive_loss_from_embeddings(*half, 0.05)
    assert loss.dtype == jnp.float32
    same_values = contrastive_loss_from_embeddings(*[a.astype(jnp.float32) for a in half], 0.05)
    assert loss == pytest.approx(float(same_values), rel=1e-6)


def test_inner_product_when_not_normalised():
    loss = contrastive_loss_from_embeddings(
        jnp.array([[2.0]]), jnp.array([[1.0], [3.0]]), normalize=False
    )
    assert loss == pytest.approx(math.log(1 + math.exp(4)), rel=1e-6)


def test_l2_normalize_gives_unit_length_in_float32_and_keeps_zeros():
    vectors = jnp.array([[[3.0, 4.0], [0.0, 0.0]]])
    np.testing.assert_allclose(l2_normalize(vectors), [[[0.6, 0.8], [0.0, 0.0]]], rtol=1e-6)
    assert l2_normalize(jnp.ones((2, 3), jnp.bfloat16)).dtype == jnp.float32


def test_zero_vectors_stay_and_have_no_gradient():
    grad = jax.grad(lambda v: l2_normalize(v).sum())(jnp.zeros((2, 3)))
    np.testing.assert_array_equal(grad, 0.0)
    np.testing.assert_array_equal(l2_normalize(jnp.zeros((2, 3))), 0.0)


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_eight_devices_give_the_gradients_of_one(ids, symmetric):
    queries, candidates = embeddings(16)
    labels = np.arange(16) % 13 if ids else None
    weights = np.linspace(0, 1, 16).astype(np.float32)

    def loss(queries, candidates):
        return contrastive_loss_from_embeddings(
            queries,
            candidates,
            0.1,
            query_ids=labels,
            candidate_ids=labels,
            weights=weights,
            symmetric=symmetric,
        )

    step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    expected = step(*jax.device_put((queries, candidates), jax.devices()[0]))
    mesh = make_mesh(MeshConfig(data=4, model=2))
    for spec in (PartitionSpec("data"), PartitionSpec(("data", "model")), PartitionSpec()):
        sharded = jax.device_put((queries, candidates), NamedSharding(mesh, spec))
        actual = step(*sharded)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), actual, expected
        )


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(0, 4),
    st.floats(0.05, 2.0),
    st.integers(0, 2**31),
)
def test_property_permuting_the_batch_changes_nothing(n, extra, temperature, seed):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(n, 4)).astype(np.float32)
    candidates = rng.normal(size=(n + extra, 4)).astype(np.float32)
    order = rng.permutation(n)
    full = np.concatenate([order, np.arange(n, n + extra)])
    first = contrastive_loss_from_embeddings(queries, candidates, temperature)
    second = contrastive_loss_from_embeddings(queries[order], candidates[full], temperature)
    assert first == pytest.approx(float(second), rel=1e-4, abs=1e-5)
    assert first >= -1e-6


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"symmetric": True}, "n = m"),
        ({"query_ids": np.arange(2)}, "together"),
    ],
)
def test_inconsistent_arguments_are_refused(kwargs, words):
    queries, candidates = embeddings(2, 3)
    with pytest.raises(ValueError, match=words):
        contrastive_loss_from_embeddings(queries, candidates, **kwargs)


def test_pairwise_hinge_closed_form():
    better, worse = jnp.array([2.0, 0.5, 1.0, -1.0]), jnp.array([0.0, 0.0, 1.5, 3.0])
    # max(0, 1 - 2), 1 - .5, 1 + .5, 1 + 4
    assert float(pairwise_hinge_loss(better, worse)) == pytest.approx((0 + 0.5 + 1.5 + 5) / 4)
    assert float(pairwise_hinge_loss(better, worse, margin=3.0)) == pytest.approx(
        (1 + 2.5 + 3.5 + 7) / 4
    )
    weights = jnp.array([1.0, 0.0, 3.0, 0.0])
    weighted = pairwise_hinge_loss(better, worse, weights=weights)
    assert float(weighted) == pytest.approx(3 * 1.5 / 4)
    infinite = jnp.array([2.0, jnp.inf, 1.0, jnp.nan])  # padding does not leak
    assert float(pairwise_hinge_loss(infinite, worse, weights=weights)) == pytest.approx(1.125)
    assert float(pairwise_hinge_loss(better, worse, weights=jnp.zeros(4))) == 0.0


def test_pairwise_hinge_gradient_is_that_of_pairs_inside_the_margin():
    grads = jax.grad(pairwise_hinge_loss, argnums=(0, 1))(
        jnp.array([2.0, 0.5]), jnp.array([0.0, 0.0])
    )
    np.testing.assert_allclose(grads[0], [0.0, -0.5])
    np.testing.assert_allclose(grads[1], [0.0, 0.5])


def test_cosine_regression_by_hand():
    first = jnp.array([[3.0, 4.0], [1.0, 0.0], [2.0, 0.0]])
    second = jnp.array([[4.0, 3.0], [0.0, 5.0], [-1.0, 0.0]])
    labels = jnp.array([1, 0, 1])
    # Cosines 0.96, 0, -1.
    expected = (0.04**2 + 0 + 4) / 3
    np.testing.assert_allclose(cosine_regression_loss(first, second, labels), expected, rtol=1e-5)
    weights = jnp.array([1.0, 1.0, 0.0])
    weighted = cosine_regression_loss(first, second, labels, weights)
    np.testing.assert_allclose(weighted, 0.04**2 / 2, rtol=1e-4)
    assert cosine_regression_loss(first, second, labels, jnp.zeros(3)) == 0


def test_cosine_regression_has_finite_gradients_and_is_zero_at_its_labels():
    vectors = jnp.array([[0.0, 0.0], [1.0, 2.0]])
    labels = jnp.array([0.0, 1.0])
    loss, gradient = jax.value_and_grad(cosine_regression_loss)(vectors, vectors, labels)
    np.testing.assert_allclose(loss, 0, atol=1e-6)
    assert np.isfinite(gradient).all()
