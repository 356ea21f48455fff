"""Encoding keeps order and few shapes, and gives what one text a row gives."""

import functools

import jax
import numpy as np
import pytest

from retrieval_jax import encoding
from retrieval_jax.bert import Bert
from retrieval_jax.encoding import encode, encode_to_file, jit_encoder, unit_length
from retrieval_jax.pipeline import TokenTable
from tests.bert_folders import tiny_config, tiny_params
from tests.retrieval_jax.test_packing import docstring_lengths, random_texts
from tests.retrieval_jax.test_pipeline import table_of


def test_vectors_come_in_input_order_from_calls_of_one_shape():
    lengths = docstring_lengths(300)
    shapes = set()

    def encode_batch(rows, num_texts):
        shapes.add((rows["input_ids"].shape, num_texts))
        vectors = np.zeros((num_texts, 2), np.float32)
        present = rows["attention_mask"] > 0
        texts = rows["attention_mask"][present] - 1
        vectors[texts, 0] = rows["input_ids"][present]
        np.add.at(vectors[:, 1], texts, 1)
        return vectors

    vectors = encode(encode_batch, table_of(lengths))
    np.testing.assert_array_equal(vectors, np.stack([np.arange(1, 301), lengths], axis=1))
    assert len(shapes) == 1
    assert shapes.pop()[0] == (8, 64)


def first_pieces(rows, num_texts):
    """Each text's first piece and their number."""
    vectors = np.zeros((num_texts, 2), np.float32)
    texts = rows["attention_mask"] - 1
    at = (texts >= 0) & (rows["position_ids"] == 0)
    vectors[texts[at], 0] = rows["input_ids"][at]
    np.add.at(vectors[:, 1], texts[texts >= 0], 1)
    return vectors


def test_a_file_is_written_slice_by_slice(tmp_path, monkeypatch):
    table, sizes = table_of(docstring_lengths(300)), []

    def one_slice(encode_batch, table, advance):
        sizes.append(len(table.lengths))
        return encode(encode_batch, table, advance=advance)

    monkeypatch.setattr(encoding, "SLICE", 128)
    monkeypatch.setattr(encoding, "encode", one_slice)
    encode_to_file(first_pieces, table, 2, tmp_path / "vectors.npy", "encoding")
    assert sizes == [128, 128, 44]
    vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, np.stack([np.arange(1, 301), table.lengths], axis=1))
    with pytest.raises(ValueError, match=r"float32\(128, 2\) of float32\(300, 3\)"):
        encode_to_file(first_pieces, table, 3, tmp_path / "wrong.npy", "encoding")


@pytest.mark.parametrize(("num_texts", "shape"), [(1, (1, 16)), (3, (1, 32)), (9, (4, 64))])
def test_few_texts_are_encoded_in_few_rows(num_texts, shape):
    shapes = []

    def encode_batch(rows, num_texts):
        shapes.append(rows["input_ids"].shape)
        return np.zeros((num_texts, 2), np.float32)

    table = table_of([9] * num_texts if num_texts < 9 else [18] * num_texts)
    assert encode(encode_batch, table).shape == (num_texts, 2)
    assert shapes == [shape]


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_vectors_equal_those_of_each_text_alone(pooling):
    config = tiny_config()
    params = {name: tiny_params(config)[name] for name in ("embeddings", "encoder")}
    lengths = np.array([5, 20, 9, 33, 12, 5, 40])
    table = TokenTable(random_texts(lengths), lengths)
    encode_batch = functools.partial(jit_encoder(config, pooling), params)
    vectors = encode(encode_batch, table, batch_pieces=128)
    hidden_states = jax.jit(Bert(config).apply)
    reduce = {"cls": lambda h: h[0], "mean": lambda h: h.mean(axis=0), "max": lambda h: h.max(0)}
    mask = (np.arange(40)[None] < lengths[:, None]).astype(np.int32)
    hidden = np.asarray(hidden_states({"params": params}, table.input_ids, mask))
    for vector, states, length in zip(vectors, hidden, lengths, strict=True):
        np.testing.assert_allclose(vector, reduce[pooling](states[:length]), atol=1e-5)


def test_unit_length_keeps_directions_and_zeros():
    vectors = unit_length(np.array([[3.0, 4.0], [0.0, 0.0], [-2.0, 0.0]], np.float32))
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0, 0], [-1, 0]], rtol=1e-6)
