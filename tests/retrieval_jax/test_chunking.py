"""Encoding in chunks gives the vectors and gradients of the batch at once, dropout by chunk."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrieval_jax.bert import pool
from retrieval_jax.chunking import ROWS, Chunking, encode_text_chunks
from retrieval_jax.errors import InputError
from retrieval_jax.pipeline import TokenTable, text_batches
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch
from tests.retrieval_jax.test_packing import docstring_lengths, random_texts

LENGTHS = docstring_lengths(96)
TABLE = TokenTable(random_texts(LENGTHS), LENGTHS)
WORDS = jnp.asarray(np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32))
KEY = jax.random.key(7)
TEXTS, CHUNKS = 32, 8


def batch_of(chunks):
    columns = {"number": np.arange(96, dtype=np.int32)}
    return next(text_batches(TABLE, columns, TEXTS, seed=0, chunks=chunks))


def encode(words, num_texts, rate, rows, key):
    hidden = words[rows["input_ids"] % 300]
    hidden = jnp.tanh(hidden) * jax.random.bernoulli(key, 1 - rate, hidden.shape)
    return pool(hidden, rows["attention_mask"], "mean", num_texts)


def scalar(vectors):
    return jnp.sum(jnp.sin(vectors @ vectors.T))


def loss(words, batch, chunks, lanes, rate):
    of_chunk = functools.partial(encode, words, TEXTS // chunks, rate)
    return scalar(encode_text_chunks(of_chunk, batch, TEXTS, chunks, KEY, lanes))


@pytest.fixture(scope="module")
def expected():
    """Loss and gradient with dropout of the chunks in a loop, everything kept."""
    return jax.jit(jax.value_and_grad(one_after_the_other))(WORDS, batch_of(CHUNKS), 0.5)


def one_after_the_other(words, batch, rate):
    vectors = []
    for index in range(CHUNKS):
        rows = {name: jnp.split(batch[name], CHUNKS)[index] for name in ROWS}
        first, mask = index * TEXTS // CHUNKS, rows["attention_mask"]
        rows["attention_mask"] = jnp.where(mask > 0, mask - first, 0)
        key = jax.random.fold_in(KEY, index)
        vectors.append(encode(words, TEXTS // CHUNKS, rate, rows, key))
    return scalar(jnp.concatenate(vectors))


def check_equal(got, expected):
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_chunks_hold_whole_texts_in_equal_rows():
    batch = batch_of(CHUNKS)
    masks = np.split(batch["attention_mask"], CHUNKS)
    for index, mask in enumerate(masks):
        numbers = np.unique(mask[mask > 0])
        np.testing.assert_array_equal(numbers, np.arange(4) + index * 4 + 1)
    for number, text in enumerate(batch["number"], 1):
        pieces = batch["input_ids"][batch["attention_mask"] == number]
        np.testing.assert_array_equal(pieces, TABLE.input_ids[text, : LENGTHS[text]])


@pytest.mark.parametrize("lanes", [1, 2])
def test_without_dropout_it_is_the_batch_at_once(lanes):
    batch = batch_of(CHUNKS)
    compute = jax.jit(jax.value_and_grad(loss), static_argnums=(2, 3, 4))
    check_equal(compute(WORDS, batch, CHUNKS, lanes, 0.0), compute(WORDS, batch, 1, 1, 0.0))


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_dropout_has_a_key_for_each_chunk_whatever_the_devices(lanes, expected):
    batch = batch_of(CHUNKS)
    compute = jax.jit(jax.value_and_grad(loss), static_argnums=(2, 3, 4))
    mesh = make_mesh(MeshConfig(data=lanes), jax.devices()[:lanes])
    check_equal(compute(WORDS, shard_batch(batch, mesh), CHUNKS, lanes, 0.5), expected)


def test_what_a_chunk_needs_is_not_kept():
    batch = batch_of(CHUNKS)

    def kept(chunks):
        compiled = jax.jit(jax.grad(loss), static_argnums=(2, 3, 4))
        lowered = compiled.lower(jnp.ones((300, 512)), batch, chunks, 1, 0.5)
        return lowered.compile().memory_analysis().temp_size_in_bytes

    assert kept(CHUNKS) < kept(1) / 3


@pytest.mark.parametrize(
    ("size", "lanes", "batch_size", "count"),
    [(None, 8, 64, 1), (16, 1, 64, 4), (15, 1, 64, 8), (16, 8, 64, 8), (5, 4, 40, 8), (1, 1, 6, 6)],
)
def test_chunks_are_equal_and_shared_by_the_devices(size, lanes, batch_size, count):
    assert Chunking(size, lanes).count(batch_size) == count


def test_an_empty_chunk_is_refused():
    with pytest.raises(InputError, match="size of a chunk is 0"):
        Chunking(0)


def test_processes_share_the_chunks():
    assert Chunking(4, 4).count(64, processes=2) == 8
