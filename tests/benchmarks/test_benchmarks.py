"""Each benchmark on a toy model: the sides compute the same; times are not looked at."""

import importlib.util
import json
import lzma
import os
import random

import jax
import numpy as np
import pytest

from benchmarks import (
    encode,
    input_pipeline,
    masked_lm,
    measure,
    ours,
    reviews,
    search,
    train_sentences,
    train_step,
    walks,
)
from retrieval_jax.bert import Bert, init_params
from retrieval_jax.errors import InputError
from retrieval_jax.pipeline import TokenTable, tokenize
from retrieval_jax.pretrained import load_pretrained
from retrieval_jax.walks import make_graph
from tests.bert_folders import write_tiny_bert

OPTIONS = measure.Options(repeats=1, threads=len(os.sched_getaffinity(0)))
NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}


def needs(package):
    absent = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(absent, reason=f"{package} is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bert")
    write_tiny_bert(path)
    return str(path)


@pytest.fixture(scope="module")
def review_file(tmp_path_factory):
    letters, rng = "abcdefgh", random.Random(0)

    def sentence():
        words = ["".join(rng.choices(letters, k=rng.randint(1, 3))) for _ in range(9)]
        return " ".join(words[: rng.randint(3, 9)]) + "."

    path = tmp_path_factory.mktemp("reviews") / "reviews.jsonl.xz"
    with lzma.open(path, "wt", encoding="utf-8") as lines:
        for _ in range(40):
            lines.write(json.dumps({"text": " ".join(sentence() for _ in range(5))}) + "\n")
    return path


def test_reviews_are_cut_into_sentences_and_pairs(tmp_path):
    path = tmp_path / "reviews.jsonl.xz"
    texts = ["One two three. Four five six!<br /><br />No. Seven eight nine", "a b c. d e f? g h i"]
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    path.write_bytes(lzma.compress(lines.encode()))
    first = ["One two three.", "Four five six!", "Seven eight nine"]
    assert list(reviews.read_reviews(path)) == [first, ["a b c.", "d e f?", "g h i"]]
    assert reviews.read_sentences(path, 4) == [*first, "a b c."]
    assert reviews.read_pairs(path, 2) == [*first[:2], "a b c.", "d e f?"]
    with pytest.raises(InputError, match="hold 4 paired sentences, not 6"):
        reviews.read_pairs(path, 3)


def test_without_reviews_the_error_says_where_they_go(tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"reviews\.jsonl\.xz\n.*RETRIEVAL_DATA"):
        reviews.read_sentences(None, 1)


def toy_comparison(seconds):
    """Sides that take so many seconds by a clock of their own, 10 items a run."""

    def run(side):
        seconds["now"] += seconds[side]
        return np.array([1.0])

    return measure.Comparison(
        settings={},
        data={"name": "none", "fingerprint": "0"},
        packages=(),
        sides={side: lambda side=side: measure.Side(lambda: run(side), 10) for side in "ab"},
        check=measure.check_losses,
    )


def test_the_record_holds_rates_and_the_ratio(monkeypatch, tmp_path, capsys):
    seconds = {"now": 0.0, "a": 2.0, "b": 5.0}
    monkeypatch.setattr(measure.time, "perf_counter", lambda: seconds["now"])
    options = measure.Options(3, OPTIONS.threads, output=tmp_path / "results" / "toy.json")
    record = measure.compare("toy", toy_comparison, seconds, options)
    assert record["sides"]["a"]["items_per_second"] == 5.0
    assert record["sides"]["b"]["median_s"] == 5.0
    assert record["sides"]["b"]["ratio"] == 2.5
    assert record["first_loss"] == {"a": 1.0, "b": 1.0}
    assert json.loads(capsys.readouterr().out) == record
    assert json.loads((tmp_path / "results" / "toy.json").read_text()) == record


def test_sides_that_compute_something_else_are_refused():
    with pytest.raises(measure.DisagreementError, match=r"ours and torch differ by 0\.5"):
        measure.check_losses({"ours": np.array([1, 2]), "torch": np.array([1, 2.5])})
    with pytest.raises(measure.DisagreementError, match="nan"):
        measure.check_losses({"ours": np.array([1]), "torch": np.array([np.nan])})
    with pytest.raises(measure.DisagreementError, match="cosine 0"):
        encode.check_cosines({"ours": np.array([[1.0, 0]]), "peer": np.array([[0, 1.0]])})


