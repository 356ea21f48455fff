"""Reproducing: the recorded command, its files, tolerances, and the whole on a toy experiment."""

import json
import sys

import pytest

from experiments import reproduce
from retrieval_jax.errors import InputError


def record(mean=0.5, sd=0.0, command="python -m experiments.toy --x 1 --results old.json"):
    return {
        "experiment": "toy",
        "config": {"rate": 3},
        "seeds": [int(100 * mean)],
        "rows": [{"seconds": mean, "items_per_second": mean, "load_average": mean}],
        "budget": {"cpu_hours": mean},
        "systems": {"a": {"RR": {"mean": mean, "sd": sd}}},
        "provenance": {"command": command, "data_fingerprint": "abc", "wall_s": mean},
    }


def test_results_go_elsewhere_and_words_are_added(tmp_path):
    words = reproduce.recorded_command(record(), tmp_path / "new.json", ["--runs", "r"])
    assert words[1:] == [
        *("-m", "experiments.toy", "--x", "1", "--runs", "r"),
        *("--results", str(tmp_path / "new.json")),
    ]
    benchmark = record(command="python -m benchmarks.toy --results=old.json --x 1")
    words = reproduce.recorded_command(benchmark, tmp_path, [])
    assert words[1:] == ["-m", "benchmarks.toy", "--x", "1", "--results", str(tmp_path)]
    sweep = record(command="python -m experiments.sweep --output o -- --preset small -- --results")
    words = reproduce.recorded_command(sweep, tmp_path, [])
    behind = ("--", "--preset", "small", "--", "--results")  # another command's, as they are
    assert words[3:] == ["--output", "o", "--results", str(tmp_path), *behind]


@pytest.mark.parametrize("command", ["", "rm -rf x", "python -m os", "python x.py", "python -m"])
def test_only_experiments_are_run(command, tmp_path):
    with pytest.raises(InputError, match="no experiment"):
        reproduce.recorded_command(record(command=command), tmp_path, [])


def test_files_are_found_by_name_in_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "formulas").mkdir()
    (tmp_path / "formulas" / "x.tsv").touch()
    monkeypatch.setenv("RETRIEVAL_DATA", str(tmp_path))
    assert reproduce.found("x.tsv") == str(tmp_path / "formulas" / "x.tsv")
    assert [reproduce.found(w) for w in ("y.tsv", "--x", "a/x.tsv", "..")] == [
        *("y.tsv", "--x", "a/x.tsv", "..")
    ]
    monkeypatch.delenv("RETRIEVAL_DATA")
    assert reproduce.found("x.tsv") == "x.tsv"


def test_numbers_may_differ_by_tolerance_and_deviation():
    assert reproduce.compare(record(), record(), 0.0, 0.0) == []
    (close,) = reproduce.compare(record(0.5), record(0.501), 0.002, 0)
    assert close.is_within and close.name == "systems.a.RR.mean"
    (far,) = reproduce.compare(record(0.5), record(0.51), 0.002, 0)
    assert not far.is_within
    (spread,) = reproduce.compare(record(0.5, 0.01), record(0.51, 0.01), 0.002, 2)
    assert spread.is_within and spread.allowed == pytest.approx(0.022)
    absent = record() | {"systems": {"b": 1}}
    assert [row.is_within for row in reproduce.compare(record(), absent, 9, 9)] == [False] * 3


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["reproduce", *map(str, words)])
    reproduce.main()


def test_the_command_compares_files_and_runs_again(tmp_path, monkeypatch, capfd):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(record()))
    new.write_text(json.dumps(record(0.501)))
    call(monkeypatch, old, "--new", new)
    assert "reproduced, within tolerance" in capfd.readouterr().out
    new.write_text(json.dumps(record(0.6)))
    with pytest.raises(SystemExit, match="1"):
        call(monkeypatch, old, "--new", new)
    assert "1 beyond tolerance" in capfd.readouterr().out
    call(monkeypatch, old, "--dry-run", "--", "--y")
    assert capfd.readouterr().out.startswith("python -m experiments.toy --x 1 --y --results ")
    with pytest.raises(SystemExit, match="2"):  # there is no such experiment
        call(monkeypatch, old)
    assert "ended with status 1" in capfd.readouterr().err
