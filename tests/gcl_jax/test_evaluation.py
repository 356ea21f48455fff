"""bpref of both thresholds, pools and kinds of topics, against values counted by hand."""

import numpy as np
import pytest

from gcl_jax.data import Formulas, forest_of
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.evaluation import evaluate_ranking, pool_ids, rank, restrict
from gcl_jax.formulas.trees import Tree
from retrieval_jax.errors import InputError

IDS = ("A", "B", "C", "D", "E")


def formulas(ids: tuple[str, ...]) -> Formulas:
    slt, opt = (Tree(layout, ("V!x",), (-1,), ("",)) for layout in ("slt", "opt"))
    return Formulas(ids, forest_of([slt] * len(ids)), forest_of([opt] * len(ids)))


JUDGED = JudgedFormulas(
    formulas(IDS),
    np.array([True, True, True, False, True]),
    formulas(("T-1", "T-2", "T-3")),
    {
        "T-1": {"A": 4, "B": 2, "C": 0, "D": 0},
        "T-2": {"A": 1, "B": 0},
        "T-3": {"A": 0, "B": 4, "X": 3},
    },
    {},
)
# T-1: D, A, C, B, E. T-2: A first. T-3: A before B, X absent.
SCORES = np.array([[0.8, 0.2, 0.5, 0.9, 0.1], [1, 0, 0, 0, 0], [1, 0.5, 0, 0, 0]])


def test_both_thresholds_by_hand() -> None:
    found = evaluate_ranking(JUDGED, rank(JUDGED, SCORES))
    # bpref = mean over relevant of 1 - (irrelevant above, at most R) / min(R, N).
    assert found.per_query["T-1"] == pytest.approx(
        {"partial": (1 - 1 / 2 + 1 - 2 / 2) / 2, "full": 1 - 1 / 1}
    )
    assert found.per_query["T-2"] == {"partial": 1.0, "full": 0.0}
    # X, which no ranking holds, counts among the relevant.
    assert found.per_query["T-3"] == pytest.approx({"partial": 0.0, "full": 0.0})
    assert found.mean == pytest.approx({"partial": (0.25 + 1) / 3, "full": 0.0})


def test_a_smaller_pool_leaves_out_what_it_does_not_keep() -> None:
    ranking = rank(JUDGED, SCORES)
    assert pool_ids(JUDGED, "small") == ("A", "B", "C", "E")
    assert "D" not in restrict(JUDGED, ranking, "small")["T-1"]
    found = evaluate_ranking(JUDGED, ranking, "small")
    assert found.per_query["T-1"] == pytest.approx({"partial": (1 + 1 - 1 / 2) / 2, "full": 1.0})


def test_kinds_of_topics() -> None:
    ranking = rank(JUDGED, SCORES)
    odd, even = (evaluate_ranking(JUDGED, ranking, "all", kind) for kind in ("odd", "even"))
    assert list(odd.per_query) == ["T-1", "T-3"]
    assert odd.mean["partial"] == pytest.approx(0.125)
    assert even.per_query == {"T-2": {"partial": 1.0, "full": 0.0}}


def test_formulas_that_nobody_judged_do_not_count() -> None:
    ranking = rank(JUDGED, SCORES)
    ranking["T-1"]["unknown"] = 7.0
    assert evaluate_ranking(JUDGED, ranking) == evaluate_ranking(JUDGED, rank(JUDGED, SCORES))


def test_a_topic_that_is_not_ranked_counts_0() -> None:
    found = evaluate_ranking(JUDGED, {"T-2": {"A": 1.0}})
    assert found.mean["partial"] == pytest.approx(1 / 3)


def test_bad_topics() -> None:
    ranking = rank(JUDGED, SCORES)
    named = JudgedFormulas(
        JUDGED.formulas, JUDGED.in_small_pool, JUDGED.queries, {"T": {"A": 1}}, {}
    )
    with pytest.raises(InputError, match="'T' has no number"):
        evaluate_ranking(named, ranking, "all", "odd")
    with pytest.raises(InputError, match="none of 0 topics"):
        evaluate_ranking(
            JudgedFormulas(JUDGED.formulas, JUDGED.in_small_pool, JUDGED.queries, {}, {}), ranking
        )
