"""The commands of `experiments.ltr` on a small collection, from tables on disk to results."""

import dataclasses
import importlib.util
import json
import lzma
import sys
from pathlib import Path

import numpy as np
import pytest

import ltr_jax
from experiments.fusion import WEIGHTS
from experiments.ltr import comparison, rerank, table_patents, table_wikipedia, train
from experiments.ltr.tables import means_and_tests, print_table, to_cells
from ltr_jax.baselines import hardest_irrelevant, tfidf_ranking
from ltr_jax.datasets.debian_folder import read_debian_folder
from ltr_jax.evaluation import MEASURE, evaluate_levels, qrels_of, to_levels
from ltr_jax.tokenizers import split_words
from ltr_jax.training import PreparedVectors
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation, evaluate
from retrieval_jax.rankings import fuse
from tests.ltr_jax.datasets.test_boost_clir import write_corpus, write_marec
from tests.ltr_jax.toy_collection import toy_collection, toy_config, toy_vectors

COLLECTION = toy_collection()
needs_gensim = pytest.mark.skipif(
    importlib.util.find_spec("gensim") is None, reason="gensim is not installed"
)


def number(name):
    """Of the query or document `q7` or `d7`."""
    return int(name[1:])


def write_folder(folder):
    """The toy collection as tables of `debian_clir`."""
    queries, documents = COLLECTION.queries, COLLECTION.documents
    split = {q: name for name, of in COLLECTION.splits.items() for q in of.query_ids}
    tables = {
        "docs.tsv.xz": ["id\tsplit\tq_meta\td_meta"],
        "text_en.tsv.xz": ["id\tquery_masked\tshort\tlong"],
        "text_de.tsv.xz": ["id\tshort\tlong"],
        "qrels_en-de.tsv.xz": ["qid\tdocid\trel"],
        "cand_en-de.jsonl.xz": [],
        "category_graph.tsv.xz": ["a\tb"],
    }
    for i, query in enumerate(queries.ids):
        metas = (",".join(side.categories[i]) for side in (queries, documents))
        tables["docs.tsv.xz"].append("\t".join((str(i), split[query], *metas)))
        tables["text_en.tsv.xz"].append(f"{i}\t{queries.texts[i]}\t{queries.texts[i]}\tlong")
        tables["text_de.tsv.xz"].append(f"{i}\t{documents.texts[i]}\t")
        topics = COLLECTION.splits[split[query]]
        for document, relevance in topics.qrels[query].items():
            tables["qrels_en-de.tsv.xz"].append(f"{i}\t{number(document)}\t{relevance}")
        drawn = [number(document) for document in topics.irrelevant.get(query, ())]
        if drawn:
            row = {"qid": i, "split": split[query], "irr": drawn}
            tables["cand_en-de.jsonl.xz"].append(json.dumps(row))
    tables["category_graph.tsv.xz"] += ["\t".join(edge) for edge in COLLECTION.category_edges]
    for name, lines in tables.items():
        with lzma.open(folder / name, "wt", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))


