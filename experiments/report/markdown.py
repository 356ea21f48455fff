"""The tables of Markdown pages, from the results that runs and benchmarks have left.

A table stands between a marker and `<!-- end -->`. The marker names its source:
`<!-- results: NAME -->` a file of `experiments/results`, `<!-- verdicts -->` all of them,
`<!-- benchmarks -->` and, in few columns, `<!-- speed -->` those of `benchmarks/results`.
`; rows: a | b` and `; columns: c | d` before its end keep these of the first table that has them,
and leave out the tests.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.report.blocks import Block, Table, to_markdown
from experiments.report.claims import overview
from experiments.report.tables import benchmark_blocks, result_blocks, speed_table
from experiments.report.unrun import RESULTS_FILES, unrun_table
from retrieval_jax.errors import InputError

ROOT = Path(__file__).parent.parent.parent
PAPERS = {"docent": "DocEnt", "gcl": "GCL", "ltr": "LTR", "mathsim": "mathsim"}
PAGES = tuple(ROOT / page for page in ("README.md", "RESULTS.md", "docs/ablations.md"))
"""Those whose tables are kept filled; the site fills those of its other pages when it is built."""
RESULTS, BENCHMARKS = ROOT / "experiments" / "results", ROOT / "benchmarks" / "results"
BLOCK = re.compile(
    r"(?P<marker><!-- (?P<source>results: (?P<file>[\w-]+)|benchmarks|speed|verdicts)"
    r"(?:; rows: (?P<rows>[^\n;]+?))?(?:; columns: (?P<columns>[^\n;]+?))? -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)


def table(results: Mapping) -> str:
    """Markdown of an experiment's results."""
    return to_markdown(result_blocks(results))


def read_all(folder: Path) -> dict[str, dict]:
    """All JSON files of a folder by their names without suffix, sorted."""
    paths = sorted(folder.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def fill(text: str, results: Path = RESULTS, benchmarks: Path = BENCHMARKS) -> str:
    """Replaces every block of a Markdown text.

    That of an ablation which was not run says so, with its command.

    Raises:
        InputError: a block names a file, a row or a column that is not there.
    """

    def block(match: re.Match[str]) -> str:
        blocks = _blocks(match["source"], match["file"], results, benchmarks)
        if match["rows"] or match["columns"]:
            blocks = selected(blocks, _names(match["rows"]), _names(match["columns"]))
        return match["marker"] + to_markdown(blocks) + match["end"]

    return BLOCK.sub(block, text)


def _blocks(source: str, file: str, results: Path, benchmarks: Path) -> Sequence[Block]:
    if source == "benchmarks":
        return benchmark_blocks(list(read_all(benchmarks).values()))
    if source == "speed":
        return [speed_table(read_all(benchmarks))]
    if source == "verdicts":
        return [overview(PAPERS, read_all(results))]
    path = results / f"{file}.json"
    if not path.is_file() and file in RESULTS_FILES:
        return [unrun_table([file])]
    if not path.is_file():
        raise InputError(f"no results file {path.name}", "Run its experiment with --results.")
    return result_blocks(json.loads(path.read_text(encoding="utf-8")))


def _names(listed: str | None) -> list[str]:
    return [] if listed is None else [name.strip() for name in listed.split("|")]


def selected(
    blocks: Sequence[Block], rows: Sequence[str] = (), columns: Sequence[str] = ()
) -> list[Block]:
    """Some rows and columns of the first table that has them all, in this order, and the intro.

    Args:
        blocks: paragraphs and tables; a paragraph in the first place is the intro.
        rows: their first cells; none = all rows.
        columns: their headers, beside the first; none = all columns.

    Raises:
        InputError: no table has all of them.
    """
    for table in blocks:
        if not isinstance(table, Table):
            continue
        of_names = {row[0]: row for row in table.rows}
        if not {*rows} <= {*of_names} or not {*columns} <= {*table.header}:
            continue
        kept = [0, *(table.header.index(name) for name in columns)] if columns else None
        cut = [table.header, *((of_names[name] for name in rows) if rows else table.rows)]
        header, *cells = ([row[i] for i in kept] if kept else list(row) for row in cut)
        return [*(block for block in blocks[:1] if isinstance(block, str)), Table(header, cells)]
    wanted = ", ".join(map(repr, (*rows, *columns)))
    raise InputError(f"no table has all of {wanted}", "Name rows and columns as the table does.")
