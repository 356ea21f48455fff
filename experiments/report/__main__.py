"""Writes the README's tables, and a page with tables, figures and verdicts of all results.

COMMAND   python -m experiments.report --runs runs/docent runs/films_dual
TIME      seconds
HARDWARE  1 CPU core

In the README each table stands between `<!-- results: NAME -->`, `<!-- benchmarks -->` or
`<!-- verdicts -->` and `<!-- end -->`, where NAME is a file of `experiments/results`; benchmarks
are those of `benchmarks/results`. A test fails when the README says otherwise than the results.
The page is one file: published figures stand beside ours, and what cannot be run here has its
command.
"""

import dataclasses
from pathlib import Path

import tyro

from experiments.report.page import page
from experiments.report.readme import BENCHMARKS, README, RESULTS, fill, read_all
from retrieval_jax.errors import one_screen_errors


@dataclasses.dataclass(frozen=True)
class Command:
    """What to write.

    Attributes:
        page: HTML file to write.
        runs: run folders whose training curves the page shows.
        readme: False leaves the README as it is.
        results: folder of results files, for the page.
    """

    page: Path = Path("runs/report.html")
    runs: tuple[Path, ...] = ()
    readme: bool = True
    results: Path = RESULTS


@one_screen_errors
def main() -> None:
    """Rewrites the README's tables and the page."""
    command = tyro.cli(Command, prog="python -m experiments.report", description=__doc__)
    if command.readme:
        README.write_text(fill(README.read_text(encoding="utf-8")), encoding="utf-8")
    text = page(read_all(command.results), read_all(BENCHMARKS), command.runs)
    command.page.parent.mkdir(parents=True, exist_ok=True)
    command.page.write_text(text, encoding="utf-8")
    print(f"written: {command.page}")


if __name__ == "__main__":
    main()
