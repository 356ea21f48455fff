"""The tables of the README, from the results that runs and benchmarks have left."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.report.blocks import to_markdown
from experiments.report.claims import overview
from experiments.report.tables import benchmark_blocks, conversion_blocks, result_blocks
from experiments.report.unrun import RESULTS_FILES, unrun_table
from retrieval_jax.errors import InputError

ROOT = Path(__file__).parent.parent.parent
PAPERS = {"docent": "DocEnt", "gcl": "GCL", "ltr": "LTR", "mathsim": "mathsim"}
README, RESULTS = ROOT / "README.md", ROOT / "experiments" / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(
    r"(<!-- (results: ([\w-]+)|benchmarks|verdicts) -->\n).*?(<!-- end -->)", re.DOTALL
)


def table(results: Mapping) -> str:
    """Markdown of an experiment's results."""
    return to_markdown(result_blocks(results))


def conversion_table(results: Mapping) -> str:
    """Markdown of the conversion of formulas."""
    return to_markdown(conversion_blocks(results))


def benchmark_table(records: Sequence[Mapping]) -> str:
    """Markdown of benchmarks."""
    return to_markdown(benchmark_blocks(records))


def read_all(folder: Path) -> dict[str, dict]:
    """All JSON files of a folder by their names without suffix, sorted."""
    paths = sorted(folder.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def fill(readme: str, results: Path = RESULTS, benchmarks: Path = BENCHMARKS) -> str:
    """Replaces every results block of a Markdown text.

    That of an ablation which was not run says so, with its command.

    Raises:
        InputError: a block names a file that is not there.
    """

    def block(match: re.Match[str]) -> str:
        if match[2] == "benchmarks":
            text = benchmark_table(list(read_all(benchmarks).values()))
        elif match[2] == "verdicts":
            text = to_markdown([overview(PAPERS, read_all(results))])
        else:
            path = results / f"{match[3]}.json"
            if not path.is_file() and match[3] in RESULTS_FILES:
                return match[1] + to_markdown([unrun_table([match[3]])]) + match[4]
            if not path.is_file():
                raise InputError(
                    f"no results file {path.name}", "Run its experiment with --results."
                )
            text = table(json.loads(path.read_text(encoding="utf-8")))
        return match[1] + text + match[4]

    return BLOCK.sub(block, readme)
