"""The tables and reranking of `ltr_jax` on a small collection, from training to results."""

import dataclasses
import json

import numpy as np
import pytest

import ltr_jax
from experiments.ltr import comparison, rerank
from ltr_jax.evaluation import MEASURE
from ltr_jax.training import PreparedVectors
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation
from tests.ltr_jax.toy_collection import toy_collection, toy_config, toy_vectors

COLLECTION = toy_collection()


def test_fusion_takes_the_weight_that_is_best_on_dev():
    dev = COLLECTION.splits["dev"]
    # The first system knows the answers, the second is the wrong way round.
    right = {q: {d: float(dev.qrels[q].get(d, 0)) for d in c} for q, c in dev.candidates.items()}
    wrong = {q: {d: -score for d, score in of.items()} for q, of in right.items()}
    systems = [
        {"dev": comparison.to_levels(ranking, dev, (20, 40))} for ranking in (right, wrong, right)
    ]
    fused, weight = comparison.fuse_on_dev(systems[0], systems[1], dev, "dev")
    assert weight > 0.5
    values = comparison.evaluate_levels(fused, dev)
    assert {level: value.mean[MEASURE] for level, value in values.items()} == {20: 1.0, 40: 1.0}
    _, weight = comparison.fuse_on_dev(systems[1], systems[2], dev, "dev")
    assert weight < 0.5


def evaluation(*values):
    rows = {f"q{i}": {MEASURE: value} for i, value in enumerate(values)}
    return Evaluation(rows, {MEASURE: float(np.mean(values))})


def test_the_summary_has_means_and_a_test_for_each_cell():
    low, high = evaluation(0.1, 0.2, 0.3, 0.2, 0.1, 0.2), evaluation(0.6, 0.5, 0.9, 0.7, 0.5, 0.4)
    pairs = {"en-de": {"text": [{40: low, 200: low}] * 2, "text+meta": [{40: high, 200: low}] * 2}}
    cells = comparison.cell_evaluations(pairs)
    assert list(cells["text"]) == ["en-de 40", "en-de 200"]
    summary = comparison.summarise(cells, "test", comparison.TESTED)
    assert summary["systems"]["text+meta"]["test"]["en-de 40"] == {
        "mean": pytest.approx(0.6),
        "sd": 0.0,
    }
    first, second = summary["significance"]
    assert (first["first"], first["second"]) == ("text+meta", "text")
    assert first["difference"] == pytest.approx(0.6 - 1.1 / 6)
    assert first["p"] == pytest.approx(2 / 2**6)  # exact: both ends of all sign patterns
    assert first["p_holm"] == pytest.approx(4 / 2**6)
    assert second["p_holm"] == 1.0


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of one pair and one seed, and how often something was trained for it."""
    folder = tmp_path_factory.mktemp("table")
    command = comparison.Command(
        config=toy_config(objective="in_batch", interaction="product", layers=1, steps=40),
        pairs=("en-de",),
        seeds=(0,),
        difficulties=(20, 40),
        runs=folder / "runs",
        data_dir=folder / "data",
        results=folder / "results" / "toy.json",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "load_collection", lambda *_: COLLECTION)
        prepared = PreparedVectors(toy_vectors(), {"words": 1.5})
        patch.setattr(ltr_jax, "prepare_vectors", lambda *_: prepared)
        record = comparison.run_table(command, "ltr toy", "Toy")
    return command, record


@pytest.mark.slow
def test_the_record_holds_every_system_and_cell(table):
    command, record = table
    assert json.loads(command.results.read_text()) == json.loads(json.dumps(record))
    systems = ["popularity", "tf-idf", "text", "meta", "text+meta"]
    assert set(record["systems"]) == {*systems, comparison.ENSEMBLE, comparison.FUSION}
    for system in record["systems"].values():
        assert set(system["test"]) == {"en-de 20", "en-de 40"}
        assert all(0 < cell["mean"] <= 1 for cell in system["test"].values())
    assert record["systems"]["text+meta"]["test"]["en-de 40"]["mean"] > 0.6
    tested = [(row["first"], row["second"]) for row in record["significance"]]
    assert tested == [pair for pair in comparison.TESTED for _ in range(2)]
    seconds = record["seconds"]["en-de"]["text"][0]
    assert seconds["words"] == 1.5
    assert seconds["ranker"] > 0
    assert str(command.runs) not in json.dumps(record)


@pytest.mark.slow
def test_finished_runs_are_not_trained_again(table, monkeypatch):
    command, record = table
    monkeypatch.setattr(comparison, "load_collection", lambda *_: COLLECTION)
    prepared = PreparedVectors(toy_vectors(), {})
    monkeypatch.setattr(ltr_jax, "prepare_vectors", lambda *_: prepared)
    monkeypatch.setattr(ltr_jax, "load", lambda _: pytest.fail("its rankings are there"))
    again = comparison.run_table(command, "ltr toy", "Toy")
    for key in ("systems", "significance", "fusion_weights", "seconds"):
        assert json.dumps(again[key]) == json.dumps(record[key])


@pytest.mark.slow
def test_a_table_of_nothing_is_refused(table):
    with pytest.raises(InputError, match="no pair, features, seed or difficulty"):
        comparison.run_table(dataclasses.replace(table[0], seeds=()), "ltr toy", "Toy")


@pytest.mark.slow
def test_reranking_of_what_tfidf_finds(table, tmp_path):
    command = table[0]
    path = command.runs / "debian_clir" / "en-de" / "text+meta" / "seed0"
    # Each query translated as its own document says it: tf-idf then finds the document.
    lines = []
    for split in ("dev", "test"):
        for query in COLLECTION.splits[split].query_ids:
            text = COLLECTION.documents.texts[COLLECTION.documents.index[f"d{query[1:]}"]]
            lines.append(f"{query}\t{text}\n")
    translations = tmp_path / "translations.tsv"
    translations.write_text("".join(lines))
    options = rerank.Command((path,), n=(5, 10), translations=translations)
    record = rerank.rerank(options, (path,), COLLECTION)
    assert set(record["systems"]) == {"tf-idf", rerank.PLAIN, rerank.WEIGHTED}
    cells = {name: system["test"]["en-de 10"]["mean"] for name, system in record["systems"].items()}
    assert cells["tf-idf"] > 0.7
    assert cells[rerank.WEIGHTED] >= min(cells["tf-idf"], cells[rerank.PLAIN])
    assert len(record["model_weights"]) == 1
    assert {row["first"] for row in record["significance"]} == {rerank.PLAIN, rerank.WEIGHTED}


def test_queries_are_translated_in_one_way(tmp_path):
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("qtopic1\tdtopic1\n")
    command = rerank.Command((), dictionary=dictionary)
    texts = rerank.translated_queries(command, COLLECTION)
    assert "dtopic1" in texts["q49"]
    assert rerank.translated_queries(rerank.Command(()), COLLECTION) is None
    learned = rerank.translated_queries(rerank.Command((), learn=True), COLLECTION)
    assert set(learned) == set(texts)
    with pytest.raises(InputError, match="more than one of"):
        rerank.translated_queries(dataclasses.replace(command, learn=True), COLLECTION)