def call(main, *words):
    """Runs a command in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["command", *map(str, words)])
        main()


SETTINGS = (
    *("--word-vectors.method", "pairs", "--model.filters", 16, "--model.layers", 1),
    *("--model.interaction", "cosine", "--model.start", "similarity"),
    *("--sampling.objective", "in_batch", "--sampling.documents-per-query", 3),
    *("--training.steps", 20, "--training.evaluate-every", 10),
)


@pytest.mark.parametrize("main", [train.main, table_wikipedia.main])
def test_steps_that_epochs_decide_are_refused_before_anything_is_read(main, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        call(main, "--preset", "small", "--training.steps", 9, "--data.folder", tmp_path)
    assert "error: training.steps is 9, but epochs is 5" in capsys.readouterr().err


def test_fusion_takes_the_weight_that_is_best_on_dev():
    dev = COLLECTION.splits["dev"]
    # The first system knows the answers, the second is the wrong way round.
    right = {q: {d: float(dev.qrels[q].get(d, 0)) for d in c} for q, c in dev.candidates.items()}
    wrong = {q: {d: -score for d, score in of.items()} for q, of in right.items()}
    right, wrong = (to_levels(ranking, dev, (20, 40)) for ranking in (right, wrong))
    weight = comparison.weight_on_dev(right, wrong, dev)
    assert weight > 0.5
    values = evaluate_levels(comparison.fuse_levels(right, wrong, weight), dev)
    assert {level: value.mean[MEASURE] for level, value in values.items()} == {20: 1.0, 40: 1.0}
    assert comparison.weight_on_dev(wrong, right, dev) < 0.5


def test_weights_are_chosen_at_the_difficulty_of_dev_whatever_is_shown(monkeypatch, tmp_path):
    """Text is deceived by all documents of the harder levels, meta by one of the easiest."""

    def score(features, document, relevances, irrelevant):
        if document in relevances:
            return 1 + relevances[document] / 10
        drawn = irrelevant.index(document)
        if features == "text":
            return 3.0 if drawn >= 20 else 0.0
        return 2.0 if drawn == 0 else 0.0

    def trained(config, collection, prepared, path):
        features = config.model.features
        rankings = {
            split: {
                q: {d: score(features, d, of.qrels[q], of.irrelevant[q]) for d in documents}
                for q, documents in of.candidates.items()
            }
            for split, of in collection.splits.items()
        }
        return rankings, {"words": 1.0, "ranker": 1.0}

    monkeypatch.setattr(comparison, "trained_rankings", trained)
    monkeypatch.setattr(
        ltr_jax, "prepare_vectors", lambda *_: PreparedVectors(toy_vectors(), {"words": 1.0})
    )
    found = {}
    for split in ("dev", "test"):
        command = comparison.Command(
            dataclasses.replace(toy_config(), dev_difficulty=20),
            pairs=("en-de",),
            features=("text", "meta"),
            seeds=(0,),
            difficulties=(20, 30, 40),
            split=split,
            data_dir=tmp_path,
        )
        found[split] = comparison.evaluate_pair(command, "en-de", COLLECTION)
        (of_seed,) = found[split].evaluations[comparison.ENSEMBLE]
        assert set(of_seed) == {20, 30, 40}
        assert of_seed[20].mean[MEASURE] == 1.0
    assert found["dev"].weights == found["test"].weights == {comparison.ENSEMBLE: [0.5]}


def test_scores_are_added_as_they_are():
    # Hardly apart in the second ranking: normalised, it would decide.
    first, second = {"q": {"x": 5.0, "y": 1.0}}, {"q": {"x": 0.0, "y": 0.5}}
    total = comparison.sum_scores([first, second], [0.4, 0.6])
    assert total["q"] == pytest.approx({"x": 2.0, "y": 0.7})


def evaluation(*values):
    rows = {f"q{i}": {MEASURE: value} for i, value in enumerate(values)}
    return Evaluation(rows, {MEASURE: float(np.mean(values))})


def test_the_summary_has_means_and_a_test_for_each_cell():
    low, high = evaluation(0.1, 0.2, 0.3, 0.2, 0.1, 0.2), evaluation(0.6, 0.5, 0.9, 0.7, 0.5, 0.4)
    pairs = {"en-de": {"text": [{40: low, 200: low}] * 2, "text+meta": [{40: high, 200: low}] * 2}}
    cells = to_cells(pairs)
    assert list(cells["text"]) == ["en-de 40", "en-de 200"]
    summary = means_and_tests(cells, "test", comparison.TESTED)
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
    assert (first["queries"], first["gains"]) == (6, pytest.approx([0.6 - 1.1 / 6] * 2))


def test_a_test_is_of_mean_values_and_its_gains_are_of_seeds():
    # All 3 differences are positive: 2 of the 8 sign patterns are as extreme.
    worse = [evaluation(0.1, 0.2, 0.3), evaluation(0.1, 0.2, 0.3)]
    better = [evaluation(0.2, 0.4, 0.6), evaluation(0.2, 0.4, 0.8)]
    cells = {"text": {"en-de 40": worse}, "text+meta": {"en-de 40": better}}
    (row,) = means_and_tests(cells, "test", comparison.TESTED)["significance"]
    assert row["difference"] == pytest.approx(1.4 / 6)
    assert row["gains"] == pytest.approx([0.2, 0.8 / 3])
    assert row["p"] == row["p_holm"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("worse", "problem"),
    [([0.1, 0.2, 0.3], "do not judge the same queries"), ([0.1, 0.2], "have 2 and 1 runs")],
)
def test_runs_that_do_not_correspond(worse, problem):
    better = [evaluation(0.5, 0.6)] * 2
    cells = {"text": {"en-de 40": [evaluation(*worse)]}, "text+meta": {"en-de 40": better}}
    with pytest.raises(InputError, match=problem):
        means_and_tests(cells, "test", comparison.TESTED)


def test_every_pair_is_printed_on_a_narrow_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    levels = {level: evaluation(0.5, level / 1000) for level in (40, 200, 400, 1000)}
    cells = to_cells({pair: {"text": [levels]} for pair in ("en-de", "en-fr", "en-ja")})
    record = {"split": "test", **means_and_tests(cells, "test", ())}
    print_table(record, "Toy")
    printed = capsys.readouterr().out
    assert printed.count("│ text") == 3
    assert printed.count("0.270 │     0.350 │     0.450 │      0.750") == 3


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Folder and words of a command that has made a table of one pair and one seed."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "source").mkdir()
    write_folder(folder / "source")
    words = [
        *("--preset", "smoke", "--data.folder", folder / "source", "--pairs", "en-de"),
        *("--seeds", 0, "--difficulties", 20, 40, "--runs", folder / "runs", *SETTINGS),
        *("--data-dir", folder / "data", "--results", folder / "results" / "toy.json"),
    ]
    call(table_wikipedia.main, *words)
    return folder, words


def read_results(folder):
    return json.loads((folder / "results" / "toy.json").read_text())


@needs_gensim
@pytest.mark.long
def test_the_record_holds_every_system_and_cell(table):
    folder, _ = table
    record = read_results(folder)
    assert record["experiment"] == "ltr debian_clir"
    systems = [comparison.POPULARITY, comparison.ASSOCIATION, comparison.COMPOUNDS]
    systems += [comparison.TFIDF, comparison.TRANSLATED, comparison.MEANS]
    systems += ["text", "meta", "text+meta", comparison.ENSEMBLE, comparison.FUSION]
    assert list(record["systems"]) == systems
    for system in record["systems"].values():
        assert set(system["test"]) == {"en-de 20", "en-de 40"}
        assert all(0 < cell["mean"] <= 1 for cell in system["test"].values())
    assert record["systems"]["text+meta"]["test"]["en-de 40"]["mean"] > 0.6
    tested = [(row["first"], row["second"]) for row in record["significance"]]
    assert tested == [pair for pair in comparison.TESTED for _ in range(2)]
    seconds = record["seconds"]["en-de"]["text+meta"][0]
    assert set(seconds) == {"words", "categories", "ranker"}
    assert all(value > 0 for value in seconds.values())
    assert str(folder) not in json.dumps(record)


@needs_gensim
@pytest.mark.long
def test_finished_runs_are_not_trained_again(table, monkeypatch):
    folder, words = table
    before = read_results(folder)
    monkeypatch.setattr(ltr_jax, "load", lambda _: pytest.fail("its rankings are there"))
    call(table_wikipedia.main, *words)
    after = read_results(folder)
    for key in ("systems", "significance", "fusion_weights", "seconds"):
        assert after[key] == before[key]


def test_a_table_of_nothing_is_refused():
    command = comparison.Command(ltr_jax.PRESETS["smoke"], pairs=("en-de",), seeds=())
    with pytest.raises(InputError, match="no pair, features, seed or difficulty"):
        comparison.run_table(command, "ltr toy", "Toy")


@needs_gensim
@pytest.mark.long
def test_reranking_of_what_tfidf_finds(table, tmp_path):
    folder, _ = table
    path = folder / "runs" / "debian_clir" / "en-de" / "text+meta" / "seed0"
    # Each query translated as its own document says it: tf-idf then finds the document.
    collection = read_debian_folder(folder / "source", "de")
    rows = {q: collection.documents.index[q] for s in ("dev", "test")
            for q in collection.splits[s].query_ids}  # fmt: skip
    texts = {query: collection.documents.texts[row] for query, row in rows.items()}
    translations = tmp_path / "translations.tsv"
    translations.write_text("".join(f"{query}\t{text}\n" for query, text in texts.items()))
    results = tmp_path / "rerank.json"
    words = ("--runs", path, "--n", 10, "--translations", translations, "--split", "dev")
    call(rerank.main, *words, "--data-dir", folder / "data", "--results", results)
    record = json.loads(results.read_text())
    found = {name: of["dev"]["en-de 10"]["mean"] for name, of in record["systems"].items()}

    dev = hardest_irrelevant(collection, collection.splits["dev"], 10, split_words, texts)
    tfidf = tfidf_ranking(collection, dev.candidates, split_words, texts)
    sides = collection.queries, collection.documents
    model = ltr_jax.load(path).rank_candidates(*sides, dev.candidates)
    expected = {
        weight: evaluate(qrels_of(dev), fuse([model, tfidf], [weight, 1 - weight]), (MEASURE,))
        for weight in (0.0, *WEIGHTS, 1.0)
    }
    values = {weight: of.mean[MEASURE] for weight, of in expected.items()}
    assert found["tf-idf, given translations"] == pytest.approx(values[0.0])
    assert found["tf-idf, given translations"] > 0.7
    assert found["plain reranking, given translations"] == pytest.approx(values[1.0])
    of_reranking = {"translation": "given translations", "n": [10]}
    assert record["configs"]["reranking"] == of_reranking
    assert record["configs"]["ranker"]["model"]["features"] == "text+meta"
    best = max(WEIGHTS, key=values.__getitem__)
    assert record["model_weights"] == [best]
    assert found["weighted reranking, given translations"] == pytest.approx(values[best])
    tested = [(row["first"], row["second"]) for row in record["significance"]]
    names = (rerank.PLAIN, "tf-idf"), (rerank.WEIGHTED, "tf-idf"), (rerank.WEIGHTED, rerank.PLAIN)
    assert tested == [tuple(f"{name}, given translations" for name in pair) for pair in names]


def test_systems_are_named_by_their_translation_as_in_the_table():
    assert rerank.translation(rerank.Command(())) == "none"
    assert rerank.named("tf-idf", "none") == comparison.TFIDF
    learned = rerank.translation(rerank.Command((), learn=True))
    assert rerank.named("tf-idf", learned) == comparison.TRANSLATED
    given = rerank.translation(rerank.Command((), dictionary=Path("words.tsv")))
    assert rerank.named("tf-idf", given) == "tf-idf, given dictionary"


@needs_gensim
@pytest.mark.long
def test_training_again_what_a_table_has_trained(table, capsys):
    folder, _ = table
    path = folder / "runs" / "debian_clir" / "en-de" / "text" / "seed0"
    words = (
        "--preset",
        "smoke",
        "--data.pair",
        "en-de",
        "--data.folder",
        folder / "source",
        *SETTINGS,
    )
    words += ("--model.features", "text", "--run", path, "--data-dir", folder / "data")
    call(train.main, *words)
    printed = capsys.readouterr().out
    assert "48 train, 8 dev, 8 test" in printed
    assert "20 steps; best dev nDCG 0." in printed
    assert (path / "plots" / "training.png").is_file()
    answers = ltr_jax.load(path).rank("qtopic3", ["dtopic1", "dtopic3", "dtopic5"])
    assert answers[0].position == 1


@pytest.mark.slow
def test_patents(tmp_path):
    pytest.importorskip("gensim")
    pytest.importorskip("sudachipy")
    source = tmp_path / "source"
    source.mkdir()
    write_corpus(source)
    more = {"dev.docs": "EP-7\tseven\n"}  # irrelevant to all
    for name, line in {
        "train.docs": "EP-1{0}\tplough {0}\n",
        "train.queries": "JP-1{0}\tすき {0}\n",
        "train.qrels": "JP-1{0}\tEP-1{0}\t3\n",
    }.items():
        more[name] = "".join(map(line.format, range(100, 115)))
    for name, lines in more.items():
        with (source / name).open("a", encoding="utf-8") as file:
            file.write(lines)
    write_marec(source / "marec")
    words = ("--preset", "smoke", "--data.folder", source, "--features", "meta", "--seeds", 0)
    words += ("--training.batch-size", 8, "--training.steps", 1)
    words += ("--sampling.documents-per-query", 2, "--sampling.partly-relevant", 0)
    words += ("--runs", tmp_path / "runs", "--data-dir", tmp_path / "data")
    call(table_patents.main, *words, "--results", tmp_path / "results.json")
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["experiment"] == "ltr boost_clir"
    assert record["seconds"]["ja-en"]["meta"][0]["ranker"] > 0
    assert comparison.FUSION not in record["systems"]


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
