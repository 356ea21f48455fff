"""BERT: masks, packing, scan, dropout, dtypes, pooling."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrieval_jax.bert import Bert, pool, stack_layers, take_positions, unstack_layers
from tests.bert_folders import tiny_config, tiny_params

CONFIG = tiny_config()
PARAMS = tiny_params(CONFIG, mlm_head=True)
BODY = {"embeddings": PARAMS["embeddings"], "encoder": PARAMS["encoder"]}


def hidden_states(config=CONFIG, params=BODY, **kwargs):
    apply = jax.jit(lambda params, kwargs: Bert(config).apply({"params": params}, **kwargs))
    return apply(params, kwargs)


def random_ids(batch, length, seed=0):
    return np.random.default_rng(seed).integers(5, 200, (batch, length)).astype(np.int32)


def test_padding_changes_nothing():
    ids = random_ids(2, 6)
    short = hidden_states(input_ids=ids, attention_mask=np.ones((2, 6), np.int32))
    padded_ids = np.concatenate([ids, random_ids(2, 4, seed=1)], axis=1)
    mask = np.array([[1] * 6 + [0] * 4] * 2, np.int32)
    padded = hidden_states(input_ids=padded_ids, attention_mask=mask)
    np.testing.assert_allclose(padded[:, :6], short, atol=1e-5)


def test_texts_of_one_row_do_not_see_each_other():
    first, second = random_ids(1, 4), random_ids(1, 5, seed=1)
    packed = hidden_states(
        input_ids=np.concatenate([first, second], axis=1),
        attention_mask=np.array([[1] * 4 + [2] * 5], np.int32),
        position_ids=np.array([[0, 1, 2, 3, 0, 1, 2, 3, 4]], np.int32),
    )
    for part, ids in ((packed[:, :4], first), (packed[:, 4:], second)):
        alone = hidden_states(input_ids=ids, attention_mask=np.ones_like(ids))
        np.testing.assert_allclose(part, alone, atol=1e-5)


def test_given_word_vectors_stand_for_those_of_the_pieces():
    ids = random_ids(2, 6)
    mask = np.ones_like(ids)
    table = BODY["embeddings"]["word"]["embedding"]
    looked_up = hidden_states(input_ids=ids, attention_mask=mask)
    given = hidden_states(input_ids=0 * ids, attention_mask=mask, word_vectors=table[ids])
    np.testing.assert_allclose(given, looked_up, atol=1e-6)


def test_segments_matter():
    ids = random_ids(1, 4)
    mask = np.ones_like(ids)
    first = hidden_states(input_ids=ids, attention_mask=mask)
    second = hidden_states(input_ids=ids, attention_mask=mask, segment_ids=np.ones_like(ids))
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("remat", ["none", "full", "dots"])
def test_scan_and_remat_give_the_same_values_and_gradients(remat):
    ids = random_ids(2, 6)
    mask = np.ones_like(ids)

    def loss(params, config):
        return jnp.mean(hidden_states(config, params, input_ids=ids, attention_mask=mask) ** 3)

    scanned = dataclasses.replace(CONFIG, scan_layers=True, remat=remat)
    expected, expected_grad = jax.value_and_grad(loss)(BODY, CONFIG)
    value, grad = jax.value_and_grad(loss)(stack_layers(BODY, 2), scanned)
    assert value == pytest.approx(float(expected), rel=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6),
        unstack_layers(grad, 2),
        expected_grad,
    )


def test_scan_initialises_the_layout_that_stack_layers_makes():
    scanned = dataclasses.replace(CONFIG, scan_layers=True)
    ids = random_ids(1, 3)
    fresh = Bert(scanned).init(jax.random.key(0), ids, np.ones_like(ids))["params"]
    stacked = stack_layers(BODY, 2)
    assert jax.tree.map(jnp.shape, fresh) == jax.tree.map(jnp.shape, stacked)
    kernel = fresh["encoder"]["layers"]["intermediate"]["kernel"]
    assert np.abs(kernel[0] - kernel[1]).max() > 1e-3  # layers start apart


def test_attention_without_dropout_equals_attention_with_rate_near_zero():
    ids = random_ids(2, 6)
    mask = np.array([[1] * 6, [1] * 4 + [0] * 2], np.int32)
    tiny_rate = dataclasses.replace(CONFIG, attention_dropout=1e-9, hidden_dropout=0.0)
    inputs = {"input_ids": ids, "attention_mask": mask}
    plain = hidden_states(**inputs)
    explicit = Bert(tiny_rate).apply(
        {"params": BODY}, **inputs, deterministic=False, rngs={"dropout": jax.random.key(0)}
    )
    np.testing.assert_allclose(explicit[0], plain[0], atol=1e-5)
    np.testing.assert_allclose(explicit[1, :4], plain[1, :4], atol=1e-5)


def test_dropout_depends_on_the_key_only():
    ids = random_ids(2, 6)

    def run(key):
        return Bert(CONFIG).apply(
            {"params": BODY},
            ids,
            np.ones_like(ids),
            deterministic=False,
            rngs={"dropout": jax.random.key(key)},
        )

    np.testing.assert_array_equal(run(1), run(1))
    assert np.abs(run(1) - run(2)).max() > 1e-3


def test_bfloat16_computes_in_half_precision_over_float32_parameters():
    half = dataclasses.replace(CONFIG, dtype="bfloat16")
    ids = random_ids(2, 6)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    output = hidden_states(half, **inputs)
    assert output.dtype == jnp.bfloat16
    np.testing.assert_allclose(output.astype(np.float32), hidden_states(**inputs), atol=0.1)
    fresh = Bert(half).init(jax.random.key(0), **inputs)
    assert {leaf.dtype for leaf in jax.tree.leaves(fresh)} == {jnp.dtype("float32")}


def test_mlm_logits_at_positions_equal_those_of_the_whole_row():
    model = Bert(CONFIG, with_pooler=True, with_mlm_head=True)
    ids = random_ids(2, 6)
    hidden = model.apply({"params": PARAMS}, ids, np.ones_like(ids))
    every = np.tile(np.arange(6, dtype=np.int32), (2, 1))
    some = np.array([[1, 4], [0, 5]], np.int32)
    full = model.apply({"params": PARAMS}, hidden, every, method=Bert.mlm_logits)
    part = model.apply({"params": PARAMS}, hidden, some, method=Bert.mlm_logits)
    assert part.shape == (2, 2, CONFIG.vocab_size)
    np.testing.assert_allclose(part, np.take_along_axis(full, some[:, :, None], 1), atol=1e-5)


def test_take_positions():
    hidden = jnp.arange(12.0).reshape(2, 3, 2)
    taken = take_positions(hidden, jnp.array([[2, 0], [1, 1]]))
    np.testing.assert_array_equal(taken, [[[4, 5], [0, 1]], [[8, 9], [8, 9]]])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("cls", [[5.0, 6.0], [1.0, -1.0]]),
        ("mean", [[5.0, 6.0], [2.0, -2.0]]),
        ("max", [[5.0, 6.0], [3.0, -1.0]]),
    ],
)
def test_pooling_by_text_leaves_padding_out(pooling, expected):
    hidden = jnp.array([[[100.0, 100.0]] * 3, [[1.0, -1.0], [3.0, -3.0], [5.0, 6.0]]])
    pooled = pool(hidden, jnp.array([[0, 0, 0], [2, 2, 1]]), pooling, 2)
    np.testing.assert_allclose(pooled, expected)


def test_pooling_of_nothing_is_finite_for_the_mean():
    pooled = pool(jnp.ones((1, 2, 2)), jnp.zeros((1, 2), jnp.int32), "mean", 1)
    np.testing.assert_array_equal(pooled, [[0.0, 0.0]])


def test_pooling_adds_up_in_float32():
    hidden = jnp.full((1, 3000, 1), 1.001, jnp.bfloat16)  # 1 in bfloat16, whose 256 + 1 is 256
    pooled = pool(hidden, jnp.ones((1, 3000), jnp.int32), "mean", 1)
    assert pooled.dtype == jnp.float32
    np.testing.assert_array_equal(pooled, [[1.0]])


@pytest.mark.parametrize(
    ("changes", "words"), [({"num_heads": 3}, "num_heads"), ({"activation": "silu"}, "silu")]
)
def test_impossible_architectures_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        tiny_config(**changes)
