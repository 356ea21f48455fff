import math
import random

import numpy as np
import pytest

from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import evaluate, label_ranking_average_precisions, roc_auc

# Order a b c d e x, where x is unjudged.
QRELS = {"q": {"a": 0, "b": 3, "c": 1, "d": 0, "e": 2}}
RANKING = {"q": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6, "e": 0.5, "x": 0.4}}


def reversed_insertion(ranking):
    return {q: dict(reversed(documents.items())) for q, documents in reversed(ranking.items())}


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("RR", 1 / 2),
        ("RR(rel=2)", 1 / 2),
        ("P@5", 3 / 5),
        ("R@1", 0),
        ("R@3", 2 / 3),
        ("R@50", 1),
        ("AP", (1 / 2 + 2 / 3 + 3 / 5) / 3),
        ("AP(rel=2)", (1 / 2 + 2 / 5) / 2),
        # b and c stand below one of the two non-relevant, e below both.
        ("Bpref", (1 / 2 + 1 / 2 + 0) / 3),
        # From level 2 on, c counts as non-relevant: three of them, two relevant.
        ("Bpref(rel=2)", (1 / 2 + 0) / 2),
        (
            "nDCG",
            (3 / math.log2(3) + 1 / 2 + 2 / math.log2(6)) / (3 + 2 / math.log2(3) + 1 / 2),
        ),
        ("nDCG@2", (3 / math.log2(3)) / (3 + 2 / math.log2(3))),
    ],
)
def test_measures_have_their_closed_forms(measure, value):
    assert evaluate(QRELS, RANKING, [measure]).mean == {measure: pytest.approx(value)}


def test_a_measure_does_not_depend_on_its_company():
    names = ["Bpref(rel=3)", "nDCG", "R(rel=2)@3", "Bpref", "AP(rel=2)", "RR"]
    together = evaluate(QRELS, RANKING, names).mean
    assert together == {name: evaluate(QRELS, RANKING, [name]).mean[name] for name in names}


def test_missing_and_irrelevant_queries_count_0_and_unjudged_ones_not_at_all():
    qrels = {"z": {"a": 1}, "missing": {"a": 1}, "irrelevant": {"a": 0}, "empty": {"a": 1}}
    ranking = {"z": {"a": 1.0}, "irrelevant": {"a": 1.0}, "empty": {}, "unjudged": {"a": 1.0}}
    evaluation = evaluate(qrels, ranking, ["RR", "AP"])
    assert evaluation.mean == {"RR": 0.25, "AP": 0.25}
    assert evaluation.per_query == {
        "empty": {"RR": 0.0, "AP": 0.0},
        "irrelevant": {"RR": 0.0, "AP": 0.0},
        "missing": {"RR": 0.0, "AP": 0.0},
        "z": {"RR": 1.0, "AP": 1.0},
    }
    assert list(evaluation.per_query) == sorted(qrels)


def test_a_query_may_have_no_judgement_at_all():
    assert evaluate({"q": {}}, RANKING, ["RR", "nDCG", "Bpref"]).mean == {
        "RR": 0.0,
        "nDCG": 0.0,
        "Bpref": 0.0,
    }


@pytest.mark.parametrize("gap", [0.0, 1e-12])
def test_scores_equal_in_float32_tie_and_the_larger_id_wins(gap):
    ranking = {"q": {"a": 0.5 + gap, "b": 0.5, "é": 0.1 + gap, "z": 0.1}}
    assert evaluate({"q": {"a": 1}}, ranking, ["RR"]).mean == {"RR": 1 / 2}
    assert evaluate({"q": {"z": 1}}, ranking, ["RR"]).mean == {"RR": 1 / 4}


def test_insertion_order_never_counts():
    rng = random.Random(0)
    documents = [f"d{i}" for i in range(30)]
    qrels = {f"q{i}": {d: rng.randrange(4) for d in documents} for i in range(9)}
    ranking = {q: {d: rng.randrange(5) / 3 for d in documents} for q in qrels}
    names = ["RR", "AP", "nDCG", "Bpref", "P@5"]
    evaluation = evaluate(qrels, ranking, names)
    assert evaluate(reversed_insertion(qrels), reversed_insertion(ranking), names) == evaluation


@pytest.mark.parametrize(
    "name",
    ["reciprocal", "R", "R@0", "R@1.5", "Bpref@5", "RR(level=2)", "R(rel=0)@5", "", "R@", "RR@10"],
)
def test_refuses_unknown_measures(name):
    with pytest.raises(InputError, match="Use names like RR"):
        evaluate(QRELS, RANKING, [name])


@pytest.mark.parametrize("score", [math.nan, math.inf, 1e39])
def test_refuses_scores_that_are_not_finite_in_float32(score):
    with pytest.raises(InputError, match="document 'b' for query 'q'"):
        evaluate({"q": {"a": 1}}, {"q": {"a": 1.0, "b": score}})


@pytest.mark.parametrize("relevance", [1.0, np.int64(1), 10**6])
def test_refuses_relevances_that_trec_eval_cannot_hold(relevance):
    with pytest.raises(InputError, match="document 'a' for query 'q' is judged"):
        evaluate({"q": {"a": relevance}}, RANKING)


def test_refuses_qrels_of_other_queries():
    with pytest.raises(InputError, match="none of the 1 queries in the qrels"):
        evaluate({"other": {"a": 1}}, RANKING)


def test_roc_auc_is_the_share_of_ordered_pairs():
    labels, scores = [[1, 0], [1, 1], [0, 1]], [[0.9, 0.4], [0.5, 0.4], [0.6, 0.7]]
    pairs = [(p, n) for p in (0.9, 0.5, 0.4, 0.7) for n in (0.4, 0.6)]
    expected = sum((p > n) + 0.5 * (p == n) for p, n in pairs) / len(pairs)
    assert roc_auc(labels, scores) == pytest.approx(expected)


def test_a_row_without_a_positive_has_no_label_ranking_average_precision():
    labels = [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    scores = [[0.9, 0.8, 0.7], [1, 2, 3], [0.5, 0.5, 0.1]]
    # First row: ranks 1 and 3. Third: its positive ties for ranks 1 and 2, and takes the worse.
    expected = [(1 / 1 + 2 / 3) / 2, math.nan, 1 / 2]
    found = label_ranking_average_precisions(labels, scores)
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("measure", "labels", "scores", "problem"),
    [
        (roc_auc, [1, 1], [0.1, 0.2], "labels are all alike"),
        (roc_auc, [0, 0], [0.1, 0.2], "labels are all alike"),
        (roc_auc, [1, 0], [0.1], r"scores has shape \(1,\)"),
        (roc_auc, [1, 2], [0.1, 0.2], r"hold 2 and 0.2 at \(1,\)"),
        (roc_auc, [1, 0], [0.1, math.nan], r"hold 0 and nan at \(1,\)"),
        (label_ranking_average_precisions, [[0, 0]], [[1, 2]], "labels hold no positive"),
        (label_ranking_average_precisions, [0, 1], [1, 2], r"labels has shape \(2,\)"),
    ],
)
def test_label_measures_refuse_bad_input(measure, labels, scores, problem):
    with pytest.raises(InputError, match=problem):
        measure(labels, scores)
