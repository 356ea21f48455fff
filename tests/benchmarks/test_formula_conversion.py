"""The conversion's record: what was measured, and what it was made with."""

import json
import lzma
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks import formula_conversion
from experiments.records import read_record
from experiments.report import table
from tests.gcl_jax.datasets.ntcir12_files import write_judged

pytest.importorskip("math_core", reason="needs math-core")

SUM = (
    '<math xmlns="http://www.w3.org/1998/Math/MathML">'
    "<mrow><mi>x</mi><mo>+</mo><mi>y</mi></mrow></math>"
)


def write_lines(path, lines):
    path.write_bytes(lzma.compress("\n".join(lines).encode()))


@pytest.fixture
def folder(tmp_path):
    path = write_judged(tmp_path / "files")
    gold = [{"correct_tex": tex, "correct_mml": SUM} for tex in ("x+y", "x+z")]
    write_lines(path / "mathmlben.jsonl.xz", map(json.dumps, gold))
    topics = [{"topic": topic, "latex": "x+y", "mathml": SUM} for topic in ("T-1", "T-2")]
    write_lines(path / "ntcir12_topics.jsonl.xz", map(json.dumps, topics))
    lines = ["src_mask\tlatex", *(f"1\tx^{i}" for i in range(9)), "1\t\\frac{a}"]
    write_lines(path / "enwiki_formulas.tsv.xz", lines)
    return path


def test_the_record_says_what_it_was_made_with(folder, tmp_path, monkeypatch, capsys):
    path = tmp_path / "new" / "r.json"
    words = ["--folder", folder, "--formulas", "None", "--processes", 1, "--results", path]
    monkeypatch.setattr(sys, "argv", ["formula_conversion", *map(str, words)])
    # Another process would take seconds to import what is here already.
    pool = lambda processes, mp_context: ThreadPoolExecutor(processes)  # noqa: E731
    monkeypatch.setattr(formula_conversion, "ProcessPoolExecutor", pool)
    formula_conversion.main()
    record = read_record(path, formula_conversion.EXPERIMENT)
    made = record["provenance"]
    assert {"command", "git_revision", "versions", "hardware", "wall_s", "peak_mib"} <= set(made)
    assert len(made["data_fingerprint"]) == 32
    assert (record["config"]["formulas"], record["seeds"]) == (None, [0])
    halves = {
        (row["gold"], row["layout"], row["rows"]): row["dice_without_marks"]
        for row in record["rows"]
    }
    assert halves["MathMLBen", "slt", "even"] == 1.0
    assert halves["MathMLBen", "slt", "odd"] < 1.0
    assert record["wikipedia"]["formulas"] == 10
    assert record["wikipedia"]["converted"] == 0.9
    assert sum(record["wikipedia"]["reasons"].values()) == 1
    said = capsys.readouterr().out
    assert table(record).splitlines()[0] in said
    # Formulas that failed are for reading only: a record holds no rows of the data.
    assert r"\frac{a}" in said and "frac" not in path.read_text()
