"""The page: escaped, whole in itself, with published figures, ours, and what was not run."""

import html.parser
import json
import shlex
import sys

import pytest

from experiments.report import __main__ as command_line
from experiments.report.blocks import Figure, Notes, Table, to_html, to_markdown
from experiments.report.figures import (
    heat_maps,
    line_figure,
    result_figures,
    tag_figures,
    training_figure,
)
from experiments.report.markdown import fill
from experiments.report.page import page
from experiments.report.published import published_blocks, read_papers
from experiments.report.tables import result_blocks
from experiments.report.unrun import RESULTS_FILES, unrun_table
from retrieval_jax.errors import InputError
from tests.docs.command_lines import check
from tests.experiments.report.toy_records import LTR, PROVENANCE, RANKING, SWEEP, heat_map_record
from tests.experiments.test_figures import TAGS


class Outline(html.parser.HTMLParser):
    """Open elements, and what is looked up elsewhere."""

    VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.outside, self.headers, self.alts = [], [], 0, []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        links = (attributes.get(name) or "" for name in ("src", "href"))
        self.outside += [link for link in links if link and not link.startswith(("data:", "#"))]
        self.headers += tag == "th" and "scope" in attributes
        if tag == "img":
            self.alts.append(attributes["alt"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def outline(text):
    parsed = Outline()
    parsed.feed(text)
    assert parsed.open == []
    return parsed


def test_the_page_is_whole_escaped_and_names_what_was_not_run():
    records = {"docent_imdb_movielens": RANKING, "gcl_map": heat_map_record(), "other": LTR}
    text = page(records, {})
    parsed = outline(text)
    assert parsed.outside == []
    assert parsed.headers > 50 and all(parsed.alts) and len(parsed.alts) == 3
    assert "<script" not in text and "<b>" not in text and "films &lt;i&gt;" in text
    assert "prefers-color-scheme: dark" in text
    assert "<td>2 cores of X, 8 GiB</td>" in text and '<td class="n">3,600 s</td>' in text
    for paper in read_papers():
        assert f'<h2 id="{paper.id}">' in text
        for table in paper.tables:
            for command in table.not_run.values():
                assert f"<code>{command.replace('&', '&amp;')}</code>" in text


def test_published_rows_are_as_wide_as_their_header():
    tables = [table for paper in read_papers() for table in paper.tables]
    assert len(tables) >= 6
    for published in tables:
        (table,) = published_blocks(published)
        assert {len(row) for row in table.rows} == {len(table.header)}


def test_markdown_keeps_cells_apart():
    blocks = ["intro", Table(["a", "b"], [["x|y", "1\n2"]]), Notes([]), Notes(["n"])]
    assert to_markdown(blocks) == "intro\n\n| a | b |\n|---|---|\n| x\\|y | 1 2 |\n\n- n\n"
    assert "<code>a &lt; b</code>" in to_html(["see `a < b`"])


def test_many_tests_become_a_table_with_stars():
    table = result_blocks(LTR)[2]
    assert table.header == ["difference", "en-de 40", "en-de 1000"]
    assert table.rows == [["text+meta - text", "+0.010 *", "+0.030"]]


def test_sweeps_have_a_row_a_combination_and_their_budget():
    about, table, spent = result_blocks(SWEEP)
    assert about == "Sizes."
    assert table.header == ["size", "seeds", "dev RR", "loss", "seconds a cell"]
    assert table.rows == [["4", "2", "0.500 ± 0.100", "-1.000", "62"], ["5", "0", "", "", ""]]
    assert spent == (
        "Budget: 2 cells took 0.03 CPU hours, 0.02 by the clock if one after the other, and at"
        " most 2,048 MiB each."
    )
    partly = SWEEP | {"budget": SWEEP["budget"] | {"timed": 1}}
    assert result_blocks(partly)[-1].startswith("Budget: 1 timed ones of 2 cells took 0.03")
    (figure,) = result_figures(SWEEP)
    assert figure.numbers.rows == [["4", "0.500 ± 0.100"]]
    assert result_figures(SWEEP | {"rows": SWEEP["rows"][1:]}) == []


def test_ablations_have_a_row_each_and_those_that_were_not_run_their_command():
    name = RESULTS_FILES[0]
    (paper,) = (paper for paper in read_papers() if paper.id == "docent")
    run = SWEEP | {"provenance": PROVENANCE, "seeds": [0, 1]}
    text = page({name: run}, {})
    outline(text)
    section = text[text.index(f'<h2 id="{paper.id}">') : text.index('<h2 id="gcl">')]
    assert f"<code>{name}</code>" in section and "0.500 ± 0.100" in section
    assert 'id="more"' not in text
    for file in RESULTS_FILES:
        command = f"--results experiments/results/{file}.json"
        assert (command in text) == (file != name)
    (row,) = unrun_table(["ablation_ltr_features"]).rows
    assert row[:4] == ["ltr_features", "Words, categories, or both.", "9", ""]


def test_a_page_may_name_an_ablation_before_it_is_run(tmp_path):
    block = "<!-- results: ablation_gcl_rate -->\n<!-- end -->\n"
    filled = fill(block, tmp_path)
    assert "`python -m experiments.sweep --ablation gcl_rate" in filled
    (tmp_path / "ablation_gcl_rate.json").write_text(json.dumps(SWEEP))
    assert "| 4 | 2 | 0.500 ± 0.100 | -1.000 | 62 |" in fill(filled, tmp_path)
    with pytest.raises(InputError, match="no results file"):
        fill(block.replace("gcl_rate", "gcl_rates"), tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        *(c for paper in read_papers() for table in paper.tables for c in table.not_run.values()),
        *(row[-1].strip("`") for row in unrun_table(RESULTS_FILES).rows),
    ],
)
def test_a_command_that_was_not_run_is_one(command, monkeypatch):
    check(shlex.split(command), monkeypatch)


def test_figures_hold_their_numbers():
    (figure,) = heat_maps(heat_map_record())
    assert figure.svg.startswith(b"<?xml")
    assert figure.numbers.rows[0] == [
        "Variable Substitution",
        *("0.750", "0.750", "0.375", "0.375"),
    ]
    (gains,) = result_figures(LTR)
    assert isinstance(gains, Figure)
    assert gains.numbers.rows == [["en-de", "0.010", "0.030"]]
    curves = tag_figures(TAGS)
    assert [figure.numbers.header[0] for figure in curves] == ["k", "k", "training tags"]
    assert line_figure({"a": ([1], [2.0])}, ("x", "y"), "t").numbers.header == ["x", "1"]


def test_the_command_writes_the_page(tmp_path, monkeypatch):
    (tmp_path / "docent_toy.json").write_text(json.dumps(RANKING))
    run = tmp_path / "run"
    run.mkdir()
    config = {"config": {"training": {"best_measure": "RR"}}}
    (run / "config.json").write_text(json.dumps(config))
    lines = ({"step": 1, "kind": "train", "loss": 2.0}, {"step": 1, "kind": "dev", "RR": 0.5})
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["--no-markdown", "--results", tmp_path, "--page", tmp_path / "p.html", "--runs", run]
    monkeypatch.setattr(sys, "argv", ["report", *map(str, words)])
    command_line.main()
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    outline(text)
    assert "Training of run: loss, and RR on dev" in text
    assert "has no training curves" not in text
    assert '<h2 id="speed">' in text


def test_a_run_without_dev_data_shows_its_losses(tmp_path):
    lines = [{"step": step, "kind": "train", "loss": 2 / step} for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    figure = training_figure(tmp_path, "RR")
    assert figure is not None
    assert figure.title == f"Training of {tmp_path.name}: loss"
    assert figure.numbers.header == ["step", "loss"]
    assert figure.numbers.rows == [["1", "2.0000"], ["2", "1.0000"]]
    dev = {"step": 2, "kind": "dev", "RR": 0.5}
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, [*lines, dev])))
    figure = training_figure(tmp_path, "RR")
    assert figure is not None
    assert figure.title.endswith(": loss, and RR on dev")
    assert figure.numbers.rows == [["2", "0.5000"]]


def test_runs_without_curves_are_named(tmp_path):
    settings = {"fine_tuning": {"training": {"best_measure": "Spearman"}}, "folds": 3}
    of_runs = {"folds<": settings, "unlogged": {"training": {"best_measure": "RR"}}}
    for name, config in of_runs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"config": config}))
    text = page({}, {}, [tmp_path / name for name in of_runs])
    outline(text)
    for name in ("folds&lt;", "unlogged"):
        assert f"The run <code>{name}</code> has no training curves" in text
    with pytest.raises(InputError, match=r"no config\.json in .*seeds"):
        page({}, {}, [tmp_path / "seeds"])
