"""Writes the tables of the README from the results that runs and benchmarks have left.

COMMAND   python -m experiments.report
TIME      a second

Each table stands between `<!-- results: NAME -->` or `<!-- benchmarks -->` and `<!-- end -->`,
where NAME is a file of `experiments/results`; the benchmarks are all of `benchmarks/results`. A
test fails when the README says otherwise than the results.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from retrieval_jax.errors import InputError, one_screen_errors

ROOT = Path(__file__).parent.parent
README, RESULTS = ROOT / "README.md", Path(__file__).parent / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- (?:results: ([\w-]+)|benchmarks) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(results: Mapping) -> str:
    """Markdown of an experiment's results: systems by measures, and the tests."""
    if "equal_edges" in results:
        return conversion_table(results)
    if "comparisons" in results:
        return similarity_table(results)
    systems = results["systems"]
    if "test" not in next(iter(systems.values())):
        return formula_table(results)
    measures = list(next(iter(systems.values()))["test"])
    lines = [
        f"{results['data']}; test queries, seeds {', '.join(map(str, results['seeds']))}",
        "",
        f"| system | {' | '.join(measures)} |",
        f"|---|{'---|' * len(measures)}",
    ]
    for name, system in systems.items():
        cells = [mean_and_sd(system["test"][measure]) for measure in measures]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("")
    for row in results["significance"]:
        low, high = row["interval_95"]
        lines.append(
            f"- {row['first']} - {row['second']}: {row['measure']} {row['difference']:+.3f}"
            f" (95 % interval {low:+.3f} to {high:+.3f}, p = {row['p_holm']:.4f} after Holm)"
        )
    return "\n".join(lines) + "\n"


def formula_table(results: Mapping) -> str:
    """Markdown of formula retrieval: systems by pools and kinds of topics, partial/full bpref."""
    systems = results["systems"]
    pools = next(iter(systems.values()))
    columns = [(pool, topics) for pool, of_pool in pools.items() for topics in of_pool]
    lines = [
        f"{results['data']}; bpref, partial/full, by pool and topics",
        "",
        f"| system | {' | '.join(', '.join(column) for column in columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for name, system in systems.items():
        cells = (system[pool][topics] for pool, topics in columns)
        values = (f"{c['partial']['mean']:.3f}/{c['full']['mean']:.3f}" for c in cells)
        lines.append(f"| {name} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def conversion_table(results: Mapping) -> str:
    """Markdown of the conversion of formulas: likeness to gold trees, coverage, speed."""
    lines = [
        "| from LaTeX, against | layout | rows | formulas | edge Dice | without end marks |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['gold']} | {row['layout']} | {row['rows']} | {row['formulas']}"
        f" | {row['dice']:.3f} | {row['dice_without_marks']:.3f} |"
        for row in results["rows"]
    ]
    lines.append("")
    lines += [
        f"- The 20 concrete topics, {row['layout']} from {row['from']}: {row['equal']:.3f} of"
        f" {row['edges']} edges equal those of the coded graphs ({row['equal_of_decoded']:.3f} of"
        f" those with known codes)."
        for row in results["equal_edges"]
    ]
    wikipedia = results["wikipedia"]
    lines.append(
        f"- Wikipedia: {wikipedia['converted']:.2%} of {wikipedia['formulas']:,} formulas give both"
        f" trees; {wikipedia['formulas_per_second']:,} a second in {wikipedia['processes']}"
        f" processes."
    )
    return "\n".join(lines) + "\n"


def similarity_table(results: Mapping) -> str:
    """Markdown of similarity: encoders by measures on each set of pairs, beside published ones."""
    lines = [results["data"], ""]
    for name, comparison in results["comparisons"].items():
        systems = comparison["systems"]
        measures = list(next(iter(systems.values())))
        lines += [
            f"| {name}: {comparison['pairs']} | {' | '.join(measures)} |",
            f"|---|{'---|' * len(measures)}",
        ]
        for system, row in systems.items():
            cells = [mean_and_sd(row[measure]) for measure in measures]
            lines.append(f"| {system} | {' | '.join(cells)} |")
        lines.append("")
        for row in comparison["differences"]:
            low, high = row["interval_95"]
            lines.append(
                f"- {row['first']} - {row['second']}: {row['measure']} {row['difference']:+.3f}"
                f" (95 % interval {low:+.3f} to {high:+.3f})"
            )
        lines.append("")
    published = results["published"]
    lines += [f"| published, on {published['data']} | Spearman |", "|---|---|"]
    lines += [f"| {system} | {value:.3f} |" for system, value in published["Spearman"].items()]
    return "\n".join(lines) + "\n"


def mean_and_sd(value: Mapping[str, float]) -> str:
    """A mean, with its standard deviation where there is one."""
    spread = f" ± {value['sd']:.3f}" if value["sd"] else ""
    return f"{value['mean']:.3f}{spread}"


def benchmark_table(records: Sequence[Mapping]) -> str:
    """Markdown of benchmarks: a row for each peer, ours beside it."""
    lines = [
        "| benchmark | peer | ours, items/s | peer, items/s | ratio | peak MiB | compile, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        (_, ours), *peers = record["sides"].items()
        settings = ", ".join(f"{k} {v}" for k, v in record["settings"].items() if k != "encoder")
        for name, peer in peers:
            memory = f"{ours['peak_mib']} / {peer['peak_mib']}" if "peak_mib" in ours else ""
            rates = f"{ours['items_per_second']:,.0f} | {peer['items_per_second']:,.0f}"
            lines.append(
                f"| {record['benchmark']}: {settings} | {name} | {rates} | {peer['ratio']:.2f}"
                f" | {memory} | {max(0.0, record['compile_s']):.1f} |"
            )
    return "\n".join(lines) + "\n"


def fill(readme: str, results: Path = RESULTS, benchmarks: Path = BENCHMARKS) -> str:
    """Replaces every results block of a Markdown text.

    Raises:
        InputError: a block names a file that is not there.
    """

    def block(match: re.Match[str]) -> str:
        if match[2] is None:
            paths = sorted(benchmarks.glob("*.json"))
            records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
            return match[1] + benchmark_table(records) + match[3]
        path = results / f"{match[2]}.json"
        if not path.is_file():
            raise InputError(f"no results file {path.name}", "Run its experiment with --results.")
        return match[1] + table(json.loads(path.read_text(encoding="utf-8"))) + match[3]

    return BLOCK.sub(block, readme)


@one_screen_errors
def main() -> None:
    """Rewrites the README."""
    README.write_text(fill(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
