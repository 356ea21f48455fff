"""The commands of the README, in processes of their own, on a tiny encoder."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import docent_jax.__main__
import experiments.quickstart
from experiments.docent import pretrain, zero_shot_ranking
from retrieval_jax.evaluation import evaluate
from retrieval_jax.rankings import read_qrels, read_ranking
from tests.bert_folders import write_tiny_bert


def run(*args, **kwargs):
    """Runs a module of this project on two fake devices."""
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", *map(str, args)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        **kwargs,
    )


@pytest.fixture
def here(monkeypatch):
    """Calls a command in this process: one of its own takes seconds to start."""

    def call(main, *words):
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["command", *map(str, words)])
        main()

    return call


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    write_tiny_bert(folder / "encoder", words=("array", "the", "of", "return", "function"))
    args = ["--preset", "smoke", "--run", folder / "run", "--data-dir", folder / "data"]
    args += ["--model.encoder", folder / "encoder", "--results", folder / "results" / "a.json"]
    return folder, args, run("experiments.quickstart", *args)


def test_quickstart_trains_evaluates_restores_and_answers(quickstart):
    folder, _, result = quickstart
    assert result.returncode == 0, result.stderr
    for words in ("40 entities", "BM25", "TF-IDF", "bag of sentences", "DocEnt-Dual", "Holm"):
        assert words in result.stdout
    assert "fast fourier transform of real input" in result.stdout
    assert "Traceback" not in result.stderr
    results = json.loads((folder / "results" / "a.json").read_text())
    assert results == json.loads((folder / "run" / "results.json").read_text())
    for system in results["systems"].values():
        assert 0 < system["test"]["RR"]["mean"] <= 1
    assert results["provenance"]["data_fingerprint"]
    written = folder / "run" / "qrels.trec", folder / "run" / "ranking.trec"
    found = evaluate(read_qrels(written[0]), read_ranking(written[1]), ["RR"]).mean["RR"]
    assert found == pytest.approx(results["systems"]["DocEnt-Dual"]["test"]["RR"]["mean"])
    names = {path.name for path in (folder / "run").iterdir()}
    expected = "config.json provenance.json metrics.jsonl results.json ranking.trec plots best"
    assert set(expected.split()) < names
    assert {path.name for path in (folder / "run" / "plots").iterdir()} == {
        "comparison.png",
        "training.png",
    }


def test_quickstart_again_takes_the_trained_model_up(quickstart):
    folder, args, _ = quickstart
    before = (folder / "run" / "metrics.jsonl").read_text()
    again = run("experiments.quickstart", *args)
    assert again.returncode == 0, again.stderr
    assert "taken from an earlier call" in again.stdout
    assert (folder / "run" / "metrics.jsonl").read_text() == before


def test_the_run_is_used_from_python_and_from_the_command_line(quickstart):
    folder, _, _ = quickstart
    ranker = docent_jax.load(folder / "run")
    names = [entity.entity for entity in ranker.rank(["sort an array"], k=3)[0]]
    command = run("docent_jax", "rank", "--run", folder / "run", "--k", 3, "sort an array")
    assert command.returncode == 0, command.stderr
    assert all(name in command.stdout for name in names)


def test_the_command_line_writes_vectors(quickstart, here):
    folder, _, _ = quickstart
    ranker = docent_jax.load(folder / "run")
    # One text a line, whatever Python takes for the end of a line; other bytes do no harm.
    (folder / "texts.txt").write_bytes("one\u2028text\f\nanother text\r\n".encode() + b"\xff\n")
    vectors = folder / "vectors.npy"
    output = ("--input", folder / "texts.txt", "--output", vectors)
    here(docent_jax.__main__.main, "encode", "--run", folder / "run", *output)
    np.testing.assert_allclose(
        np.load(vectors), ranker.encode(["one text", "another text", "\ufffd"]), atol=1e-5
    )
    here(docent_jax.__main__.main, "entities", "--run", folder / "run", "--output", vectors)
    np.testing.assert_allclose(np.load(vectors), ranker.entity_vectors, atol=1e-5)
    assert tuple(vectors.with_suffix(".txt").read_text().split()) == ranker.entities


def test_the_evaluation_script_agrees_with_the_quickstart(quickstart):
    folder, _, _ = quickstart
    args = ("--runs", folder / "run", "--data-dir", folder / "data", "--lexical", "same")
    before = json.loads((folder / "run" / "results.json").read_text())
    result = run("experiments.docent.zero_shot_ranking", *args)
    assert result.returncode == 0, result.stderr
    after = json.loads((folder / "run" / "results.json").read_text())
    assert after["systems"] == before["systems"]
    assert after["significance"] == before["significance"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--preset", "smal"], "Perhaps you meant 'small'"),
        (["--training.stepz", "3"], "--training.steps"),
        (["--data.packages", "no_such_package"], "no_such_package"),
        (["--model.encoder", "./none", "--preset", "smoke"], "no such encoder folder"),
        (["--preset", "smoke", "--training.batch-size", "15"], "multiple of 8"),
        (["--preset", "smoke", "--data.entities", "1"], "cannot be ranked"),
    ],
)
def test_wrong_options_end_on_one_screen(quickstart, here, capsys, args, words):
    folder, _, _ = quickstart
    places = ["--run", folder / "other", "--data-dir", folder / "data"]
    if "--model.encoder" not in args:
        places += ["--model.encoder", folder / "encoder"]
    with pytest.raises(SystemExit) as ended:
        here(pretrain.main, *places, *args)
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert words in message
    assert "Traceback" not in message
    assert len(message.splitlines()) < 40


@pytest.mark.parametrize("module", [experiments.quickstart, pretrain, zero_shot_ranking])
def test_help_explains(here, capsys, module):
    with pytest.raises(SystemExit) as ended:
        here(module.main, "--help")
    assert ended.value.code == 0
    assert "run" in capsys.readouterr().out
