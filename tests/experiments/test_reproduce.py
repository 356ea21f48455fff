"""Reproducing: the recorded command, its files, tolerances, and the whole on a toy experiment."""

import json
import sys
from typing import Any

import pytest

from experiments import reproduce
from experiments.tolerances import compare, kind_of
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
    assert compare(record(), record(), 0.0, 0.0) == []
    (close,) = compare(record(0.5), record(0.501), 0.002, 0)
    assert close.is_within and close.name == "systems.a.RR.mean"
    (far,) = compare(record(0.5), record(0.51), 0.002, 0)
    assert not far.is_within
    (spread,) = compare(record(0.5, 0.01), record(0.51, 0.01), 0.002, 2)
    assert spread.is_within and spread.allowed == pytest.approx(0.022)
    absent = record() | {"systems": {"b": 1}}
    assert [row.is_within for row in compare(record(), absent, 9, 9)] == [False] * 3


TESTED = {"difference": 0.1, "p": 0.04, "p_holm": 1, "interval_95": [0.05, 0.15], "gains": [0.1]}


@pytest.mark.parametrize(
    ("name", "kind", "before", "after", "allowed"),
    [
        ("systems.a.RR.mean", "measure", 0.5, 0.52, 0.002 + 2 * 0.01),
        ("systems.a.RR.sd", "spread", 0.01, 0.015, 0.002 + 0.015 / 2),
        ("systems.a.RR.interval_95.0", "difference", 0.4, 0.41, 0.004 + 0.02 + 2 * 0.01),
        ("rows.0.dice", "measure", 0.9, 0.91, 0.002),
        ("rows.0.formulas", "count", 186, 187, 0.0),
        ("significance.0.difference", "difference", 0.1, 0.11, 0.004 + 0.1 / 10),
        ("significance.0.interval_95.1", "difference", 0.15, 0.16, 0.004 + 0.11 / 10),
        ("significance.0.gains.0", "difference", 0.1, 0.12, 0.004 + 0.1 / 10),
        ("significance.0.p", "p value", 0.04, 0.06, 0.01 + 0.06 / 4),
        ("significance.0.p_holm", "p value", 1, 0.5, 0.01 + 1 / 4),
        ("fusion_weights.a + b.0", "weight", 0.3, 0.4, 0.1),
        ("model_weights.0", "weight", 0.3, 0.5, 0.1),
    ],
)
def test_how_much_a_number_may_differ_depends_on_its_kind(name, kind, before, after, allowed):
    old = {
        "experiment": "toy",
        "systems": {"a": {"RR": {"mean": 0.5, "sd": 0.01, "interval_95": [0.4, 0.6]}}},
        "rows": [{"dice": 0.9, "formulas": 186, "peak_mib": 3.0, "wall_s": 2.0}],
        "significance": [TESTED],
        "fusion_weights": {"a + b": [0.3]},
        "model_weights": [0.3],
    }
    new = json.loads(json.dumps(old))
    new["rows"][0] |= {"peak_mib": 9.0, "wall_s": 9.0}
    of: Any = new
    *levels, last = (int(level) if level.isdecimal() else level for level in name.split("."))
    for level in levels:
        of = of[level]
    assert of[last] == before
    of[last] = after
    (row,) = compare(old, new, 0.002, 2)
    assert (row.name, row.kind, row.before, row.after) == (name, kind, before, after)
    assert row.allowed == pytest.approx(allowed)
    assert row.is_within == (abs(after - before) <= allowed + 1e-6)


def test_a_measure_may_be_a_whole_number_and_a_count_may_be_new():
    assert kind_of("queries", 3, None) == "count"
    assert kind_of("systems.a.test.RR.mean", 1, 0.5) == "measure"
    assert kind_of("p", 0.5) == "p value"


@pytest.mark.parametrize("text", ['{"benchmark": "encode", "command": "x"}', "{", "[]"])
def test_results_without_a_record_are_refused(text, tmp_path, monkeypatch, capsys):
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match="2"):
        call(monkeypatch, path)
    error = capsys.readouterr().err
    if "encode" in text:
        assert "what benchmarks.encode wrote: speed and memory" in error
        assert "`python -m benchmarks.encode`" in error and "--results" in error
    else:
        assert "benchmarks" not in error and str(path) in error


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
