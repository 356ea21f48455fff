import math
import random

import jax.numpy as jnp
import numpy as np
import pytest

from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import (
    evaluate,
    fuse,
    label_ranking_average_precision,
    ranking_from_scores,
    ranking_from_top_k,
    read_qrels,
    read_ranking,
    roc_auc,
    write_qrels,
    write_ranking,
)
from retrieval_jax.search import top_k

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


def test_written_ranks_are_those_that_trec_eval_computes(tmp_path):
    rng = random.Random(1)
    scores = {f"d{i}": rng.randrange(8) / 3 + rng.random() * 1e-12 for i in range(40)}
    write_ranking(tmp_path / "a", {"q": scores}, "tag")
    for line in (tmp_path / "a").read_text().splitlines():
        _, _, document, rank, _, _ = line.split()
        mean = evaluate({"q": {document: 1}}, {"q": scores}, ["RR"]).mean
        assert mean == {"RR": pytest.approx(1 / int(rank))}


@pytest.mark.parametrize(
    "name",
    ["reciprocal", "R", "R@0", "R@1.5", "Bpref@5", "RR(level=2)", "R(rel=0)@5", "", "R@", "RR@10"],
)
def test_refuses_unknown_measures(name):
    with pytest.raises(InputError, match="Use names like RR"):
        evaluate(QRELS, RANKING, [name])


@pytest.mark.parametrize("score", [math.nan, math.inf, 1e39])
def test_refuses_scores_that_are_not_finite_in_float32(score, tmp_path):
    ranking = {"q": {"a": 1.0, "b": score}}
    for call in (
        lambda: evaluate({"q": {"a": 1}}, ranking),
        lambda: fuse([ranking], [1.0]),
        lambda: write_ranking(tmp_path / "ranking", ranking, "tag"),
        lambda: ranking_from_scores(["q"], ["a", "b"], [[1.0, score]], k=1),
        lambda: ranking_from_top_k(["q"], ["a", "b"], [[0, 1]], [[1.0, score]]),
    ):
        with pytest.raises(InputError, match="document 'b' for query 'q'"):
            call()


@pytest.mark.parametrize("relevance", [1.0, np.int64(1), 10**6])
def test_refuses_relevances_that_trec_eval_cannot_hold(relevance):
    with pytest.raises(InputError, match="document 'a' for query 'q' is judged"):
        evaluate({"q": {"a": relevance}}, RANKING)


def test_refuses_qrels_of_other_queries():
    with pytest.raises(InputError, match="none of the 1 queries in the qrels"):
        evaluate({"other": {"a": 1}}, RANKING)


@pytest.mark.parametrize("k", [None, 1, 2, 3, 9])
def test_ranking_from_scores_cuts_ties_as_trec_eval_breaks_them(k):
    scores = [[0.5, 0.5 + 1e-12, 0.5, 0.1], [1, 2, 3, 4]]
    ranking = ranking_from_scores(["q", "p"], ["a", "b", "c", "d"], scores, k)
    assert [list(documents) for documents in ranking.values()] == [
        ["c", "b", "a", "d"][:k],
        ["d", "c", "b", "a"][:k],
    ]
    assert ranking["q"]["c"] == 0.5
    assert ranking["p"]["d"] == 4.0


def test_ranking_from_scores_takes_every_dtype():
    for scores in (jnp.array([[1, 3, 2]], jnp.bfloat16), np.array([[1, 3, 2]], np.uint8)):
        assert ranking_from_scores(["q"], ["a", "b", "c"], scores, 2) == {"q": {"b": 3, "c": 2}}


def test_search_and_all_scores_give_one_ranking():
    rng = np.random.default_rng(0)
    queries, documents = rng.integers(-2, 3, (4, 3)), rng.integers(-2, 3, (40, 3))
    document_ids = [f"d{i:02}" for i in reversed(range(40))]
    scores, indices = top_k(queries.astype(np.float32), documents.astype(np.float32), 10, 16)
    found = ranking_from_top_k(["p", "q", "r", "s"], document_ids, indices, scores)
    assert found == ranking_from_scores(
        ["p", "q", "r", "s"], document_ids, queries @ documents.T, 10
    )


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: ranking_from_scores(["q", "q"], ["a"], [[1], [2]]), "query_ids: 'q' occurs 2"),
        (lambda: ranking_from_scores(["q"], ["a", "a"], [[1, 2]]), "document_ids: 'a' occurs 2"),
        (lambda: ranking_from_scores(["q"], ["a", "b"], [[1]]), r"scores has shape \(1, 1\)"),
        (lambda: ranking_from_scores(["q"], ["a"], [[1]], k=0), "k is 0"),
        (lambda: ranking_from_scores([], ["a"], np.ones((0, 1))), "query_ids is empty"),
        (lambda: ranking_from_top_k(["q"], ["a"], [[1]], [[1]]), "indices: 1 is outside"),
        (lambda: ranking_from_top_k(["q"], ["a"], [[-1]], [[1]]), "indices: -1 is outside"),
        (lambda: ranking_from_top_k(["q"], ["a"], [[0, 0]], [[1, 1]]), "of query 'q': 'a' occurs"),
        (lambda: ranking_from_top_k(["q"], ["a"], [0], [1]), r"indices has shape \(1,\)"),
        (lambda: ranking_from_top_k(["q"], ["a"], [[0]], [[1, 2]]), r"scores has shape \(1, 2\)"),
    ],
)
def test_refuses_bad_ids_and_shapes(call, problem):
    with pytest.raises(InputError, match=problem):
        call()


