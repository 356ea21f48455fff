"""Word vectors: equal to gensim's inside and outside the vocabulary, repeatable, kept on disk."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from retrieval_jax.errors import InputError
from retrieval_jax.walks import make_graph, random_walks
from retrieval_jax.word_vectors import (
    LabelledWalks,
    Subwords,
    WordVectors,
    load_vectors,
    ngram_buckets,
    save_vectors,
    train_fasttext,
    train_skipgram,
)

SETTINGS = {"dim": 8, "window": 2, "negative": 3, "epochs": 2, "seed": 5}
SENTENCES = [["V!x", "O!plus", "N!1"], ["V!x", "O!frac", "V!β"], ["V!x", "O!plus", "V!β"]] * 20


def test_walks_become_sentences_of_labels():
    walks = np.array([[0, 2, -1], [1, -1, -1], [2, 0, 2]], np.int32)
    named = LabelledWalks(walks, ["x", "+", "y"])
    expected = [["x", "y"], ["+"], ["y", "x", "y"]]
    assert list(named) == expected
    assert list(named) == expected  # again
    assert next(iter(LabelledWalks(walks))) == ["0", "2"]
    with pytest.raises(InputError, match="2 labels for walks up to node 2"):
        LabelledWalks(walks, ["x", "+"])
    with pytest.raises(InputError, match="float64"):
        LabelledWalks(np.ones((2, 2)))


def test_lookup_gives_known_words_their_row_and_others_zeros():
    vectors = WordVectors(("a", "b"), np.array([[1, 2], [3, 4]], np.float32))
    found = vectors.lookup(["b", "?", "a", "b"])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[3, 4], [0, 0], [1, 2], [3, 4]])
    assert vectors.lookup([]).shape == (0, 2)
    with pytest.raises(InputError, match="one text"):
        vectors.lookup("ab")


def test_lookup_gives_others_the_mean_of_their_subwords():
    table = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    vectors = WordVectors(("a",), np.ones((1, 2), np.float32), Subwords(table, 2, 3))
    buckets = ngram_buckets("é", 2, 3, 50)
    assert len(buckets) == 3  # "<é", "<é>", "é>"
    np.testing.assert_allclose(vectors.lookup(["a", "é"])[1], table[buckets].mean(axis=0), 1e-6)


def test_an_ngram_has_the_bucket_of_fnv_1a():
    # The published test value of 32-bit FNV-1a for "a"; the brackets alone are no n-grams.
    assert ngram_buckets("a", 1, 1, 2**32) == [0xE40C292C]
    assert ngram_buckets("", 3, 6, 7) == []
    with pytest.raises(InputError, match="no text"):
        ngram_buckets("\ud800", 1, 2, 7)


@pytest.mark.parametrize(("min_n", "max_n"), [(1, 1), (1, 2), (3, 6), (2, 30)])
def test_buckets_are_those_of_gensim(min_n, max_n):
    fasttext = pytest.importorskip("gensim.models.fasttext")
    for word in ("", "a", "ab", "V!\\alpha", "ünïcode", "数式", "𓀀𓀁", "a b\n\0", "e\u0301"):
        expected = fasttext.ft_ngram_hashes(word, min_n, max_n, 1009)
        assert ngram_buckets(word, min_n, max_n, 1009) == expected


def test_fasttext_is_gensims_inside_and_outside_the_vocabulary(tmp_path):
    models = pytest.importorskip("gensim.models")
    ours = train_fasttext(SENTENCES, **SETTINGS, min_count=2, min_n=2, max_n=4, buckets=97)
    save_vectors(ours, tmp_path / "vectors.safetensors")
    loaded = load_vectors(tmp_path / "vectors.safetensors")
    peer = models.FastText(
        vector_size=8, window=2, negative=3, sg=1, min_count=1, workers=1, seed=5, sorted_vocab=0,
        min_n=2, max_n=4, bucket=97,
    )  # fmt: skip
    peer.build_vocab_from_freq(
        {"V!x": 60, "O!plus": 40, "V!β": 40, "N!1": 20, "O!frac": 20}, corpus_count=60
    )
    peer.train(SENTENCES, total_examples=60, epochs=2)
    assert ours.words == ("V!x", "O!plus", "V!β", "N!1", "O!frac")
    words = [*ours.words, "V!y", "O!plusminus", "新", "a", ""]
    expected = np.array([peer.wv[word] for word in words])
    assert np.abs(expected[:-1]).max(axis=1).min() > 0
    np.testing.assert_array_equal(ours.lookup(words), expected)
    np.testing.assert_array_equal(loaded.lookup(words), expected)


def test_skipgram_survives_the_file(tmp_path):
    pytest.importorskip("gensim")
    vectors = train_skipgram(SENTENCES, **SETTINGS)
    path = tmp_path / "new" / "vectors.safetensors"
    save_vectors(vectors, path)
    loaded = load_vectors(path)
    assert loaded.words == vectors.words
    assert loaded.subwords is None
    np.testing.assert_array_equal(loaded.vectors, vectors.vectors)
    assert [entry.name for entry in path.parent.iterdir()] == ["vectors.safetensors"]


def test_words_that_no_file_format_should_break(tmp_path):
    words = ("", " ", "a\nb", "\0", "𓀀", '"\\', "\ud800")
    vectors = WordVectors(words, np.arange(14, dtype=np.float32).reshape(7, 2))
    save_vectors(vectors, tmp_path / "v")
    assert load_vectors(tmp_path / "v").words == words


PROGRAM = """
import sys, numpy as np
from retrieval_jax.word_vectors import train_fasttext, train_skipgram
sentences = [[f"w{(i * j) % 17}" for j in range(30)] for i in range(40)]
common = dict(dim=5, window=3, negative=2, epochs=2, seed=1)
for train in (train_skipgram, train_fasttext):
    vectors = train(sentences, **common)
    print(vectors.words, vectors.vectors.tobytes().hex())
