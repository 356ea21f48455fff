"""The paper's tables 2, 4 and 5 and figure 2 as Markdown and PNG, from the results of experiments.

COMMAND   python -m experiments.docent.figures --ranking runs/dual/results.json \
              --tags runs/dual/tags.json --run runs/dual
TIME      seconds
HARDWARE  any
SCORE     figures.md in the output folder

Each part needs its own input; what is not given is left out.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tyro

import docent_jax
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.load import load_documents
from experiments.records import read_record
from experiments.report import table
from experiments.report.blocks import to_markdown
from experiments.report.figures import tag_curves
from experiments.report.tables import tag_tables
from retrieval_jax import plots
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries

# Words that table 2 shows of a request.
WORDS = 60


@dataclasses.dataclass(frozen=True)
class Command:
    """Draws the paper's tables and figures from results.

    Attributes:
        ranking: results of `zero_shot_ranking`, for table 5.
        tags: results of `tag_prediction`, for table 4 and figure 2.
        run: run folder whose answers to dev requests table 2 shows.
        requests: how many of them.
        query: requests of your own for table 2, instead.
        data_dir: where prepared documents are kept.
        output: folder to write.
    """

    ranking: Path | None = None
    tags: Path | None = None
    run: Path | None = None
    requests: int = 5
    query: tuple[str, ...] = ()
    data_dir: Path = Path("data")
    output: Path = Path("runs/figures")


@one_screen_errors
def main() -> None:
    """Writes `figures.md` and the PNG files beside it."""
    command = tyro.cli(Command, prog="python -m experiments.docent.figures")
    quiet_libraries()
    parts = []
    command.output.mkdir(parents=True, exist_ok=True)
    if command.run is not None:
        parts.append(table_2(command, command.run))
    if command.tags is not None:
        results = read_record(command.tags, "docent tag prediction")
        parts.append(table_4(results))
        parts.append(figure_2(results, command.output))
    if command.ranking is not None:
        results = read_record(command.ranking, "docent zero-shot ranking")
        parts.append(f"## Table 5: zero-shot ranking\n\n{table(results)}")
        rows = {
            name: {measure: value["mean"] for measure, value in system["test"].items()}
            for name, system in results["systems"].items()
        }
        measures = list(next(iter(rows.values())))
        plots.comparison(rows, measures, command.output / "table5.png", "Zero-shot ranking, test")
        parts.append("![Zero-shot ranking](table5.png)\n")
    if not parts:
        raise InputError("nothing to draw", "Give --ranking, --tags or --run.")
    path = command.output / "figures.md"
    path.write_text("\n".join(["# DocEnt: tables and figures\n", *parts]), encoding="utf-8")
    print(f"written: {path}")


def table_2(command: Command, run: Path) -> str:
    """Answers to requests: the five best entities, those that the request's author meant bold."""
    ranker = docent_jax.load(run)
    if command.query:
        asked = [(text, frozenset[str]()) for text in command.query]
    else:
        asked = dev_requests(load_documents(ranker.config.data, command.data_dir), command.requests)
    lines = [f"## Table 2: answers of {run.name}", "", "| request | best five |", "|---|---|"]
    for (text, wanted), answers in zip(asked, ranker.rank([t for t, _ in asked], 5), strict=True):
        names = (f"**{a.entity}**" if a.entity in wanted else a.entity for a in answers)
        lines.append(f"| {cell(text)} | {'; '.join(map(cell, names))} |")
    if not command.query:
        lines.append(
            f"\nThe first {len(asked)} dev requests, none chosen by its answers; the entity that"
            " was meant is bold."
        )
    return "\n".join(lines) + "\n"


def dev_requests(corpus: EntityCorpus, number: int) -> list[tuple[str, frozenset[str]]]:
    """Texts of the first dev queries, and the entities that answer each.

    Raises:
        InputError: there are none.
    """
    queries = corpus.queries.get("dev", ())[:number]
    if not queries:
        raise InputError("these documents have no dev queries", "Give --query TEXT.")
    return [(q.text, frozenset(corpus.entities[e] for e in q.entity_ids)) for q in queries]


def cell(text: str) -> str:
    """A text for a cell of a Markdown table: one line, its signs shown as they are, cut."""
    words = text.split()
    shown = " ".join(words[:WORDS]) + (" ..." if len(words) > WORDS else "")
    for sign in "\\|`<":
        shown = shown.replace(sign, f"\\{sign}")
    return shown


def table_4(results: Mapping[str, Any]) -> str:
    """Tag prediction, closed and open vocabulary, test: MAP, AUC, P@10, NDCG@10."""
    about = f"{results['data']}; protocol {results['protocol']}, test"
    return "\n".join(
        f"## Table 4: {title}\n\n"
        + to_markdown([f"{about}; a label is positive above T votes", of_task])
        for title, of_task in tag_tables(results)
    )


def figure_2(results: Mapping[str, Any], folder: Path) -> str:
    """Figure 2: precision and NDCG at k, closed vocabulary; AUC by training tags, open one."""
    drawn = []
    for letter, (title, (labels, lines)) in zip("abc", tag_curves(results).items(), strict=False):
        path = folder / f"figure2{letter}.png"
        plots.curves(lines, labels, path, title)
        drawn.append(f"![{title}]({path.name})")
    return "## Figure 2: tag prediction\n\n" + "\n\n".join(drawn) + "\n"


if __name__ == "__main__":
    main()
