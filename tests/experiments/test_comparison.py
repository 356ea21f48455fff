"""Zero-shot comparisons: tests of all measures, names left in, and ids of TREC files."""

import dataclasses
import sys

import numpy as np
import pytest

import docent_jax
from docent_jax.config import Config, DataConfig, ModelConfig
from docent_jax.data import EncodedCorpus
from docent_jax.datasets.corpus import EntityCorpus, Query
from docent_jax.datasets.load import load_documents
from docent_jax.evaluation import MEASURES
from experiments.docent import comparison, zero_shot_ranking
from experiments.docent.comparison import (
    BAG_MAX,
    BM25,
    FROZEN,
    FUSED_WITH,
    LEXICAL,
    TFIDF,
    check_same_baselines,
    compare,
    names_kept,
    print_table,
    results_record,
    without_spaces,
)
from experiments.records import read_record
from retrieval_jax.errors import InputError
from retrieval_jax.pipeline import TokenTable
from retrieval_jax.rankings import read_ranking, write_ranking
from retrieval_jax.runs import RunFolder
from retrieval_jax.sharding import MeshConfig
from retrieval_jax.significance import holm, paired_randomisation
from retrieval_jax.training import TrainingConfig
from tests.bert_folders import write_tiny_bert
from tests.docent_jax.datasets.film_files import ORDINALS, query, write_imdb_folder

ENTITIES = tuple(f"e{i}" for i in range(200))


def test_titles_become_ids_of_a_trec_file(tmp_path):
    ranking = {"q1": {"Mom (1991) [tt0100172]": 2.0, "lib.fft": 1.0}}
    write_ranking(tmp_path / "r.trec", without_spaces(ranking), "x")
    read = read_ranking(tmp_path / "r.trec")
    assert read == {"q1": {"Mom_(1991)_[tt0100172]": 2.0, "lib.fft": 1.0}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("encoder", "another"),
        ("layers", 2),
        ("pooling", "cls"),
        ("dtype", "bfloat16"),
        ("temperature", 0.1),
        ("fit_epochs", 3.0),
        ("fit_learning_rate", 0.01),
    ],
)
def test_runs_that_need_other_baselines_are_refused(tmp_path, field, value):
    """The first run's settings fit the table of the frozen encoder for all."""
    first = Config()
    other = dataclasses.replace(first, model=dataclasses.replace(first.model, **{field: value}))
    runs = [RunFolder(tmp_path / name, "docent_jax") for name in ("first", "other")]
    both = f"other has model.{field} {value!r}, .*first has {getattr(first.model, field)!r}"
    with pytest.raises(InputError, match=both):
        check_same_baselines(runs[1], other, runs[0], first)
    with pytest.raises(InputError, match=f"model.{field}"):
        check_same_baselines(runs[0], first, runs[1], other)


def test_the_record_says_how_the_table_of_the_frozen_encoder_was_fitted(tmp_path):
    first = Config(
        model=ModelConfig(temperature=0.1, fit_epochs=3.0), training=TrainingConfig(seed=5)
    )
    # What does not bear upon baselines may differ.
    model = dataclasses.replace(first.model, kind="hybrid", dropout=0.2, mlm_weight=0.5)
    other = dataclasses.replace(first, model=model, training=TrainingConfig(seed=6))
    runs = [RunFolder(tmp_path / name, "docent_jax") for name in ("first", "other")]
    check_same_baselines(runs[1], other, runs[0], first)
    corpus = EntityCorpus(("e", "f"), ("s", "t"), np.arange(2, dtype=np.int32), {})
    configs = {"DocEnt-Dual": first, "DocEnt-Hybrid": other}
    record = results_record(configs, [5, 6], corpus, "f", {"systems": {}})
    assert record["encoder_frozen"] == {
        "dtype": "float32",
        "temperature": 0.1,
        "fit_epochs": 3.0,
        "fit_learning_rate": 3e-3,
        "seed": 5,
    }


