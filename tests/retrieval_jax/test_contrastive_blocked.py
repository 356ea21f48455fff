"""The blocked contrastive loss equals the plain one, in value and gradient."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from retrieval_jax.contrastive_blocked import (
    blocked_contrastive_loss,
    row_blocked_contrastive_loss,
)
from retrieval_jax.losses import contrastive_loss_from_embeddings
from retrieval_jax.sharding import DATA, MeshConfig, make_mesh


def pairs(n, dim=8, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(n, dim)).astype(np.float32)
    return jnp.asarray(first), jnp.asarray(first + rng.normal(size=(n, dim)).astype(np.float32))


def plain(queries, candidates, temperature, ids):
    return contrastive_loss_from_embeddings(
        queries, candidates, temperature, query_ids=ids, candidate_ids=ids, symmetric=True
    )


def value_and_gradients(loss):
    """Of the first two arguments; compiled as one, for by primitives it takes far longer."""
    return jax.jit(jax.value_and_grad(loss, (0, 1)))


@pytest.mark.parametrize(("n", "block", "lanes"), [(24, 8, 1), (21, 8, 1), (24, 5, 4), (24, 99, 2)])
@pytest.mark.parametrize("temperature", [0.03, 0.5])
def test_equals_the_plain_loss_and_gradient(n, block, lanes, temperature):
    queries, candidates = pairs(n)
    ids = jnp.asarray(np.random.default_rng(1).integers(0, n // 2, n))  # many are equal
    expected = value_and_gradients(plain)(queries, candidates, temperature, ids)
    blocked = functools.partial(
        blocked_contrastive_loss, temperature=temperature, block_size=block, lanes=lanes
    )
    got = value_and_gradients(blocked)(queries, candidates, ids=ids)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("of_sides", [False, True])
def test_ids_of_several_kinds_and_weights_equal_the_plain_loss(of_sides):
    queries, candidates = pairs(22)
    rng = np.random.default_rng(2)
    ids = jnp.asarray(rng.integers(0, 12, (22, 3)))
    # Of a pair the first id stands on both sides.
    candidate_ids = ids.at[:, 2].set(jnp.asarray(rng.integers(0, 12, 22))) if of_sides else ids
    weights = jnp.asarray(rng.integers(0, 3, 22).astype(np.float32))
    # The same pairs as a mask.
    differ = (np.asarray(ids)[:, None] != np.asarray(candidate_ids)[None]).all(axis=-1)

    def by_mask(queries, candidates):
        return contrastive_loss_from_embeddings(
            queries, candidates, 0.1, mask=jnp.asarray(differ), weights=weights, symmetric=True
        )

    def by_ids(queries, candidates):
        return contrastive_loss_from_embeddings(
            *(queries, candidates, 0.1),
            query_ids=ids,
            candidate_ids=candidate_ids,
            weights=weights,
            symmetric=True,
        )

    def blocked(queries, candidates):
        return blocked_contrastive_loss(
            *(queries, candidates, 0.1, ids, 4, 2, weights),
            candidate_ids=candidate_ids if of_sides else None,
        )

    expected = value_and_gradients(by_mask)(queries, candidates)
    for loss in (by_ids, blocked):
        got = value_and_gradients(loss)(queries, candidates)
        for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("tile", "lanes"), [(1, 1), (40, 1), (90, 3), (10**6, 3)])
def test_by_rows_equals_the_plain_loss_at_any_learned_temperature(tile, lanes):
    queries, _ = pairs(21)
    table = pairs(13, seed=1)[0]
    rng = np.random.default_rng(3)
    positives = jnp.asarray(rng.integers(0, 13, 21))
    # Rows 5 and 7 of the table are the same thing.
    candidate_ids = jnp.arange(13).at[7].set(5)
    query_ids = candidate_ids[positives]
    weights = jnp.asarray(rng.integers(0, 3, 21).astype(np.float32))

    def plain_loss(queries, table, temperature):
        return contrastive_loss_from_embeddings(
            *(queries, table, temperature),
            positives=positives,
            query_ids=query_ids,
            candidate_ids=candidate_ids,
            weights=weights,
        )

    def by_rows(queries, table, temperature):
        return row_blocked_contrastive_loss(
            *(queries, table, temperature, query_ids, candidate_ids, positives, weights),
            *(tile, lanes),
        )

    compute, compute_plain = (
        jax.jit(jax.value_and_grad(loss, (0, 1, 2))) for loss in (by_rows, plain_loss)
    )
    for temperature in (0.005, 1.0):
        arguments = (queries, table, jnp.float32(temperature))
        got, expected = compute(*arguments), compute_plain(*arguments)
        for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=3e-5, atol=3e-5)


def test_without_ids_all_pairs_are_negatives_of_each_other():
    queries, candidates = pairs(16)
    expected = contrastive_loss_from_embeddings(queries, candidates, 0.1, symmetric=True)
    got = blocked_contrastive_loss(queries, candidates, 0.1, block_size=4)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_opposite_and_equal_vectors_stay_finite():
    queries = jnp.eye(4)
    colder = functools.partial(blocked_contrastive_loss, temperature=0.025, block_size=2)
    value, gradients = value_and_gradients(colder)(queries, -queries)
    np.testing.assert_allclose(value, 40 + np.log(3 + np.exp(-40)), rtol=1e-6)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    # With one pair, or equal ids alone, there is no negative, so nothing to lose.
    for ids in (None, jnp.zeros(4, jnp.int32)):
        n = 1 if ids is None else 4
        loss = functools.partial(blocked_contrastive_loss, temperature=0.1)
        value, gradients = value_and_gradients(loss)(queries[:n], -queries[:n], ids=ids)
        assert value == 0
        assert all((gradient == 0).all() for gradient in gradients)


def by_rows(queries, candidates, lanes):
    ids = jnp.arange(len(queries)) % 20
    return row_blocked_contrastive_loss(queries, candidates, 0.05, ids, ids, tile=64, lanes=lanes)


def symmetric(queries, candidates, lanes):
    ids = jnp.arange(len(queries)) % 20
    weights = jnp.arange(len(queries)) % 3
    return blocked_contrastive_loss(queries, candidates, 0.05, ids, 4, lanes, weights)


@pytest.mark.parametrize("function", [symmetric, by_rows])
def test_devices_compute_what_one_does(function):
    mesh = make_mesh(MeshConfig())
    queries, candidates = pairs(32)
    loss = jax.jit(jax.value_and_grad(function, (0, 1)), static_argnums=2)
    expected = loss(queries, candidates, 1)
    split = NamedSharding(mesh, PartitionSpec(DATA))
    placed = [jax.device_put(x, split) for x in (queries, candidates)]
    got = loss(*placed, mesh.shape[DATA])
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_memory_grows_with_the_batch_not_its_square():
    def temporary(n):
        shape = jax.ShapeDtypeStruct((n, 128), jnp.float32)
        step = jax.jit(jax.grad(lambda q, c: blocked_contrastive_loss(q, c, 0.05), (0, 1)))
        return step.lower(shape, shape).compile().memory_analysis().temp_size_in_bytes

    mib = 2**20
    assert temporary(16_384) < 200 * mib
    assert temporary(65_536) < 1024 * mib


def test_memory_by_rows_grows_with_the_table_not_the_product():
    def temporary(n, m):
        shapes = [jax.ShapeDtypeStruct((size, 128), jnp.float32) for size in (n, m)]
        ids = [jax.ShapeDtypeStruct((size,), jnp.int32) for size in (n, m)]
        step = jax.jit(
            jax.grad(lambda q, c, i, j: row_blocked_contrastive_loss(q, c, 0.05, i, j), (0, 1))
        )
        return step.lower(*shapes, *ids).compile().memory_analysis().temp_size_in_bytes

    assert temporary(65_536, 65_536) < 2**30


@pytest.mark.parametrize(
    ("shapes", "temperature", "lanes"),
    [(((4, 2), (3, 2)), 0.1, 1), (((4, 2), (4, 2)), 0.01, 1), (((4, 2), (4, 2)), 0.1, 3)],
)
def test_what_cannot_be_computed_is_refused(shapes, temperature, lanes):
    arrays = [jnp.ones(shape) for shape in shapes]
    with pytest.raises(ValueError, match=r"pairs of|temperature"):
        blocked_contrastive_loss(*arrays, temperature, lanes=lanes)