def test_more_threads_than_cores_are_refused():
    with pytest.raises(InputError, match="1000 threads"):
        measure.limit_threads(1000)


@pytest.mark.parametrize("option", ["threads", "repeats"])
def test_no_threads_and_no_repeats_are_refused_before_the_process_starts_again(
    option, monkeypatch, capsys
):
    monkeypatch.setattr(measure.sys, "argv", ["search", f"--{option}", "0"])
    monkeypatch.setattr(measure.os, "execv", lambda *_: pytest.fail("started again"))
    monkeypatch.setattr(measure.os, "sched_setaffinity", lambda *_: None)
    with pytest.raises(SystemExit) as error:
        measure.command_line("search", search.prepare, search.Command, None)
    assert error.value.code == 2
    assert f"{option} is 0\nGive 1 or more." in capsys.readouterr().err


def allocate(mebibytes):
    def run():
        return np.ones(mebibytes * 2**17)

    sides = {"ours": lambda: measure.Side(run, 1)}
    return measure.Comparison({}, {}, (), sides, measure.check_losses)


@pytest.mark.slow
def test_memory_is_what_a_side_adds():
    assert measure.peak_memory(allocate, 100, "ours") == pytest.approx(100, abs=5)


def encoded(encoder, table):
    """Unit vectors `[texts, dim]`, one text a row."""
    present = np.arange(table.input_ids.shape[1]) < table.lengths[:, None]
    hidden = jax.jit(Bert(encoder.config).apply)(
        {"params": encoder.params}, table.input_ids, present.astype(np.int32)
    )
    pooled = np.where(present[:, :, None], hidden, 0).sum(axis=1) / table.lengths[:, None]
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def test_our_pair_step_has_the_loss_of_one_text_a_row(folder, review_file):
    encoder = load_pretrained(folder, **NO_DROPOUT)
    table = tokenize(reviews.read_pairs(review_file, 6), encoder.tokenizer, 32)
    batches = np.array([[0, 3, 2], [5, 4, 1]])
    losses = ours.pair_side(encoder, table, batches).run()
    vectors = encoded(encoder, table)
    logits = 20 * vectors[2 * batches[0]] @ vectors[2 * batches[0] + 1].T
    expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - np.diag(logits))
    assert losses.shape == (2,)
    np.testing.assert_allclose(losses[0], expected, rtol=1e-5)


def test_batches_by_length_hold_the_same_pairs():
    table = TokenTable(np.zeros((8, 9), np.int32), np.array([9, 1, 2, 3, 1, 8, 4, 4]))
    batches = train_sentences.by_length(table, np.arange(4).reshape(2, 2))
    np.testing.assert_array_equal(batches, [[1, 3], [2, 0]])


@pytest.mark.long
@needs("torch")
def test_training_on_sentences_agrees_with_torch(folder, review_file):
    command = train_sentences.Command(
        OPTIONS, review_file, folder, pairs=8, batches=3, max_length=32
    )
    record = measure.compare("train_sentences", train_sentences.prepare, command, OPTIONS)
    assert set(record["sides"]) == {"ours", "torch", "torch_bucketed"}
    assert record["first_loss"]["ours"] == pytest.approx(record["first_loss"]["torch"], abs=1e-4)
    assert str(review_file.parent) not in json.dumps(record)


@needs("torch")
def test_full_length_training_agrees_with_torch(folder):
    command = train_step.Command(OPTIONS, folder, pairs=3, length=16, batches=2)
    record = measure.compare("train_step", train_step.prepare, command, OPTIONS)
    assert record["first_loss"]["ours"] == pytest.approx(record["first_loss"]["torch"], abs=1e-4)


def masked_texts(folder, review_file):
    encoder = load_pretrained(folder, **NO_DROPOUT)
    table = tokenize(reviews.read_sentences(review_file, 12), encoder.tokenizer, 32)
    return encoder, table, *masked_lm.mask_pieces(table, encoder.tokenizer.mask_token_id)


