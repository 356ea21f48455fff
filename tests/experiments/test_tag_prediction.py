"""The tag experiment: fusion and summaries by hand, and the whole command on a tiny folder."""

import dataclasses
import json
import sys

import numpy as np
import pytest

import docent_jax
from docent_jax import tag_evaluation
from docent_jax.config import Config, DataConfig, ModelConfig
from docent_jax.datasets.load import load_documents
from docent_jax.tag_evaluation import Protocol, TagSplit, measure
from docent_jax.tag_task import TagTuningConfig
from experiments.docent import tag_comparison, tag_prediction
from experiments.docent.tag_comparison import (
    FineTuned,
    evaluate_split,
    fixed,
    fuse,
    summary,
    top_tags,
    with_rate,
)
from retrieval_jax.errors import InputError
from retrieval_jax.runs import create_run
from retrieval_jax.sharding import MeshConfig
from retrieval_jax.training import Trained, TrainingConfig
from tests.bert_folders import write_tiny_bert
from tests.docent_jax.datasets.film_files import query, write_imdb_folder

FILMS = np.arange(6, dtype=np.int32)
TAGS = np.arange(3, dtype=np.int32)
SPLIT = TagSplit("closed", FILMS[:2], FILMS[2:4], FILMS[4:], TAGS, TAGS, TAGS)
VOTES = np.array([[1, 0, 1], [2, 0, 0], [0, 3, 0], [0, 0, 1], [0, 1, 0], [5, 0, 0]])


def test_fusion_adds_standard_scores():
    first = {"dev": np.array([[1.0, 3.0]]), "test": np.array([[5.0, 5.0]])}
    second = {"dev": np.array([[30.0, 10.0]]), "test": np.array([[0.0, 8.0]])}
    fused = fuse(first, second, 0.25)
    np.testing.assert_allclose(fused["dev"], [[0.25 * -1 + 0.75, 0.25 - 0.75]])
    np.testing.assert_allclose(fused["test"], [[-0.75, 0.75]])  # equal scores say nothing


def test_systems_are_measured_on_their_split_and_fusions_chosen_on_dev():
    perfect, noise = VOTES.astype(float), np.tile([0.0, 1.0, 2.0], (6, 1))
    systems = {"good": fixed(perfect), "noise": fixed(noise), "top": top_tags(VOTES)}
    measured = evaluate_split(systems, [("good", "noise")], SPLIT, VOTES[None], (0, 2))
    assert list(measured) == ["good", "noise", "top", "good + noise"]
    assert measured["good"][0]["test"].values["MAP"] == 1
    expected = measure(VOTES[4:], np.tile([2.0, 0.0, 1.0], (2, 1)), 0)
    assert measured["top"][0]["test"].values == expected.values
    assert measured["good + noise"][0]["dev"].values["MAP"] == 1
    both = summary([measured["good"][0]["test"], measured["noise"][0]["test"]])
    other = measured["noise"][0]["test"].values["MAP"]
    assert both["MAP"]["mean"] == pytest.approx((1 + other) / 2)
    assert both["MAP"]["sd"] == pytest.approx((1 - other) / np.sqrt(2))
    assert len(both["precision_at_k"]) == 3


WORDS = tuple(f"{place}{thing}" for place in ("space", "sea", "city") for thing in "abcdefgh")


def write_films(folder):
    """Forty films about one or two words each, and users who say so."""
    reviews, movies, tags = [], [], []
    for film in range(1, 41):
        about = [WORDS[film % 24], WORDS[(5 * film + 1) % 24]]
        for number in range(6):
            text = f"Review {film} {number} is a film about {about[number % 2]} and more."
            reviews.append((film, text))
        movies.append((film, str(1000 + film), f"Title{film} (1999)"))
        tags += [(film, f"ml10m:{user}", about[0]) for user in range(9)]
        tags += [(film, f"ml10m:{user}", about[1]) for user in range(4)]
    queries = [query(f"trec_tot-{i}", f"a film about {WORDS[i]} and more", i) for i in range(1, 8)]
    return write_imdb_folder(folder, reviews, movies, tags, queries, WORDS)


def test_each_split_takes_the_settings_that_are_best_on_its_own_dev(monkeypatch, tmp_path):
    best = {"first": 1e-3, "second": 1e-2}
    trained = []

    class Task:
        def __init__(self, split, rate):
            self.split, self.rate = split, rate

        def fingerprint(self):
            return self.split.name

        def scores(self, params, part):
            return self.split.part(part, np.full(VOTES.shape, self.rate))

    class Run:
        path = tmp_path

        def task(self, votes, split, tuning, dev_measures):
            assert dev_measures(VOTES[split.dev_films].astype(float))["MAP"] == 1
            return Task(split, tuning.training.optimizer.learning_rate)

    def fine_tune(task, folder):
        folder.mkdir()
        name = task.split.name
        trained.append((name, task.rate, len(task.split.dev_films)))
        return {}, Trained({}, 1, 1, {"MAP": 1.0 if task.rate == best[name] else 0.5}, None)

    monkeypatch.setattr(tag_comparison, "fine_tune", fine_tune)
    candidates = [with_rate(TagTuningConfig(), rate) for rate in best.values()]
    system = FineTuned(Run(), tmp_path / "kept", VOTES, VOTES[None], 0, candidates, dev_films=1)
    for name, rate in best.items():
        split = dataclasses.replace(SPLIT, name=name)
        assert system.choose(split).training.optimizer.learning_rate == rate
        scores = system(split)  # of all dev films, though one was looked at while training
        np.testing.assert_array_equal(scores["dev"], np.full((2, 3), rate))
        np.testing.assert_array_equal(scores["test"], np.full((2, 3), rate))
    # Each setting of each split once, and nothing but its scores is kept.
    assert sorted(trained) == [(name, rate, 1) for name in best for rate in best.values()]
    kept = {path.name for path in (tmp_path / "kept").glob("*/*")}
    assert kept == {"best.json", "dev.npy", "test.npy"}


