"""From a collection to a run folder and back: training, resume, raw strings, refusals."""

import dataclasses
import shutil
import sys

import numpy as np
import pytest

import ltr_jax
from ltr_jax.__main__ import main
from ltr_jax.config import PRESETS
from ltr_jax.evaluation import evaluate_levels, to_levels
from ltr_jax.training import train_ranker
from retrieval_jax.errors import InputError
from retrieval_jax.logs import read_metrics
from tests.ltr_jax.toy_collection import toy_collection, toy_config, toy_vectors

COLLECTION = toy_collection()
CONFIG = toy_config(objective="in_batch", interaction="product", layers=1, steps=80)
DOCUMENTS, QUERIES = COLLECTION.documents, COLLECTION.queries


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "first"
    return train_ranker(CONFIG, COLLECTION, toy_vectors, path)


def test_training_learns_the_topics(trained):
    run, result = trained
    assert result.best["nDCG"] > 0.75
    ranker = ltr_jax.load(run.path)
    answers = ranker.rank(
        "qtopic3 qfiller1", [f"dtopic{i} dfiller2" for i in range(8)], k=3, query_categories=["c3"]
    )
    assert answers[0].position == 3
    assert len(answers) == 3
    scores = [answer.score for answer in answers]
    assert scores == sorted(scores, reverse=True)


def test_the_command_prints_documents_as_they_are(trained, tmp_path, monkeypatch, capsys):
    path = tmp_path / "documents.txt"
    path.write_text("dtopic1 [b] dtopic1\ndtopic3 [/b]\n", encoding="utf-8")
    command = ["rank", "qtopic3 [i]", "--run", str(trained[0].path), "--documents", str(path)]
    monkeypatch.setattr(sys, "argv", ["ltr_jax", *command])
    main()
    title, *_, first, second, _ = capsys.readouterr().out.splitlines()
    assert title.strip() == "qtopic3 [i]"
    assert [cell.strip() for cell in first.split("│")[1:3]] == ["1", "dtopic3 [/b]"]
    assert [cell.strip() for cell in second.split("│")[1:3]] == ["2", "dtopic1 [b] dtopic1"]


def test_the_loaded_ranker_has_the_measure_of_its_best_step(trained):
    run, result = trained
    dev = COLLECTION.splits["dev"]
    ranking = ltr_jax.load(run.path).rank_candidates(QUERIES, DOCUMENTS, dev.candidates)
    levels = evaluate_levels(to_levels(ranking, dev, (40,)), dev)
    assert levels[40].mean == pytest.approx(result.best, abs=1e-6)
    # The same by raw strings, one query at a time.
    query = dev.query_ids[0]
    row, documents = QUERIES.index[query], dev.candidates[query]
    rows = [DOCUMENTS.index[document] for document in documents]
    scores = ltr_jax.load(run.path).score(
        QUERIES.texts[row],
        [DOCUMENTS.texts[r] for r in rows],
        QUERIES.categories[row],
        [DOCUMENTS.categories[r] for r in rows],
    )
    np.testing.assert_allclose(scores, [ranking[query][d] for d in documents], atol=1e-5)


def test_texts_without_words_or_categories_have_a_score(trained):
    ranker = ltr_jax.load(trained[0].path)
    documents = ["", "unknown words only", "dtopic1", "dtopic1"]
    categories = [[], ["no such category"], [], ["c1"]]
    scores = ranker.score("qtopic1", documents, ["c1"], categories)
    assert np.isfinite(scores).all()
    assert scores[0] == scores[1]
    assert scores[2] != scores[3]
    unknown = ranker.score("qtopic1", documents, ["no such category"], categories)
    assert unknown[2] == unknown[3]  # by words alone
    assert np.isfinite(ranker.score("", documents)).all()


@pytest.mark.parametrize("k", [0, -1])
def test_a_number_of_answers_below_1_is_refused(trained, k):
    with pytest.raises(InputError, match=f"^k is {k}\n"):
        ltr_jax.load(trained[0].path).rank("qtopic1", ["dtopic1", "dtopic2"], k=k)


