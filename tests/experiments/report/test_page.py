"""The page: escaped, whole in itself, with published figures, ours, and what was not run."""

import html.parser
import json
import sys

import pytest

from experiments.report import __main__ as command_line
from experiments.report.blocks import Figure, Notes, Table, to_html, to_markdown
from experiments.report.claims import CLAIMS, verdict_table
from experiments.report.figures import heat_maps, line_figure, result_figures, tag_figures
from experiments.report.page import page
from experiments.report.published import published_blocks, read_papers
from experiments.report.readme import fill
from experiments.report.tables import result_blocks
from experiments.report.verdicts import outcome_of
from tests.experiments.test_figures import TAGS

PROVENANCE = {
    "command": "python -m experiments.x",
    "data_fingerprint": "0123456789abcdef0123",
    "git_revision": "abc",
    "versions": {"jax": "1"},
    "hardware": "2 cores of X, 8 GiB",
    "wall_s": 3600.0,
    "peak_mib": 512.0,
}


def test_row(first, second, measure, difference, p, interval=(0.0, 1.0)):
    return {
        "first": first,
        "second": second,
        "measure": measure,
        "difference": difference,
        "interval_95": list(interval),
        "p_holm": p,
    }


test_row.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]


def cell(mean, sd=0.0):
    return {"mean": mean, "sd": sd}


def heat_map_record(best="substitute_variables"):
    def of(base):
        both = {"partial": cell(base, 0.002), "full": cell(base / 2, 0.012)}
        return {size: {"all": both} for size in ("256", "1024")}

    names = ("substitute_variables", "node_drop")
    layout = {name: of(0.75 if name == best else 0.5) for name in names}
    return {"experiment": "gcl heat map", "seeds": 3, "means": {"slt": layout}}


LTR = {
    "experiment": "ltr debian_clir",
    "data": "debian",
    "split": "test",
    "seeds": [0, 1],
    "provenance": PROVENANCE,
    "systems": {"text": {"test": {"en-de 40": cell(0.5, 0.01), "en-de 1000": cell(0.4)}}},
    "significance": [
        test_row("text+meta", "text", "en-de 40", 0.01, 0.01),
        test_row("text+meta", "text", "en-de 1000", 0.03, 0.2),
    ],
}
RANKING = {
    "experiment": "docent zero-shot ranking",
    "data": "films <i>, 3 queries",
    "seeds": [0],
    "provenance": PROVENANCE,
    "systems": {"BM25 (Lucene)": {"test": {"RR": cell(0.5)}}, "<b>": {"test": {"RR": cell(0.75)}}},
    "significance": [
        test_row("DocEnt-Dual", "BM25 (Lucene)", "RR", 0.25, 0.01),
        test_row("DocEnt-Dual + BM25", "BM25 (Lucene)", "RR", -0.25, 0.01),
        test_row("DocEnt-Dual", "DocEnt-Hybrid", "RR", -0.125, 0.001),
    ],
}


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


def test_sweeps_have_a_row_a_combination():
    row = {"choices": {"size": "4"}, "cells": {"done": 2}, "measures": {"dev RR": cell(0.5, 0.1)}}
    waiting = {"choices": {"size": "5"}, "cells": {"waiting": 2}, "measures": {}}
    sweep = {"experiment": "sweep x", "about": "Sizes.", "axes": ["size"], "rows": [row, waiting]}
    about, table = result_blocks(sweep)
    assert about == "Sizes."
    assert table.header == ["size", "seeds", "dev RR"]
    assert table.rows == [["4", "2", "0.500 ± 0.100"], ["5", "0", ""]]


def test_figures_hold_their_numbers():
    (figure,) = heat_maps(heat_map_record())
    assert figure.svg.startswith(b"<?xml")
    assert figure.numbers.rows[0] == [
        "substitute variables",
        *("0.750", "0.750", "0.375", "0.375"),
    ]
    (gains,) = result_figures(LTR)
    assert isinstance(gains, Figure)
    assert gains.numbers.rows == [["en-de", "0.010", "0.030"]]
    curves = tag_figures(TAGS)
    assert [figure.numbers.header[0] for figure in curves] == ["k", "k", "training tags"]
    assert line_figure({"a": ([1], [2.0])}, ("x", "y"), "t").numbers.header == ["x", "1"]


def verdicts(paper, records):
    return {row[0]: row for row in verdict_table(paper, records).rows}


def test_cells_are_summed_up():
    assert outcome_of([]) == "not measured"
    assert outcome_of([True, True]) == "holds"
    assert outcome_of([True, False]) == "holds partly"
    assert outcome_of([False]) == "does not hold here"


