import math
import random

import jax.numpy as jnp
import numpy as np
import pytest

from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import evaluate
from retrieval_jax.rankings import (
    fuse,
    ranking_from_scores,
    ranking_from_top_k,
    read_qrels,
    read_ranking,
    write_qrels,
    write_ranking,
)
from retrieval_jax.search import top_k

QRELS = {"q": {"a": 0, "b": 3, "c": 1}}
RANKING = {"q": {"a": 0.9, "b": 0.8, "c": 0.7}}


def test_written_ranks_are_those_that_trec_eval_computes(tmp_path):
    rng = random.Random(1)
    scores = {f"d{i}": rng.randrange(8) / 3 + rng.random() * 1e-12 for i in range(40)}
    write_ranking(tmp_path / "a", {"q": scores}, "tag")
    for line in (tmp_path / "a").read_text().splitlines():
        _, _, document, rank, _, _ = line.split()
        mean = evaluate({"q": {document: 1}}, {"q": scores}, ["RR"]).mean
        assert mean == {"RR": pytest.approx(1 / int(rank))}


@pytest.mark.parametrize("score", [math.nan, math.inf, 1e39])
def test_refuses_scores_that_are_not_finite_in_float32(score, tmp_path):
    ranking = {"q": {"a": 1.0, "b": score}}
    for call in (
        lambda: fuse([ranking], [1.0]),
        lambda: write_ranking(tmp_path / "ranking", ranking, "tag"),
        lambda: ranking_from_scores(["q"], ["a", "b"], [[1.0, score]], k=1),
        lambda: ranking_from_top_k(["q"], ["a", "b"], [[0, 1]], [[1.0, score]]),
    ):
        with pytest.raises(InputError, match="document 'b' for query 'q'"):
            call()


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
        (read_qrels, "q 0 a 1.5\n", r"line 1: the relevance is '1.5'\W+It must be an integer"),
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
