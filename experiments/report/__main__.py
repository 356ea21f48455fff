"""Writes the tables of README.md, RESULTS.md and the ablations, and a page with figures too.

COMMAND   python -m experiments.report --runs runs/docent runs/films_dual
TIME      seconds
HARDWARE  1 CPU core

A marker in the Markdown names each table (`experiments/report/markdown.py` says how). A test fails
when a table says otherwise than the results.
The page is one file: published figures stand beside ours, and what cannot be run here has its
command.
"""

import dataclasses
from pathlib import Path

import tyro

from experiments.report.markdown import BENCHMARKS, PAGES, RESULTS, fill, read_all
from experiments.report.page import page
from retrieval_jax.errors import one_screen_errors


@dataclasses.dataclass(frozen=True)
class Command:
    """What to write.

    Attributes:
        page: HTML file to write.
        runs: run folders whose training curves the page shows; it says which have none.
        markdown: False leaves those Markdown pages as they are.
        results: folder of results files, for the page.
    """

    page: Path = Path("runs/report.html")
    runs: tuple[Path, ...] = ()
    markdown: bool = True
    results: Path = RESULTS


@one_screen_errors
def main() -> None:
    """Rewrites the tables and the page."""
    command = tyro.cli(Command, prog="python -m experiments.report", description=__doc__)
    if command.markdown:
        for path in PAGES:
            path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")
    text = page(read_all(command.results), read_all(BENCHMARKS), command.runs)
    command.page.parent.mkdir(parents=True, exist_ok=True)
    command.page.write_text(text, encoding="utf-8")
    print(f"written: {command.page}")


if __name__ == "__main__":
    main()
