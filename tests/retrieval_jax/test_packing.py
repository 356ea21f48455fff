"""Packed rows: each text once and whole, rows full, the model's results as one text a row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_jax.bert import Bert, pool
from retrieval_jax.packing import Placement, pack, padded_rows, place, round_up, row_width
from tests.bert_folders import tiny_config, tiny_params

CONFIG = tiny_config()
BODY = {name: tiny_params(CONFIG)[name] for name in ("embeddings", "encoder")}
POOLINGS = ("cls", "mean", "max")

text_lengths = st.lists(st.integers(1, 64), min_size=1, max_size=60).map(np.array)


def random_texts(lengths, seed=0):
    """Word pieces that fill the whole table, so that reading beyond a text's end shows."""
    shape = (len(lengths), max(lengths))
    return np.random.default_rng(seed).integers(5, 200, shape).astype(np.int32)


def one_text_a_row(input_ids, lengths):
    rows = np.arange(len(lengths))
    return pack(input_ids, lengths, Placement(rows, np.zeros_like(rows)), input_ids.shape)


def docstring_lengths(num_texts, seed=0):
    """Lengths like those of the sentences of docstrings: median 18, 90 % up to 36."""
    lengths = np.random.default_rng(seed).lognormal(np.log(18), 0.5, num_texts)
    return np.clip(lengths, 7, 64).astype(np.int32)


def test_longest_first_into_the_fullest_row():
    rows, starts = place(np.array([3, 5, 2, 4, 1, 6]), 8)
    # 6 | 5 | 4, then 3 beside 5, 2 beside 6, 1 beside 4.
    np.testing.assert_array_equal(rows, [1, 1, 0, 2, 2, 0])
    np.testing.assert_array_equal(starts, [5, 0, 6, 0, 4, 0])


def test_packed_rows_of_two_texts():
    input_ids = np.array([[7, 8, 9], [5, 6, 0]], np.int32)
    placement = Placement(np.array([1, 1]), np.array([2, 0]))
    packed = pack(input_ids, np.array([3, 2]), placement, (2, 6), first=4)
    expected = {
        "input_ids": [[0] * 6, [5, 6, 7, 8, 9, 0]],
        "attention_mask": [[0] * 6, [6, 6, 5, 5, 5, 0]],
        "position_ids": [[0] * 6, [0, 1, 0, 1, 2, 0]],
    }
    assert packed.keys() == expected.keys()
    for name, value in packed.items():
        assert value.dtype == np.int32
        np.testing.assert_array_equal(value, expected[name])


@settings(max_examples=100, deadline=None)
@given(text_lengths)
def test_property_every_text_lies_once_and_whole_in_one_row(lengths):
    input_ids = random_texts(lengths)
    width = row_width(lengths)
    placement = place(lengths, width)
    packed = pack(input_ids, lengths, placement, (placement.num_rows + 1, width))
    mask = packed["attention_mask"]
    assert np.count_nonzero(mask) == lengths.sum()  # none overlaps another
    for text, length in enumerate(lengths):
        row, column = np.nonzero(mask == text + 1)
        assert len(set(row)) == 1
        np.testing.assert_array_equal(column, column[0] + np.arange(length))
        np.testing.assert_array_equal(packed["position_ids"][row, column], np.arange(length))
        np.testing.assert_array_equal(packed["input_ids"][row, column], input_ids[text, :length])
    for value in packed.values():
        assert not value[mask == 0].any()


@settings(max_examples=100, deadline=None)
@given(text_lengths)
def test_property_rows_are_few_and_wide_enough(lengths):
    width = row_width(lengths)
    assert lengths.max() <= width <= round_up(lengths.max(), 64) + 64
    assert width % 16 == 0
    used = np.bincount(place(lengths, width).rows, weights=lengths)
    assert used.min() > 0
    # Any two rows could not have been one.
    assert len(used) == 1 or np.sort(used)[:2].sum() > width


@pytest.mark.parametrize("num_texts", [64, 1024])
def test_rows_are_full_on_lengths_of_real_sentences(num_texts):
    lengths = docstring_lengths(num_texts)
    width = row_width(lengths)
    assert width == 64
    assert lengths.sum() / (place(lengths, width).num_rows * width) > 0.93


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([18], 32),  # one query
        ([18, 18, 20], 64),
        ([40] * 30, 128),  # three a row waste less than one a row of 64
        ([64] * 30, 64),
        ([10] * 60 + [65], 128),
    ],
)
def test_width_of_rows(lengths, expected):
    assert row_width(np.array(lengths)) == expected


@pytest.mark.parametrize(
    ("needed", "multiple", "expected"),
    [(20, 1, 22), (22, 1, 22), (23, 1, 25), (26, 1, 28), (20, 8, 24), (25, 8, 32)],
)
def test_batches_share_the_usual_number_of_rows_and_rarely_take_more(needed, multiple, expected):
    assert padded_rows(needed, 22, multiple) == expected


@pytest.fixture(scope="module")
def both_ways():
    """Inputs of the same seven texts, packed in a row more than needed, and one a row."""
    lengths = np.array([9, 4, 17, 1, 30, 12, 5])
    input_ids = random_texts(lengths)
    placement = place(lengths, 32)
    packed = pack(input_ids, lengths, placement, (placement.num_rows + 1, 32))
    return packed, one_text_a_row(input_ids, lengths)


def hidden_states(params, inputs):
    return Bert(CONFIG).apply({"params": params}, **inputs)


def test_hidden_states_equal_those_of_one_text_a_row(both_ways):
    packed, single = both_ways
    packed_hidden, single_hidden = (jax.jit(hidden_states)(BODY, rows) for rows in both_ways)
    for text in range(1, 8):
        np.testing.assert_allclose(
            packed_hidden[packed["attention_mask"] == text],
            single_hidden[single["attention_mask"] == text],
            atol=1e-5,
        )


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooled_vectors_and_their_gradients_equal_those_of_one_text_a_row(both_ways, pooling):
    @jax.jit
    @jax.value_and_grad
    def loss(params, inputs):
        hidden = hidden_states(params, inputs)
        vectors = pool(hidden, inputs["attention_mask"], pooling, 7)
        return jnp.sum(vectors * jnp.arange(7.0)[:, None] ** 2 * jnp.cos(vectors))

    (value, grad), (expected, expected_grad) = (loss(BODY, inputs) for inputs in both_ways)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-4), grad, expected_grad
    )
