"""Blocks of candidates score as single pairs do."""

import jax
import numpy as np
import pytest

from ltr_jax import scoring
from ltr_jax.config import ModelConfig
from ltr_jax.model import Ranker, init_params
from ltr_jax.scoring import Scorer

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
