"""The ranker's benchmark: both sides train on the same instances and agree."""

import importlib.util
import os

import numpy as np
import pytest

from benchmarks import measure, ranker
from ltr_jax.config import SamplingConfig
from ltr_jax.data import InstanceSource, Sampler
from tests.ltr_jax.toy_collection import toy_collection

OPTIONS = measure.Options(repeats=1, threads=len(os.sched_getaffinity(0)))
COLLECTION = toy_collection()
COMMAND = ranker.Command(
    OPTIONS, queries=8, batches=2, filters=6, layers=3, hidden=10, max_words=12
)


def test_instances_are_the_three_level_pairs():
    sampling = SamplingConfig(partly_relevant=1, irrelevant=4, documents_per_query=3)
    queries, drawn = InstanceSource(Sampler(COLLECTION, sampling), 8, 0)[0]
    first, better, worse = ranker.instances_of(queries, drawn)
    ids, judged = COLLECTION.documents.ids, COLLECTION.splits["train"].qrels
    levels = [
        tuple(judged[f"q{query}"].get(ids[document], 0) for document in pair)
        for query, *pair in zip(first, better, worse, strict=True)
    ]
    assert set(levels) == {(2, 1), (2, 0), (1, 0)}
    assert levels.count((2, 0)) == int(drawn.weights[:, 0, 1:].sum())


def test_losses_of_the_first_step_agree_closely():
    agreeing = {"ours": np.array([1.0, 0.5]), "torch": np.array([1.0, 0.5005])}
    assert ranker.check_losses(agreeing)["first_loss"] == {"ours": 1.0, "torch": 1.0}
    with pytest.raises(measure.DisagreementError, match="first step differ by 2e-05"):
        ranker.check_losses({"ours": np.array([1.0]), "torch": np.array([1.00002])})


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_training_agrees_with_torch_pair_by_pair():
    def prepare(command):
        return ranker.compare_on(COLLECTION, command)

    record = measure.compare("ranker", prepare, COMMAND, OPTIONS)
    assert set(record["sides"]) == {"ours", "torch"}
    assert record["first_loss"]["ours"] > 0.1
    assert record["settings"]["pair"] == "en-de"
