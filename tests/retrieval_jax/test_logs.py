"""Metric lines survive being cut off and written twice."""

import json

import pytest
from rich.table import Table

from retrieval_jax.logs import (
    FILE_COLUMNS,
    MetricWriter,
    TrainingProgress,
    print_ranked,
    read_metrics,
    result_console,
)


def test_lines_are_read_back_and_later_ones_replace_earlier(tmp_path):
    with MetricWriter(tmp_path) as writer:
        writer.write(10, "train", {"loss": 2.0})
        writer.write(10, "dev", {"RR": 0.5})
        writer.write(10, "train", {"loss": 1.0})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 20, "ki')
    entries = read_metrics(tmp_path)
    assert [(e["step"], e["kind"]) for e in entries] == [(10, "dev"), (10, "train")]
    assert entries[1]["loss"] == 1.0


def test_a_line_cut_off_by_a_kill_does_not_swallow_the_next(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 10, "kind": "train", "lo')
    with MetricWriter(tmp_path) as writer:
        writer.write(10, "dev", {"RR": 0.9})
    assert [entry["RR"] for entry in read_metrics(tmp_path)] == [0.9]


def test_a_number_that_is_none_becomes_null(tmp_path):
    with MetricWriter(tmp_path) as writer:
        writer.write(1, "train", {"loss": float("nan")})
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] is None


def test_a_folder_without_log_has_no_metrics(tmp_path):
    assert read_metrics(tmp_path) == []


def test_progress_without_a_terminal_is_a_line_a_log(capsys):
    with TrainingProgress(10, 0) as progress:
        progress.update(5, {"loss": 1.25, "examples_per_second": 40.0})
        progress.show(5, {"RR": 0.5})
    err = capsys.readouterr().err
    assert "step 5/10  loss 1.2500  40 examples/s" in err
    assert "dev  RR 0.5000" in err


def test_progress_shows_names_as_they_are(capsys):
    with TrainingProgress(10, 0) as progress:
        progress.show(5, {"[b]RR[/i]": 0.5})
    assert "dev  [b]RR[/i] 0.5000" in capsys.readouterr().err


def test_silent_progress_prints_nothing(capsys):
    with TrainingProgress(10, 0, enabled=False) as progress:
        progress.update(5, {"loss": 1.25, "examples_per_second": 40.0})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("columns", [None, "60"])
def test_a_table_for_a_file_is_wide_unless_columns_says_otherwise(columns, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert result_console().width == int(columns or FILE_COLUMNS)


def test_a_table_and_lines_of_results_show_text_as_it_is(capsys):
    table = Table("[red]name", title="[a] and [/b] :smile:")
    table.add_row("runs/[tt1] [/i] :smile:")
    result_console().print(table)
    result_console().print("[c] [/d] :smile:")
    out = capsys.readouterr().out
    shown = "[red]name", "[a] and [/b] :smile:", "runs/[tt1] [/i] :smile:", "[c] [/d] :smile:"
    assert [text in out for text in shown] == [True] * 4


def test_a_ranked_table_shows_text_as_it_is(capsys):
    answers = [("The Matrix (1999) [tt0133093]", 0.98766), ("[/b] :smile:", -1.0)]
    print_ranked(r"\sqrt[n]{x} [/i]", ("entity", "score"), answers)
    title, _, names, _, *rows, _ = capsys.readouterr().out.splitlines()
    assert title.strip() == r"\sqrt[n]{x} [/i]"
    assert [[cell.strip() for cell in row[1:-1].split(row[0])] for row in (names, *rows)] == [
        ["rank", "entity", "score"],
        ["1", "The Matrix (1999) [tt0133093]", "0.9877"],
        ["2", "[/b] :smile:", "-1.0000"],
    ]


def test_a_query_without_answers_has_a_table_of_none(capsys):
    print_ranked("x", ("score", "id"), [])
    out = capsys.readouterr().out
    assert "rank" in out and "id" in out and "│" not in out