"""


def test_another_process_with_other_hashes_trains_the_same():
    pytest.importorskip("gensim")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "2")
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0].count(b"\n") == 2
    assert outputs[0] == outputs[1]


def test_deepwalk_brings_nodes_of_one_cluster_together():
    pytest.importorskip("gensim")
    clusters = np.arange(20) // 10
    pairs = np.argwhere(clusters[:, None] == clusters)
    graph = make_graph(np.concatenate([pairs[pairs[:, 0] < pairs[:, 1]], [[0, 10]]]), 20)
    walks = random_walks(graph, np.tile(np.arange(20), 50), 20, seed=0)
    vectors = train_skipgram(walks, 16, window=5, negative=5, epochs=10, seed=0, subsample=0)
    found = vectors.lookup([str(node) for node in range(20)])
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    cosines, same = unit @ unit.T, clusters[:, None] == clusters
    assert cosines[same].mean() > cosines[~same].mean() + 0.3


def test_words_after_the_ten_thousandth_of_a_sentence_are_trained():
    pytest.importorskip("gensim")
    long = [["a", "b"] * 5000 + ["c", "d"] * 2000]
    settings = SETTINGS | {"epochs": 1}
    start = train_skipgram([["a", "b", "c", "d"]], **settings, subsample=1e-12)
    moved = np.abs(train_skipgram(long, **settings).lookup(["c"]) - start.lookup(["c"])).max()
    assert moved > 0.01


@pytest.mark.parametrize(
    ("sentences", "change", "problem"),
    [
        (["one text"], {}, "sentence 0 is one text"),
        ("one text", {}, "sentences are a str"),
        (iter([["a"]]), {}, "sentences are a list_iterator"),
        ([["a"], ["b", 3]], {}, "sentence 1 has the word 3"),
        ([["a"], ["\ud800"]], {}, "sentence 1 has the word"),
        ([], {}, "no word occurs 1 times; there are 0"),
        ([["a", "b", "a"]], {"min_count": 3}, "no word occurs 3 times; there are 2"),
        ([["a"]], {"dim": 0}, "dim is 0"),
        ([["a"]], {"negative": 0}, "negative is 0"),
        ([["a"]], {"seed": -1}, "seed is -1"),
        (np.ones((2, 2)), {}, "walks have shape"),
    ],
)
def test_training_refuses_bad_input(sentences, change, problem):
    pytest.importorskip("gensim")
    for train in (train_skipgram, train_fasttext):
        with pytest.raises(InputError, match=problem):
            train(sentences, **{**SETTINGS, **change})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"min_n": 0}, "min_n is 0"),
        ({"max_n": 2}, "max_n is 2, min_n 3"),
        ({"buckets": 0}, "is 0"),
    ],
)
def test_fasttext_refuses_bad_ngrams(change, problem):
    with pytest.raises(InputError, match=problem):
        train_fasttext(SENTENCES, **SETTINGS, **change)


def test_files_that_hold_no_word_vectors(tmp_path):
    path = tmp_path / "v"
    with pytest.raises(InputError, match=r"no .*v"):
        load_vectors(path)
    path.write_bytes(b"not safetensors at all")
    with pytest.raises(InputError, match="holds no word vectors"):
        load_vectors(path)
    save_file({"vectors": np.ones((2, 2), np.float32)}, path)
    with pytest.raises(InputError, match="format"):
        load_vectors(path)
    save_vectors(WordVectors(("a", "b"), np.ones((2, 2), np.float32)), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(InputError, match="holds no word vectors"):
        load_vectors(path)
    for words in (["a"], ["a", "a"], ["a", 1], "ab", 3):
        tensors = {
            "vectors": np.ones((2, 2), np.float32),
            "words": np.frombuffer(json.dumps(words).encode(), np.uint8),
        }
        save_file(tensors, path, {"format": "retrieval_jax word vectors 1"})
        with pytest.raises(InputError, match="holds no word vectors"):
            load_vectors(path)