def test_15_percent_of_the_pieces_are_masked(folder, review_file):
    encoder, table, masked, labels = masked_texts(folder, review_file)
    chosen = labels.input_ids > 0
    expected = np.maximum(np.round(0.15 * (table.lengths - 2)), 1)
    np.testing.assert_array_equal(chosen.sum(axis=1), expected)
    np.testing.assert_array_equal(masked.input_ids[chosen], encoder.tokenizer.mask_token_id)
    np.testing.assert_array_equal(labels.input_ids[chosen], table.input_ids[chosen])
    np.testing.assert_array_equal(masked.input_ids[~chosen], table.input_ids[~chosen])
    assert not np.isin(table.input_ids[chosen], encoder.tokenizer.all_special_ids).any()


def test_the_head_at_masked_positions_gives_the_loss_of_all_positions(folder, review_file):
    encoder, _, masked, labels = masked_texts(folder, review_file)
    params = init_params(Bert(encoder.config, with_mlm_head=True), jax.random.key(0))
    batches = np.arange(12).reshape(2, 6)
    losses = [
        masked_lm.our_side(encoder.config, params, masked, labels, batches, everywhere).run()
        for everywhere in (False, True)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)


@needs("torch")
def test_masked_language_modelling_agrees_with_transformers(folder, review_file):
    command = masked_lm.Command(OPTIONS, review_file, folder, texts=6, batches=2, max_length=32)
    record = measure.compare("masked_lm", masked_lm.prepare, command, OPTIONS)
    losses = record["first_loss"]
    assert losses["ours"] == pytest.approx(losses["transformers"], abs=1e-4)
    assert losses["ours"] == pytest.approx(losses["ours_all_positions"], abs=1e-4)


def test_our_encoding_gives_the_vectors_of_one_text_a_row(folder, review_file):
    encoder = load_pretrained(folder)
    texts = reviews.read_sentences(review_file, 9)
    vectors = encode.our_side(encoder.folder, texts, 32).run()
    expected = encoded(encoder, tokenize(texts, encoder.tokenizer, 32))
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@needs("sentence_transformers")
def test_encoding_agrees_with_sentence_transformers(folder, review_file):
    command = encode.Command(OPTIONS, review_file, folder, texts=9, max_length=32)
    record = measure.compare("encode", encode.prepare, command, OPTIONS)
    assert list(record["least_cosine"].values()) == pytest.approx([1.0] * 3, abs=1e-4)


def test_our_pipeline_delivers_every_piece_of_an_epoch():
    table = TokenTable(np.ones((24, 7), np.int32), np.arange(24, dtype=np.int32) % 7 + 1)
    run, items = input_pipeline.our_side(table, batch_size=8)
    assert (int(run()), items) == (table.lengths.sum(), 24)


@pytest.mark.long
@needs("torch")
def test_the_pipeline_is_compared_with_loader_and_step(folder, review_file):
    command = input_pipeline.Command(
        OPTIONS, review_file, folder, texts=48, batch_size=8, steps=2, max_length=32
    )
    record = measure.compare("input_pipeline", input_pipeline.prepare, command, OPTIONS)
    assert record["sides"]["torch_dataloader"]["ratio"] > 0
    assert record["sides"]["train_step"]["ratio"] > 0


@needs("faiss")
@needs("lancedb")
def test_all_searches_find_the_same_neighbours():
    command = search.Command(OPTIONS, vectors=500, dim=8, queries=5, k=40, scan_queries=2)
    record = measure.compare("search", search.prepare, command, OPTIONS)
    assert list(record["sides"]) == ["ours", "ours_top_k", "numpy", "faiss", "lancedb"]
    assert record["shared"] == {"ours_top_k": 1.0, "numpy": 1.0, "faiss": 1.0, "lancedb": 1.0}
    with pytest.raises(measure.DisagreementError, match=r"ours and numpy share 0\.7500"):
        answers = {"ours": np.array([[1, 2], [3, 4]]), "numpy": np.array([[2, 1], [3, 5]])}
        search.check_answers(answers)


def test_both_kinds_of_walks_go_along_the_graph():
    command = walks.Command(OPTIONS, nodes=50, degree=4, length=8, tokens=8_000)
    record = measure.compare("walks", walks.prepare, command, OPTIONS)
    # A step back is one of a node's five neighbours or so, at random.
    assert record["steps_back"]["ours"] == pytest.approx(0.2, abs=0.05)
    graph, starts = make_graph(np.array([[0, 1], [1, 2]]), 3), np.array([0])
    for wrong in ([[1, 0]], [[0, 2]]):
        with pytest.raises(measure.DisagreementError, match="ours does not walk"):
            walks.check_walks(graph, starts, {"ours": np.array(wrong)})
