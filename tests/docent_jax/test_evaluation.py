"""The zero-shot protocol on hand-made vectors."""

import numpy as np
import pytest

from docent_jax.evaluation import cosine_scores, evaluate_ranking, rank, zero_shot_measures
from tests.docent_jax.toy_documents import toy_corpus

CORPUS = toy_corpus()


def test_cosines():
    scores = cosine_scores(np.array([[3.0, 0.0]]), np.array([[0.5, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(scores, [[1.0, 0.5**0.5, 0.0]], atol=1e-6)


def test_perfect_vectors_and_one_swap():
    eye = np.eye(8, dtype=np.float32)
    assert zero_shot_measures(eye, CORPUS, "dev") == {"RR": 1.0, "R@50": 1.0, "R@100": 1.0}
    swapped = eye[[1, 0, 2, 3, 4, 5, 6, 7]] + 0.5 * eye
    # Two of eight queries find their entity second.
    assert zero_shot_measures(swapped, CORPUS, "test")["RR"] == pytest.approx(7 / 8)


def test_rankings_name_entities_and_queries():
    ranking = rank(np.eye(8), CORPUS, "dev")
    assert max(ranking["dev2"], key=ranking["dev2"].__getitem__) == "lib.random"
    evaluation = evaluate_ranking(ranking, CORPUS, "dev", ["P@1"])
    assert evaluation.mean == {"P@1": 1.0}