def test_verdicts_of_rankings_follow_their_tests():
    rows = verdicts("docent", {"docent_imdb_movielens": RANKING})
    lucene = next(row for claim, row in rows.items() if "Lucene" in claim)
    assert lucene[2:] == [
        "holds",
        "films, DocEnt-Dual: RR +0.250 (p = 0.0100)",
        "paired randomisation, Holm",
        "films <i>, 3 queries",
    ]
    hybrid = next(row for claim, row in rows.items() if claim.startswith("Hybrid"))
    assert hybrid[2:4] == ["holds", "films, DocEnt-Hybrid: RR +0.125 (p = 0.0010)"]
    gains = [row[2] for row in verdicts("ltr", {"ltr_debian_clir": LTR}).values()]
    assert gains == ["holds partly", "holds", "not measured", "not measured"]


@pytest.mark.parametrize(
    ("best", "outcome"), [("substitute_variables", "holds"), ("node_drop", "does not hold here")]
)
def test_verdicts_of_heat_maps(best, outcome):
    slt, partial, opt, batches, stable = (
        row[2] for row in verdicts("gcl", {"gcl_heatmap": heat_map_record(best)}).values()
    )
    assert (slt, partial, opt, batches) == (outcome, outcome, "not measured", "holds")
    assert stable == "holds partly"


def test_maps_of_one_seed_size_or_augmentation_are_not_overrated():
    record = heat_map_record() | {"seeds": [0]}
    slt, _, _, batches, stable = verdicts("gcl", {"gcl_heatmap": record}).values()
    assert slt[2] == "holds" and stable[2] == "not measured"
    assert slt[3] == (
        "best of batch 256, 1024: substitute_variables 0.375 ± 0.012, node_drop 0.250 ± 0.012;"
        " 1 seed, no test"
    )
    assert batches[3].endswith("+0.000 to +0.000; 1 seed, no test")
    for of in record["means"]["slt"].values():
        del of["256"]
    record["means"]["opt"] = record["means"]["slt"]
    outcomes = [row[2] for row in verdicts("gcl", {"gcl_heatmap": record}).values()]
    assert outcomes == ["holds", "holds", *["not measured"] * 3]
    record["means"]["slt"] = {"rename": record["means"]["slt"]["node_drop"]}
    slt = next(iter(verdicts("gcl", {"gcl_heatmap": record}).values()))
    assert slt[2] == "not measured"


def tag_record():
    kinds = {"a|b": {"model": {"kind": "hybrid"}}, "dual": {"model": {"kind": "dual"}}}
    record = json.loads(json.dumps(TAGS)) | {"configs": kinds, "seeds": [0]}
    record["closed"]["TagGenome"] = record["closed"]["dual"] = record["closed"]["TF-IDF"]
    return record


def test_verdicts_of_tags():
    rows = list(verdicts("docent", {"docent_tags": tag_record()}).values())
    genome, few = rows[-2:]
    assert genome[2:4] == ["holds", "a|b: MAP 0.500 ± 0.125; TagGenome: MAP 0.250; 1 seed, no test"]
    numbers = "a|b: AUC 0.375 with 100 tags, 0.750 with all; 1 seed, no test"
    assert few[2:4] == ["does not hold here", numbers]


def test_the_readme_may_hold_the_verdicts(tmp_path):
    (tmp_path / "docent_imdb_movielens.json").write_text(json.dumps(RANKING))
    lines = fill("<!-- verdicts -->\nold\n<!-- end -->\n", tmp_path).splitlines()
    assert len(lines) == len(CLAIMS) + 4 and lines[-1] == "<!-- end -->"
    assert lines[3].startswith("| DocEnt | Zero-shot, DocEnt ranks entities better")
    assert lines[3].endswith("| holds | films, DocEnt-Dual: RR +0.250 (p = 0.0100) |")


def test_without_results_nothing_is_measured():
    for claim in CLAIMS:
        assert claim.judge({}).outcome == "not measured"
        assert claim.sentence.endswith(".") and claim.place


def test_the_command_writes_the_page(tmp_path, monkeypatch):
    (tmp_path / "docent_toy.json").write_text(json.dumps(RANKING))
    run = tmp_path / "run"
    run.mkdir()
    config = {"config": {"training": {"best_measure": "RR"}}}
    (run / "config.json").write_text(json.dumps(config))
    lines = ({"step": 1, "kind": "train", "loss": 2.0}, {"step": 1, "kind": "dev", "RR": 0.5})
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["--no-readme", "--results", tmp_path, "--page", tmp_path / "p.html", "--runs", run]
    monkeypatch.setattr(sys, "argv", ["report", *map(str, words)])
    command_line.main()
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    outline(text)
    assert "Training of run: loss, and RR on dev" in text
    assert '<h2 id="speed">' in text
