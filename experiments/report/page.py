"""The page: every paper's claims, published and own tables, and figures, in one HTML file."""

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.report.blocks import Block, Table, inline, to_html
from experiments.report.claims import overview, verdict_table
from experiments.report.figures import result_figures, training_figure
from experiments.report.markdown import PAPERS
from experiments.report.published import Paper, published_blocks, read_papers
from experiments.report.tables import BASELINES, benchmark_blocks, result_blocks, test_blocks
from experiments.report.unrun import ABLATION, RESULTS_FILES, unrun_table
from retrieval_jax.runs import RunFolder

STYLE = Path(__file__).with_name("page.css")
Records = Mapping[str, Mapping[str, Any]]


def page(records: Records, benchmarks: Records, runs: Sequence[Path] = ()) -> str:
    """The whole page.

    Args:
        records: results files by name.
        benchmarks: those of benchmarks.
        runs: run folders whose training curves are shown.

    Raises:
        InputError: a folder of no run.
    """
    papers = read_papers()
    claims = overview(PAPERS, records)
    sections = [section("claims", "Claims and verdicts", [claims])]
    sections += [paper_section(paper, records) for paper in papers]
    known = {name for paper in papers for name in names_of(paper, records)}
    others = [block for name in records if name not in known for block in own(name, records)]
    if others:
        sections.append(section("more", "More results", others))
    if runs:
        sections.append(section("training", "Training curves", list(map(run_curves, runs))))
    if benchmarks:
        blocks = benchmark_blocks(list(benchmarks.values()))
        sections.append(section("speed", "Speed", blocks))
    return document("Retrieval with structure: results", sections)


def names_of(paper: Paper, records: Records) -> list[str]:
    """The results files of a paper: those it names, others that begin with its id, ablations."""
    starts = f"{paper.id}_", f"{ABLATION}{paper.id}_"
    further = [name for start in starts for name in records if name.startswith(start)]
    return [name for name in dict.fromkeys((*paper.results, *further)) if name in records]


def paper_section(paper: Paper, records: Records) -> str:
    """A paper: its claims, what it published, our results, and ablations that were not run."""
    blocks: list[Block] = [verdict_table(paper.id, records)]
    for table in paper.tables:
        blocks += published_blocks(table)
    for name in names_of(paper, records):
        blocks += own(name, records)
    prefix = f"{ABLATION}{paper.id}_"
    unrun = [file for file in RESULTS_FILES if file.startswith(prefix) and file not in records]
    if unrun:
        blocks.append(unrun_table(unrun))
    return section(paper.id, paper.title, blocks)


def own(name: str, records: Records) -> list[Block]:
    """One of our results files: tables, tests, figures, and what it was made with."""
    record = records[name]
    blocks: list[Block] = [f"Ours: `{name}`", *result_blocks(record)]
    if record.get("experiment") == BASELINES:
        blocks += test_blocks(record["significance"])
    return [*blocks, *result_figures(record), made_with(name, record)]


def made_with(name: str, record: Mapping[str, Any]) -> Table:
    """What a results file was made with, as a table."""
    made = record.get("provenance", record)
    versions = made.get("versions", {})
    seconds, peak = made.get("wall_s"), made.get("peak_mib")
    facts = {
        "command": f"`{made['command']}`" if "command" in made else "",
        "data": str(record.get("data", "")),
        "data fingerprint": f"`{made.get('data_fingerprint', '')[:16]}`",
        "seeds": _seeds(record.get("seeds")),
        "revision": f"`{made.get('git_revision') or 'unknown'}`",
        "hardware": made.get("hardware") or ", ".join(made.get("devices", [])),
        "time of the command": "" if seconds is None else f"{seconds:,.0f} s",
        "peak memory": "" if peak is None else f"{peak:,.0f} MiB",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    rows = [[name, fact] for name, fact in facts.items() if fact and fact != "``"]
    return Table(["made with", "which"], rows, f"What {name} was made with")


def _seeds(seeds: Any) -> str:
    if isinstance(seeds, Mapping):
        return ", ".join(f"{name}: {number}" for name, number in seeds.items())
    return ", ".join(map(str, seeds)) if isinstance(seeds, list) else str(seeds or "")


def run_curves(run: Path) -> Block:
    """The training curves of a run folder, by the measure that its configuration names.

    Says so where it has none, such as one of a cross-validation, whose trainings keep nothing.
    """
    training = RunFolder(run, "").read_json("config.json")["config"].get("training")
    figure = training_figure(run, training["best_measure"]) if training else None
    return figure or f"The run `{run.name}` has no training curves: it logged no steps."


def section(identifier: str, title: str, blocks: Sequence[Block]) -> str:
    """A part of the page."""
    heading = f'<h2 id="{html.escape(identifier, quote=True)}">{inline(title)}</h2>'
    return f"<section>{heading}\n{to_html(blocks)}</section>"


def document(title: str, sections: Sequence[str]) -> str:
    """An HTML document that needs no other file and no network."""
    links = [re.search(r'<h2 id="([^"]+)">(.*?)</h2>', text) for text in sections]
    entries = "".join(f'<li><a href="#{link[1]}">{link[2]}</a></li>' for link in links if link)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header><h1>{html.escape(title)}</h1>
<nav aria-label="parts"><ul>{entries}</ul></nav></header>
<main>
{chr(10).join(sections)}
</main>
</body>
</html>
"""
