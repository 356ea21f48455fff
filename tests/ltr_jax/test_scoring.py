"""Blocks of candidates score as single pairs do."""

import dataclasses

import jax
import numpy as np
import pytest

from ltr_jax import scoring
from ltr_jax.config import ModelConfig
from ltr_jax.data import feature_table
from ltr_jax.model import Ranker, init_params
from ltr_jax.scoring import Scorer
from retrieval_jax.word_vectors import WordVectors

MODEL = Ranker(ModelConfig(filters=4, category_filters=4, layers=2, hidden=8))


@pytest.mark.parametrize("block_values", [1, 1500, 2**23])
def test_lists_of_any_length(monkeypatch, block_values):
    monkeypatch.setattr(scoring, "BLOCK_VALUES", block_values)
    dims = {"words": 3, "categories": 3}
    params = jax.jit(lambda key: init_params(MODEL, key, dims))(jax.random.key(0))
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(5, 8)).astype(np.float32)
    documents = rng.normal(size=(70, 8)).astype(np.float32)
    candidates = [rng.permutation(70)[:n] for n in (3, 70, 0, 65, 1)]
    scores = Scorer(MODEL).score(params, queries, documents, candidates)
    assert [len(row) for row in scores] == [3, 70, 0, 65, 1]
    for query, of_query, row in zip(queries, candidates, scores, strict=True):
        for document, value in zip(of_query[:4], row, strict=False):
            pair = query[None], documents[document][None]
            expected = MODEL.apply({"params": params}, *pair, method=Ranker.score)
            assert value == pytest.approx(float(expected[0]), abs=1e-5)
    assert Scorer(MODEL).score(params, queries[:0], documents, []) == []


@pytest.mark.parametrize("interaction", ["cosine", "sum"])
def test_a_query_without_categories_meets_documents_by_words_alone(interaction):
    model = Ranker(dataclasses.replace(MODEL.config, interaction=interaction, layers=1))
    dims = {"words": 3, "categories": 3}
    params = jax.jit(lambda key: init_params(model, key, dims))(jax.random.key(0))
    numbers = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    vectors = WordVectors(("a", "b", "c"), numbers)

    def features(categories):
        words = feature_table([["a", "b"], ["b", "c"]], vectors, MODEL.config.window, 10)
        return {"words": words, "categories": feature_table(categories, vectors, 1, 10)}

    def rank(of_documents):
        asked = features([[], ["a"]]), {"without": 0, "with": 1}
        found = features(of_documents), {"x": 0, "y": 1}
        candidates = {"with": ("y", "x"), "without": ("x", "y")}
        return Scorer(model).rank(params, asked, found, candidates)

    some, none = rank([["b"], ["c"]]), rank([[], []])
    assert list(some["with"]) == ["y", "x"]
    assert some["with"] != pytest.approx(none["with"])
    # The published layer takes all there is.
    assert (some["without"] == pytest.approx(none["without"])) == (interaction == "cosine")
