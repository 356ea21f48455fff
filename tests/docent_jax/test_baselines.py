"""Baselines against closed forms on hand-made cases."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docent_jax import baselines
from docent_jax.baselines import bag_of_sentences_scores, bm25_scores, mean_vectors, tfidf_scores
from docent_jax.datasets.corpus import EntityCorpus
from retrieval_jax.errors import InputError

CORPUS = EntityCorpus(
    entities=("fruit", "tree", "stone"),
    sentences=("apple banana", "apple cherry", "apple oak", "granite basalt marble gneiss"),
    sentence_entities=np.array([0, 0, 1, 2], np.int32),
    queries={},
)


def test_bm25_is_lucenes_formula_on_whole_documents() -> None:
    k1, b = 1.5, 0.75
    lengths = np.array([4, 2, 4])
    norms = k1 * (1 - b + b * lengths / lengths.mean())

    def term(frequencies: list[int]) -> np.ndarray:
        tf = np.array(frequencies)
        n = np.count_nonzero(tf)
        return math.log(1 + (3 - n + 0.5) / (n + 0.5)) * tf / (tf + norms)

    scores = bm25_scores(CORPUS, ["The apple and the cherry", "granite", "the unknown"])
    assert scores.dtype == np.float32
    expected = [term([2, 1, 0]) + term([1, 0, 0]), term([0, 0, 1]), [0, 0, 0]]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_tfidf_is_the_cosine_of_log_frequencies_times_idf() -> None:
    idf = {n: math.log((1 + 3) / (1 + n)) + 1 for n in (1, 2)}
    apple = (1 + math.log(2)) * idf[2]
    norms = np.array([math.hypot(apple, idf[1], idf[1]), math.hypot(idf[2], idf[1])])
    scores = tfidf_scores(CORPUS, ["The apple", "marble and granite", "unknown"])
    assert scores.dtype == np.float32
    expected = [[apple / norms[0], idf[2] / norms[1], 0], [0, 0, 2 / math.sqrt(2 * 4)], [0, 0, 0]]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_lexical_scores_of_no_query() -> None:
    assert bm25_scores(CORPUS, []).shape == (0, 3)


VECTORS = np.array([[2.0, 0.0], [0.0, 3.0], [0.6, 0.8], [-5.0, 0.0]], np.float32)
OWNERS = np.array([0, 0, 2, 2], np.int32)


def test_mean_vectors_normalise_sentences_first() -> None:
    means = mean_vectors(VECTORS, OWNERS, 4)
    assert means.dtype == np.float32
    np.testing.assert_allclose(means, [[0.5, 0.5], [0, 0], [-0.2, 0.4], [0, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("max", [[1, -np.inf, 0.6, -np.inf], [1, -np.inf, 0.8, -np.inf]]),
        ("mean", [[0.5, 0, -0.2, 0], [0.5, 0, 0.4, 0]]),
    ],
)
def test_bag_of_sentences_by_hand(reduce: Any, expected: list[list[float]]) -> None:
    queries = np.array([[7.0, 0.0], [0.0, 0.1]], np.float32)
    scores = bag_of_sentences_scores(queries, VECTORS, OWNERS, 4, reduce)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, atol=1e-6)


class OnDisk:
    """Vectors of which only slices can be had, and which knows how much was had at once."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors, self.shape, self.ndim = vectors, vectors.shape, vectors.ndim
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: slice) -> np.ndarray:
        self.read.append(len(self.vectors[rows]))
        return self.vectors[rows]


@pytest.mark.parametrize(("max_values", "read"), [(1, [1] * 9), (20, [4, 4, 1]), (10**6, [9])])
@pytest.mark.parametrize("reduce", ["max", "mean"])
def test_vectors_are_read_once_by_blocks(
    max_values: int, read: list[int], reduce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    sentences, queries = rng.normal(size=(9, 5)), rng.normal(size=(7, 5))
    owners = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3])
    monkeypatch.setattr(baselines, "MAX_VALUES", max_values)
    vectors: Any = OnDisk(sentences)
    scores = bag_of_sentences_scores(queries, vectors, owners, 4, reduce)
    assert vectors.read == read
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, sentences)]
    cosines = unit[0] @ unit[1].T
    combine = {"max": np.max, "mean": np.mean}[reduce]
    expected = np.stack([combine(cosines[:, owners == e], axis=1) for e in range(4)], axis=1)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_lengths_of_vectors_do_not_matter(query_length: float, sentence_length: float) -> None:
    query = np.array([[0.3, -0.7]])
    plain = bag_of_sentences_scores(query, VECTORS, OWNERS, 3)
    scaled = bag_of_sentences_scores(query * query_length, VECTORS * sentence_length, OWNERS, 3)
    np.testing.assert_allclose(scaled, plain, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sentence_entities": OWNERS[:3]}, "one vector and one entity per sentence"),
        ({"sentence_vectors": VECTORS[0]}, "one vector and one entity per sentence"),
        ({"sentence_entities": OWNERS[::-1]}, "Sort sentences"),
        ({"n_entities": 2}, "Sort sentences"),
        ({"query_vectors": np.ones((1, 3))}, "same model"),
        ({"query_vectors": np.ones(2)}, "same model"),
        ({"reduce": "median"}, "median"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Any], problem: str) -> None:
    arguments = {
        "query_vectors": np.ones((1, 2)),
        "sentence_vectors": VECTORS,
        "sentence_entities": OWNERS,
        "n_entities": 3,
    }
    with pytest.raises(InputError, match=problem):
        bag_of_sentences_scores(**{**arguments, **changes})
