"""The tag experiment: fusion and summaries by hand, and the whole command on a tiny folder."""

import json
import sys

import numpy as np
import pytest

import docent_jax
from docent_jax import tag_evaluation
from docent_jax.config import Config, DataConfig, ModelConfig
from docent_jax.datasets.load import load_documents
from docent_jax.tag_evaluation import TagSplit, measure
from experiments.docent import tag_prediction
from experiments.docent.tag_comparison import evaluate_split, fixed, fuse, summary, top_tags
from retrieval_jax.sharding import MeshConfig
from retrieval_jax.training import TrainingConfig
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


@pytest.mark.slow
def test_the_command_compares_dual_and_full_with_the_baselines(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gensim")
    folder = write_films(tmp_path / "imdb_movielens")
    (tmp_path / "encoder").mkdir()
    write_tiny_bert(tmp_path / "encoder", words=(*WORDS, "film", "about", "review"))
    data = DataConfig(source="imdb_movielens", folder=str(folder), max_length=24)
    training = TrainingConfig(
        steps=2, batch_size=8, evaluate_every=2, checkpoint_every=2, mesh=MeshConfig(data=8)
    )
    runs = []
    for kind in ("dual", "full"):
        model = ModelConfig(kind=kind, encoder=str(tmp_path / "encoder"), entity_init="mean")
        config = Config(data, model, training)
        corpus = load_documents(data, tmp_path / "data")
        runs.append(docent_jax.pretrain(config, corpus, tmp_path / kind)[0].path)
    small = ["--tuning.training.steps", "2", "--tuning.training.batch-size", "8"]
    chosen = ["--learning-rates", "1e-3", "--open-tags", "8"]
    arguments = ["--data-dir", str(tmp_path / "data"), "--results", str(tmp_path / "tags.json")]
    command = ["x", "--runs", *map(str, runs), *small, *chosen, *arguments]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(tag_evaluation, "FILM_FOLDS", 3)
    tag_prediction.main()
    results = json.loads((tmp_path / "tags.json").read_text())
    dual, full = map(str, runs)
    names = {"top tags", "TF-IDF", "BM25", "bag of words", "bag of sentences", "Human", dual, full}
    assert names < set(results["closed"])
    # Every film's reviews hold its tags and no other film's: the words find them.
    assert results["closed"]["TF-IDF"]["T = 0"]["test"]["MAP"]["mean"] > 0.9
    assert results["open"]["all"]["TF-IDF"]["T = 0"]["test"]["AUC"]["mean"] > 0.9
    assert set(results["open"]["8"]) >= {dual, full}
    assert len(results["counts"]) == (3 + 1) * 3 * 2
    assert results == json.loads((runs[0] / "tags.json").read_text())
    printed = capsys.readouterr().out
    assert "Closed vocabulary" in printed and "TF-IDF" in printed
