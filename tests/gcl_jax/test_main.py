"""The command line: what it writes and says, and its errors."""

import json
import sys
from pathlib import Path

import pytest

from gcl_jax.__main__ import main
from tests.gcl_jax.datasets.ntcir12_files import write_judged


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs a command, gives what it prints."""

    def run(*words: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", ["gcl_jax", *map(str, words)])
        main()
        return capsys.readouterr().out

    return run


def test_parse(run, tmp_path: Path) -> None:
    pytest.importorskip("math_core", reason="needs math-core")
    path = tmp_path / "formulas.txt"
    path.write_text("x^2+y^2=z^2\n{}\n$a$\n\n")
    command = ("parse", "--input", path, "--output", tmp_path / "trees", "--processes", "1")
    assert "  formulas: 2\n  rejected: 1\n" in run(*command)
    (rejects,) = (tmp_path / "trees").rglob("rejects.jsonl")
    (reject,) = map(json.loads, rejects.read_text().splitlines())
    assert (reject["row"], reject["input"]) == (2, "{}")
    assert reject["reason"]
    assert "built before" in run(*command)


def test_build_judged(run, tmp_path: Path) -> None:
    folder = write_judged(tmp_path / "files")
    output = run("build", "ntcir12_judged", "--path", folder, "--output", tmp_path / "data")
    assert "ntcir12_judged/" in output
    assert "  judged formulas without trees: 1\n" in output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("parse", "--input", "absent.txt", "--output", "x"), "There is no file absent.txt"),
        (("build", "ntcir12", "--path", "absent"), "There is no absent.\nFetch NTCIR-12"),
        (("build", "wikipedia_formulas", "--path", "absent"), "There is no file absent.\nGive"),
    ],
)
def test_errors_fit_on_a_screen(
    run, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*words)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: {problem}")
