import math

import numpy as np
import pytest

from ltr_jax.datasets.collection import Topics
from ltr_jax.evaluation import (
    at_difficulty,
    compare_cells,
    evaluate_levels,
    qrels_of,
    to_levels,
    without_relevant,
)
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation

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


def runs(*values):
    return [
        Evaluation({f"q{i}": {"nDCG": float(v)} for i, v in enumerate(run)}, {}) for run in values
    ]


def test_comparison_of_few_queries_is_exact() -> None:
    # All 3 differences are positive: 2 of the 8 sign patterns are as extreme.
    cell = (runs([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]), runs([0.2, 0.4, 0.6], [0.2, 0.4, 0.8]))
    found = compare_cells({"cell": cell})["cell"]
    assert found.baseline == pytest.approx(0.2)
    assert found.system == pytest.approx(2.6 / 6)
    assert found.gain == pytest.approx(1.4 / 6)
    assert found.gains == pytest.approx((0.2, 0.8 / 3))
    assert found.p_value == pytest.approx(0.25)
    assert not found.is_significant


def test_holm_over_cells() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(12)
    better = base + 0.1 + 0.01 * rng.random(12)
    mixed = base + 0.1 * np.array([1, -1] * 6)
    found = compare_cells({"clear": (runs(base), runs(better)), "none": (runs(base), runs(mixed))})
    assert found["clear"].p_value == pytest.approx(2 / 2**12)
    assert found["clear"].adjusted == pytest.approx(2 * 2 / 2**12)
    assert found["clear"].is_significant
    assert found["none"].adjusted == pytest.approx(found["none"].p_value)
    assert not found["none"].is_significant


@pytest.mark.parametrize(
    "cell", [(runs([1, 2]), runs([1, 2], [1, 2])), (runs([1, 2]), runs([1, 2, 3])), ([], [])]
)
def test_runs_that_do_not_correspond(cell) -> None:
    with pytest.raises(InputError, match="Cell 'x'"):
        compare_cells({"x": cell})