QUERIES = {
    split: tuple(Query(f"{split}{i}", "x", (i,)) for i in range(8)) for split in ("dev", "test")
}
CORPUS = EntityCorpus(ENTITIES, ENTITIES, np.arange(len(ENTITIES), dtype=np.int32), QUERIES)


def ranking(ranks):
    """The answer to each of eight queries at one of these ranks, from 1."""
    scores = np.tile(-np.arange(len(ENTITIES), dtype=float), (8, 1))
    found = {}
    for i, rank in enumerate(ranks):
        others = [name for name in ENTITIES if name != f"e{i}"]
        order = [*others[: rank - 1], f"e{i}", *others[rank - 1 :]]
        found[i] = dict(zip(order, scores[i], strict=True))
    return {split: {f"{split}{i}": of for i, of in found.items()} for split in QUERIES}


def test_models_are_tested_against_every_kind_of_baseline(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    ranks = {BM25: [2] * 8, TFIDF: [4] * 8, FROZEN: [5] * 8, BAG_MAX: [8] * 8}
    monkeypatch.setattr(comparison, "model_rankings", lambda path, corpus: ranking([1] * 8))
    baselines = {name: ranking(of) for name, of in ranks.items()}
    found = compare(CORPUS, baselines, {"DocEnt-Dual": [tmp_path]})
    rows = {(r["first"], r["second"]): r for r in found["significance"] if r["measure"] == "RR"}
    for name, of in ranks.items():
        row = rows["DocEnt-Dual", name]
        assert row["difference"] == pytest.approx(1 - 1 / of[0])
        assert row["p"] == pytest.approx(
            paired_randomisation(np.full(8, 1 - 1 / of[0]), np.zeros(8))
        )
    # One family: these four, and each fusion against what it is made of, on all measures.
    pairs = 4 + 2 * len(FUSED_WITH)
    assert len(found["significance"]) == pairs * len(MEASURES)
    p_values = [row["p"] for row in found["significance"]]
    assert [row["p_holm"] for row in found["significance"]] == pytest.approx(holm(p_values))
    print_table(found, CORPUS)
    assert f"DocEnt-Dual - {TFIDF}" in capsys.readouterr().out


def test_all_measures_are_tested_in_one_family(capsys):
    better, worse = [1] * 6 + [60, 120], [2] * 6 + [60, 40]
    baselines = {BM25: ranking(worse), TFIDF: ranking(worse), names_kept(BM25): ranking(better)}
    found = compare(CORPUS, baselines, {})
    assert found["systems"][LEXICAL] == found["systems"][BM25] == found["systems"][TFIDF]
    rows = found["significance"]
    assert [row["measure"] for row in rows] == list(MEASURES)
    assert {(row["first"], row["second"]) for row in rows} == {(names_kept(BM25), BM25)}
    reciprocal = (6 + 1 / 60 + 1 / 120) / 8 - (3 + 1 / 60 + 1 / 40) / 8
    assert [row["difference"] for row in rows] == pytest.approx([reciprocal, -1 / 8, -1 / 8])
    values = [[1 / a - 1 / b for a, b in zip(better, worse, strict=True)]]
    values += [[(a <= k) - (b <= k) for a, b in zip(better, worse, strict=True)] for k in (50, 100)]
    p_values = [paired_randomisation(of, np.zeros(8)) for of in values]
    assert [row["p"] for row in rows] == pytest.approx(p_values)
    assert [row["p_holm"] for row in rows] == pytest.approx(holm(p_values))
    print_table(found, CORPUS)
    assert "-0.125" in capsys.readouterr().out


def test_only_sentences_that_are_not_known_are_encoded(monkeypatch):
    known = {"a": np.array([1.0, 2.0]), "c": np.array([3.0, 4.0])}
    corpus = EntityCorpus(("x", "y"), ("a", "b", "c"), np.array([0, 0, 1], np.int32), {})
    tokens = TokenTable(np.array([[1, 2], [3, 4], [5, 6]], np.int32), np.full(3, 2, np.int32))
    encoded = []

    def encode(encode_batch, table, progress):
        encoded.append(table.input_ids.tolist())
        return np.full((1, 2), 9.0)

    monkeypatch.setattr(zero_shot_ranking, "encode", encode)
    monkeypatch.setattr(zero_shot_ranking, "jit_encoder", lambda config, pooling: len)
    encoder = type("Encoder", (), {"params": {}, "config": type("C", (), {"hidden_size": 2})})
    data = EncodedCorpus(corpus, tokens, {})
    vectors = zero_shot_ranking.encode_unknown(encoder, data, ModelConfig(), known)
    assert vectors.tolist() == [[1, 2], [9, 9], [3, 4]]
    assert encoded == [[[3, 4]]]


WORDS = ("space", "sea", "city", "war", "love", "time")


@pytest.mark.long
def test_the_command_shows_what_names_are_worth(tmp_path, monkeypatch, capsys):
    """Requests that give the film's name away: left in, it is what BM25 finds them by."""
    reviews = [
        (film, f"The {ordinal} review says that Gondola{film}x is about {WORDS[film % 6]} indeed.")
        for film in range(1, 31)
        for ordinal in ORDINALS
    ]
    movies = [(film, str(film), f"Gondola{film}x (1999)") for film in range(1, 31)]
    asked = "a film about {} and perhaps gondola{}x"
    queries = [
        query(f"redial-{film}", asked.format(WORDS[film % 6], film), film) for film in range(1, 31)
    ]
    folder = write_imdb_folder(tmp_path / "films", reviews, movies, queries=queries)
    write_tiny_bert(tmp_path / "encoder", words=(*WORDS, "film", "about", "review"))
    data = DataConfig(source="imdb_movielens", folder=str(folder), max_length=24)
    training = TrainingConfig(
        steps=2, batch_size=8, evaluate_every=2, checkpoint_every=2, mesh=MeshConfig(data=8)
    )
    model = ModelConfig(encoder=str(tmp_path / "encoder"), entity_init="mean", fit_epochs=1.0)
    corpus = load_documents(data, tmp_path / "data")
    run = docent_jax.pretrain(Config(data, model, training), corpus, tmp_path / "dual")[0].path
    arguments = ["--data-dir", str(tmp_path / "data"), "--results", str(tmp_path / "results.json")]
    monkeypatch.setattr(sys, "argv", ["x", "--runs", str(run), "--names-kept", *arguments])
    zero_shot_ranking.main()
    record = read_record(tmp_path / "results.json", "docent zero-shot ranking")
    test_rr = {name: of["test"]["RR"]["mean"] for name, of in record["systems"].items()}
    assert test_rr[names_kept(BM25)] > 0.9 > 0.7 > test_rr[BM25]
    pairs = {(row["first"], row["second"]) for row in record["significance"]}
    assert {(names_kept(name), name) for name in (BM25, BAG_MAX, FROZEN)} < pairs
    assert {("DocEnt-Dual + BM25", BM25), (f"DocEnt-Dual + {LEXICAL}", LEXICAL)} < pairs
    assert len(record["significance"]) == len(pairs) * len(MEASURES)
    assert names_kept(BM25) in capsys.readouterr().out
    kept = dataclasses.replace(data, keep_names=True)
    corpus = load_documents(kept, tmp_path / "data")
    run = docent_jax.pretrain(Config(kept, model, training), corpus, tmp_path / "kept")[0].path
    monkeypatch.setattr(sys, "argv", ["x", "--runs", str(run), "--names-kept", *arguments])
    with pytest.raises(SystemExit):
        zero_shot_ranking.main()
    assert "from which no names were removed" in capsys.readouterr().err