@pytest.mark.parametrize("documents", [[], "a text", ["a", 3], np.array([1.0])])
def test_what_is_no_list_of_texts_is_refused(trained, documents):
    with pytest.raises(InputError, match="document texts"):
        ltr_jax.load(trained[0].path).score("qtopic1", documents)


def test_wrong_categories_and_languages_are_refused(trained):
    ranker = ltr_jax.load(trained[0].path)
    with pytest.raises(InputError, match="document_categories: 1 for 2 texts"):
        ranker.score("q", ["a", "b"], [], [["c1"]])
    with pytest.raises(InputError, match="query_categories"):
        ranker.score("q", ["a"], "c1")
    with pytest.raises(InputError, match="a side 'left'"):
        ranker.encode("left", ["a"])
    french = dataclasses.replace(DOCUMENTS, language="fr")
    with pytest.raises(InputError, match="document texts are in 'fr', the ranker's in 'de'"):
        ranker.rank_candidates(QUERIES, french, {})


def test_a_finished_run_is_not_trained_again_and_keeps_its_vectors(trained):
    run, result = trained

    def never():
        raise AssertionError("the run has its vectors")

    _, again = train_ranker(CONFIG, COLLECTION, never, run.path)
    assert (again.step, again.best_step) == (result.step, result.best_step)
    with pytest.raises(InputError, match="data fingerprint"):
        train_ranker(CONFIG, toy_collection(5), never, run.path)


def test_the_published_objective_and_epochs(tmp_path):
    config = toy_config("meta", activation="relu")
    config = dataclasses.replace(config, epochs=2)
    run, result = train_ranker(config, COLLECTION, toy_vectors, tmp_path / "run")
    assert result.step == 2 * 3  # 48 queries, 16 a batch
    entries = read_metrics(run.path)
    assert [entry["step"] for entry in entries if entry["kind"] == "dev"] == [3, 6]
    assert all(np.isfinite(entry["loss"]) for entry in entries if entry["kind"] == "train")
    assert ltr_jax.load(run.path).score("qtopic1", ["dtopic1"]).shape == (1,)


def test_dev_may_be_drawn_anew_for_each_seed(tmp_path, monkeypatch):
    seen = []

    def stand_in(task, training, run, mesh):
        seen.append((task.data.collection.splits, run.read_json("provenance.json")))

    monkeypatch.setattr("ltr_jax.training.train", stand_in)
    given = COLLECTION.splits
    for seed, redraw in ((0, False), (1, True), (2, True)):
        config = toy_config("meta")
        training = dataclasses.replace(config.training, seed=seed)
        config = dataclasses.replace(config, training=training, redraw_dev=redraw, dev_difficulty=9)
        train_ranker(config, COLLECTION, toy_vectors, tmp_path / str(seed))
    (same, _), (first, _), (second, _) = seen
    assert same is given
    assert {of["data_fingerprint"] for _, of in seen} == {COLLECTION.fingerprint}
    assert first["dev"].irrelevant != second["dev"].irrelevant
    for splits in (first, second):
        assert (splits["train"], splits["test"]) == (given["train"], given["test"])
        assert splits["dev"].qrels == given["dev"].qrels
        for query, drawn in splits["dev"].irrelevant.items():
            assert len(set(drawn)) == 9 and set(drawn) <= set(given["dev"].pool)
            assert not set(drawn) & given["dev"].qrels[query].keys()
    assert PRESETS["paper"].redraw_dev and not PRESETS["small"].redraw_dev


def test_a_language_without_tokenizer_is_refused(tmp_path):
    documents = dataclasses.replace(DOCUMENTS, language="zz")
    collection = dataclasses.replace(COLLECTION, documents=documents)
    with pytest.raises(InputError, match="no tokenizer for the language 'zz'"):
        train_ranker(toy_config(), collection, toy_vectors, tmp_path / "run")


def test_damaged_vectors_of_a_run_are_named(trained, tmp_path):
    shutil.copytree(trained[0].path, tmp_path / "run")
    (tmp_path / "run" / "vectors" / "query.safetensors").write_bytes(b"no tensors")
    with pytest.raises(InputError, match=r"query\.safetensors"):
        ltr_jax.load(tmp_path / "run")
