"""The benchmark of measures: ours equals trec_eval on drawn hits."""

import os

import numpy as np
import pytest

from benchmarks import evaluation, measure

OPTIONS = measure.Options(repeats=1, threads=len(os.sched_getaffinity(0)))
COMMAND = evaluation.Command(OPTIONS, queries=30, hits=50, judged=12, documents=256, digits=1)


def test_drawn_hits_are_distinct_best_first_and_partly_judged():
    rng = np.random.default_rng(0)
    hits = evaluation.draw_hits(COMMAND, rng)
    ranking, qrels = hits.dictionaries(), evaluation.draw_qrels(COMMAND, hits, rng)
    assert {len(documents) for documents in ranking.values()} == {50}
    first = list(ranking["q0"].values())
    assert first == sorted(first, reverse=True)
    assert len(set(first)) < 50
    among = [document in ranking[query] for query in qrels for document in qrels[query]]
    assert 0.5 < np.mean(among) < 0.8


def test_all_sides_give_the_same_values():
    pytest.importorskip("pytrec_eval")
    record = measure.compare("evaluation", evaluation.prepare, COMMAND, OPTIONS)
    assert list(record["sides"]) == ["ours", "pytrec_eval", "pytrec_eval_with_dictionaries"]
    assert max(record["largest_difference"].values()) < 1e-12
    with pytest.raises(measure.DisagreementError, match=r"ours and peer differ by 1e-08"):
        evaluation.check_values({"ours": np.array([[1.0]]), "peer": np.array([[1 + 1e-8]])})