def test_runs_are_called_by_their_models(tmp_path):
    kinds = {"one": "dual", "two": "hybrid", "three": "dual"}
    for name, kind in kinds.items():
        create_run(tmp_path / name, "docent_jax", Config(model=ModelConfig(kind=kind)), "data")
    one, two, three = (tmp_path / name for name in kinds)
    assert list(tag_prediction.named_configs([one, two])) == ["DocEnt-Dual", "DocEnt-Hybrid"]
    named = tag_prediction.named_configs([one, two, three])
    assert list(named) == ["DocEnt-Dual (one)", "DocEnt-Hybrid", "DocEnt-Dual (three)"]
    with pytest.raises(InputError, match="names a folder twice"):
        tag_prediction.named_configs([one, one])


def test_runs_as_pre_trained_score_tags_on_one_scale(monkeypatch, tmp_path):
    """The rows "zero-shot" are `tag_scores`, log P(e | t) of Full, not the logits of `score`."""
    scores = np.arange(18.0).reshape(6, 3)
    ranker = type("Ranker", (), {"tag_scores": lambda self, tags: scores + len(tags)})()
    monkeypatch.setattr(docent_jax, "load", lambda path: ranker)
    parts = {"bag_of_sentences": (None, "bag"), "tuned": None, "load_tag_run": None}
    for name, part in (parts | {"check_same_documents": None}).items():
        monkeypatch.setattr(tag_prediction, name, lambda *_, part=part: part)
    create_run(tmp_path, "docent_jax", Config(model=ModelConfig(kind="full")), "data")
    corpus = type("Corpus", (), {"entities": ()})
    films = type("Films", (), {"corpus": corpus, "vocabulary": ("a", "b", "c")})
    command = tag_prediction.Command((tmp_path,))
    protocol = Protocol("small", (0,), (SPLIT,), SPLIT, 1)
    systems = tag_prediction.encoders(command, films, VOTES, VOTES[None], protocol)
    found = systems["DocEnt-Full, zero-shot"](SPLIT)
    np.testing.assert_array_equal(found["test"], scores[4:] + 3)


def test_fewer_films_in_every_part():
    protocol = Protocol("small", (0,), (SPLIT,), SPLIT, 1)
    assert tag_prediction.limited(protocol, None) == protocol
    fewer = tag_prediction.limited(protocol, 1)
    assert fewer.name == "small, at most 1 films of a part"
    for split in (*fewer.closed, fewer.open):
        assert [len(split.train_films), len(split.dev_films), len(split.test_films)] == [2, 1, 1]


def test_a_threshold_without_a_positive_on_some_split_is_left_out(capsys):
    rows = [
        {"split": "closed", "part": part, "T": t, "positive pairs": n}
        for part, t, n in [("train", 0, 0), ("dev", 0, 3), ("test", 0, 2), ("dev", 2, 0)]
    ]
    protocol = Protocol("small", (0, 2), (SPLIT,), SPLIT, 1)
    assert tag_prediction.measurable(protocol, rows).thresholds == (0,)
    assert "T = [2]" in capsys.readouterr().out
    with pytest.raises(InputError, match="too few tags"):
        tag_prediction.measurable(protocol, [{**rows[1], "positive pairs": 0}, rows[3]])


@pytest.mark.long
def test_the_command_compares_a_run_with_the_baselines(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gensim")
    folder = write_films(tmp_path / "imdb_movielens")
    (tmp_path / "encoder").mkdir()
    write_tiny_bert(tmp_path / "encoder", words=(*WORDS, "film", "about", "review"))
    data = DataConfig(source="imdb_movielens", folder=str(folder), max_length=24)
    training = TrainingConfig(
        steps=2, batch_size=8, evaluate_every=2, checkpoint_every=2, mesh=MeshConfig(data=8)
    )
    model = ModelConfig(encoder=str(tmp_path / "encoder"), entity_init="mean")
    corpus = load_documents(data, tmp_path / "data")
    run = docent_jax.pretrain(Config(data, model, training), corpus, tmp_path / "dual")[0].path
    small = ["--tuning.training.steps", "2", "--tuning.training.batch-size", "8"]
    chosen = ["--learning-rates", "1e-3", "--open-tags", "8"]
    arguments = ["--data-dir", str(tmp_path / "data"), "--results", str(tmp_path / "tags.json")]
    command = ["x", "--runs", str(run), *small, *chosen, *arguments]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(tag_evaluation, "FILM_FOLDS", 3)
    tag_prediction.main()
    results = json.loads((tmp_path / "tags.json").read_text())
    dual = "DocEnt-Dual"
    names = {"top tags", "TF-IDF", "BM25", "bag of words", "bag of sentences", "Human", dual}
    assert names < set(results["closed"])
    # Every film's reviews hold its tags and no other film's: the words find them.
    assert results["closed"]["TF-IDF"]["T = 0"]["test"]["MAP"]["mean"] > 0.9
    assert results["open"]["all"]["TF-IDF"]["T = 0"]["test"]["AUC"]["mean"] > 0.9
    assert dual in results["open"]["8"]
    splits = {"closed, fold 1", "closed, fold 2", "closed, fold 3", "open"}
    assert set(results["tuning"][dual]) == splits
    assert len(results["counts"]) == (3 + 1) * 3 * 2
    assert results == json.loads((run / "tags.json").read_text())
    printed = capsys.readouterr().out
    assert "Closed vocabulary" in printed and "TF-IDF" in printed