def test_fuse_adds_normalised_scores():
    first = {"q": {"a": 10.0, "b": 20.0, "c": 30.0}, "p": {"a": 5.0, "b": 5.0}}
    second = {"q": {"c": -1.0, "d": 1.0}, "r": {"a": 7.0}}
    assert fuse([first, second], [2.0, 3.0]) == {
        "q": {"a": 0.0, "b": 1.0, "c": 2.0, "d": 3.0},
        "p": {"a": 0.0, "b": 0.0},
        "r": {"a": 0.0},
    }


def test_fuse_refuses_other_than_one_weight_per_ranking():
    with pytest.raises(InputError, match="weights: 2 for 1 rankings"):
        fuse([RANKING], [0.5, 0.5])


def test_files_hold_rankings_and_qrels_exactly(tmp_path):
    ranking = {"q2": {"b": 0.1 + 0.2, "a": -1e-30}, "q1": {"東京": 3.0}}
    write_ranking(tmp_path / "ranking", ranking, "tag")
    assert read_ranking(tmp_path / "ranking") == ranking
    assert (tmp_path / "ranking").read_text(encoding="utf-8") == (
        "q1 Q0 東京 1 3.0 tag\nq2 Q0 b 1 0.30000000000000004 tag\nq2 Q0 a 2 -1e-30 tag\n"
    )
    write_qrels(tmp_path / "qrels", QRELS)
    assert read_qrels(tmp_path / "qrels") == QRELS
    assert (tmp_path / "qrels").read_text().startswith("q 0 a 0\nq 0 b 3\n")


@pytest.mark.parametrize("bad", ["New York", "", "a\u3000b", "a\n"])
def test_writers_refuse_white_space_and_leave_no_file(bad, tmp_path):
    path = tmp_path / "file"
    for call in (
        lambda: write_ranking(path, {"q": {bad: 1.0}}, "tag"),
        lambda: write_ranking(path, {bad: {"a": 1.0}}, "tag"),
        lambda: write_ranking(path, RANKING, bad),
        lambda: write_qrels(path, {"q": {"a": 1, bad: 1}}),
        lambda: write_qrels(path, {bad: {"a": 1}}),
    ):
        with pytest.raises(InputError, match="is empty or contains white space"):
            call()
    assert not path.exists()


@pytest.mark.parametrize(
    ("read", "text", "problem"),
    [
        (read_ranking, "q Q0 a 1 2.5 tag\n\nq Q0 b 2 1.5\n", "line 3: 5 fields"),
        (read_ranking, "q Q0 a 1 high tag\n", "line 1: the score is 'high'"),
        (read_ranking, "q Q0 a 1 nan tag\n", "line 1: the score is 'nan'"),
        (read_ranking, "q Q0 a 1 2 t\nq Q0 a 2 1 t\n", "line 2: document 'a' occurs twice"),
        (read_qrels, "q 0 a\n", "line 1: 3 fields"),
        (read_qrels, "q 0 a 1.5\n", "line 1: the relevance is '1.5'"),
        (read_qrels, "q 0 a 1\nq 0 a 0\n", "line 2: document 'a' occurs twice"),
    ],
)
def test_readers_name_the_malformed_line(read, text, problem, tmp_path):
    path = tmp_path / "file.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=f"file.txt, {problem}"):
        read(path)


def test_readers_refuse_unreadable_files(tmp_path):
    (tmp_path / "latin").write_bytes(b"q 0 \xe9 1\n")
    for name in ("latin", "missing"):
        with pytest.raises(InputError, match=f"{name} cannot be read"):
            read_qrels(tmp_path / name)


def test_roc_auc_is_the_share_of_ordered_pairs():
    labels, scores = [[1, 0], [1, 1], [0, 1]], [[0.9, 0.4], [0.5, 0.4], [0.6, 0.7]]
    pairs = [(p, n) for p in (0.9, 0.5, 0.4, 0.7) for n in (0.4, 0.6)]
    expected = sum((p > n) + 0.5 * (p == n) for p, n in pairs) / len(pairs)
    assert roc_auc(labels, scores) == pytest.approx(expected)


def test_label_ranking_average_precision_leaves_out_rows_without_a_positive():
    labels = [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    scores = [[0.9, 0.8, 0.7], [1, 2, 3], [0.5, 0.5, 0.1]]
    # First row: ranks 1 and 3. Third: its positive ties for ranks 1 and 2, and takes the worse.
    expected = ((1 / 1 + 2 / 3) / 2 + 1 / 2) / 2
    assert label_ranking_average_precision(labels, scores) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("measure", "labels", "scores", "problem"),
    [
        (roc_auc, [1, 1], [0.1, 0.2], "labels are all alike"),
        (roc_auc, [0, 0], [0.1, 0.2], "labels are all alike"),
        (roc_auc, [1, 0], [0.1], r"scores has shape \(1,\)"),
        (roc_auc, [1, 2], [0.1, 0.2], r"hold 2 and 0.2 at \(1,\)"),
        (roc_auc, [1, 0], [0.1, math.nan], r"hold 0 and nan at \(1,\)"),
        (label_ranking_average_precision, [[0, 0]], [[1, 2]], "labels hold no positive"),
        (label_ranking_average_precision, [0, 1], [1, 2], r"labels has shape \(2,\)"),
    ],
)
def test_label_measures_refuse_bad_input(measure, labels, scores, problem):
    with pytest.raises(InputError, match=problem):
        measure(labels, scores)
