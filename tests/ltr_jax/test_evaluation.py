import math

import pytest

from ltr_jax.datasets.collection import Topics
from ltr_jax.evaluation import (
    at_difficulty,
    evaluate_levels,
    qrels_of,
    to_levels,
    without_relevant,
)
from retrieval_jax.errors import InputError

IRRELEVANT = tuple(f"n{i}" for i in range(6))
TOPICS = Topics(("a", "b"), {"a": {"x": 2, "y": 1}}, {"a": IRRELEVANT, "b": IRRELEVANT})


def ranking(**scores):
    base = dict.fromkeys(IRRELEVANT, 0.0)
    return {"a": base | {"x": 5.0, "y": 4.0} | scores, "b": base}


def test_ndcg_at_each_level() -> None:
    # n3 comes before both relevant documents, n5 between them.
    levels = evaluate_levels(to_levels(ranking(n3=9.0, n5=4.5), TOPICS, (2, 4, 6)), TOPICS)
    ideal = 2 + 1 / math.log2(3)
    expected = {
        2: 1.0,
        4: (2 / math.log2(3) + 1 / math.log2(4)) / ideal,
        6: (2 / math.log2(3) + 1 / math.log2(5)) / ideal,
    }
    for level, value in expected.items():
        assert levels[level].per_query["a"]["nDCG"] == pytest.approx(value)


def test_a_query_without_relevant_documents_counts_0() -> None:
    levels = evaluate_levels(to_levels(ranking(), TOPICS, (6,)), TOPICS)
    assert levels[6].per_query["b"]["nDCG"] == 0
    assert levels[6].mean["nDCG"] == 0.5
    assert qrels_of(TOPICS)["b"] == {}
    assert without_relevant(TOPICS) == ("b",)


def test_levels_beyond_the_hardest_become_the_hardest() -> None:
    assert set(to_levels(ranking(), TOPICS, (2, 40, 1000))) == {2, 6}


def test_a_candidate_without_score() -> None:
    scores = ranking()
    del scores["a"]["n0"]
    with pytest.raises(InputError, match=r"lacks 1 of the 4 candidates of query 'a'.*'n0'"):
        at_difficulty(scores, TOPICS, 2)
