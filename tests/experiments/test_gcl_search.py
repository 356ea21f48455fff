"""The page of answers shows formulas and nothing else, the table all that stands in them."""

import sys
from pathlib import Path
from types import SimpleNamespace

import gcl_jax
from experiments.gcl import search
from experiments.gcl.search import page, shown
from gcl_jax.inference import FoundFormula, print_answers


def test_formulas_are_rendered_without_anything_that_runs() -> None:
    assert "<mfrac>" in shown(r"\frac{a}{b}")
    evil = (
        '<math><mi onclick="alert(1)" href="javascript:x">a</mi><script>alert(2)</script>'
        "<mtext>&lt;b&gt;</mtext></math>"
    )
    kept = shown(evil)
    assert "alert" not in kept
    assert "javascript" not in kept
    assert "<mi>a</mi>" in kept
    assert "&lt;b&gt;" in kept
    assert shown(r"\frac{<b>") == r"<code>\frac{&lt;b&gt;</code>"


def test_a_page_has_a_row_for_each_answer() -> None:
    text = page("x<y", [FoundFormula("<1>", "x", 0.5), FoundFormula("b", "y", 0.25)])
    assert text.count("<tr><td>") == 2
    assert "<title>x&lt;y</title>" in text
    assert "<td>0.5000<td>" in text
    assert "&lt;1&gt;" in text


def test_the_table_takes_no_text_for_markup(capsys) -> None:
    print_answers(r"\sqrt[n]{x}", [FoundFormula("[tt1]", r"\sqrt[b]{[/b]}", 0.5)])
    title, *_, row, _ = capsys.readouterr().out.splitlines()
    assert title.strip() == r"\sqrt[n]{x}"
    assert row.split() == ["│", "1", "│", "0.5000", "│", "[tt1]", "│", r"\sqrt[b]{[/b]}", "│"]


def test_options_of_a_collection_reach_the_index(monkeypatch, capsys) -> None:
    calls = []

    def index(*args, **options):
        calls.append((args, options))
        return SimpleNamespace(search=lambda query, k: [FoundFormula("a", query, 0.5)])

    monkeypatch.setattr(gcl_jax, "index", index)
    words = "x --run r --collection f.csv --format tsv --column c --id-column i --slt-weight .3"
    monkeypatch.setattr(sys, "argv", ["search", *words.split()])
    search.main()
    ((args, options),) = calls
    assert args == (Path("f.csv"), Path("r"), "r/store", Path("data"), 0.3)
    assert options == {"format": "tsv", "column": "c", "id_column": "i"}
    assert "0.5000" in capsys.readouterr().out
