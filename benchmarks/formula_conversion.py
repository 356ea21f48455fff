"""Formulas become trees: how like the gold trees, how many of Wikipedia's, how fast.

COMMAND   python -m benchmarks.formula_conversion --formulas None \\
              --results experiments/results/formula_conversion.json
TIME      about 1 minute with 20,000 formulas of Wikipedia; 3 with all (--formulas None)
HARDWARE  2 CPU cores
RESULT    experiments/results/formula_conversion.json

Rows are numbered from 0. The converter was developed on the odd rows: judge it by the even ones.

- `dice`: Dice's coefficient of the edges of our tree from LaTeX and of the gold tree, mean over
  formulas; a formula that gives no tree counts 0. As in the judged graphs of NTCIR-12 a leaf has an
  end mark; `without marks` leaves it out. Gold are the trees of the MathML that MathMLBen and the
  NTCIR-12 topics bring: presentation for layout trees, content for operator trees. Formulas whose
  content is a `cerror` have no gold operator tree.
- `equal`: share of the edges of the coded NTCIR-12 graphs (20 topics) that our tree has too, from
  MathML and from LaTeX.
- `converted`: share of Wikipedia's formulas that give both trees; with the reasons of the others.
- `formulas per second`: LaTeX -> both trees, by the clock in so many processes, and a CPU second.
"""

import dataclasses
import multiprocessing
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import tyro

from experiments.records import make_record, write_record
from experiments.report import table
from gcl_jax.baselines import edge_dice
from gcl_jax.datasets.ntcir12 import CODES, QUERIES, data_folder, decode_graph, read_codes
from gcl_jax.formulas import FormulaError, Tree, parse, parse_both
from gcl_jax.formulas.trees import Layout
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.fingerprints import files_fingerprint
from retrieval_jax.kept import content_name
from retrieval_jax.text_files import read_json_lines, read_lines

LAYOUTS: tuple[Layout, Layout] = ("slt", "opt")
GOLD = {
    "MathMLBen": ("mathmlben.jsonl.xz", "correct_tex", "correct_mml"),
    "NTCIR-12 topics": ("ntcir12_topics.jsonl.xz", "latex", "mathml"),
}
WIKIPEDIA = "enwiki_formulas.tsv.xz"
EXPERIMENT = "formula conversion"
EXAMPLES = 50


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        folder: the formulas; by default the folder formulas of RETRIEVAL_DATA.
        formulas: how many of Wikipedia's, at random; None = all.
        processes: that convert them.
        seed: of the choice.
        results: JSON file to write.
    """

    folder: Path | None = None
    formulas: int | None = 20_000
    processes: int = 2
    seed: int = 0
    results: Path | None = None


def measure(command: Command) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Measures all; gives the record that is written, and examples of what gave no trees.

    The examples are for reading only: a record holds no rows of the data.
    """
    folder = data_folder(command.folder)
    load = os.getloadavg()[0]
    rows = gold_rows(folder)
    equal = list(equal_edges(folder))
    formulas = wikipedia_formulas(folder / WIKIPEDIA, command.formulas, command.seed)
    wikipedia, examples = speed(formulas, command.processes)
    data = f"MathMLBen and the NTCIR-12 topics; {len(formulas):,} formulas of Wikipedia"
    found = {
        "rows": rows,
        "equal_edges": equal,
        "wikipedia": wikipedia | {"load_average": round(load, 2)},
    }
    gold = [folder / name for name in (*(file for file, *_ in GOLD.values()), QUERIES, CODES)]
    fingerprint = content_name([files_fingerprint(gold), *formulas])
    return make_record(EXPERIMENT, data, command, [command.seed], fingerprint, found), examples


def gold_rows(folder: Path) -> list[dict[str, Any]]:
    """Dice's coefficient with the gold, by collection, layout and half."""
    rows = []
    for name, (file, latex, mathml) in GOLD.items():
        scores: dict[tuple[Layout, str], list[tuple[float, float]]] = {}
        for number, (_, row) in enumerate(read_json_lines(folder / file, Counter())):
            for layout in LAYOUTS:
                gold = tree_or_none(row[mathml], layout)
                if gold is None or any(label.startswith("E!") for label in gold.labels):
                    continue
                ours = tree_or_none(row[latex], layout)
                score = (
                    (0.0, 0.0)
                    if ours is None
                    else (edge_dice(gold, ours), edge_dice(gold, ours, end_marks=False))
                )
                half = "odd" if number % 2 else "even"
                for part in (half, "all"):
                    scores.setdefault((layout, part), []).append(score)
        for (layout, part), values in sorted(scores.items(), reverse=True):
            marked, plain = (statistics.fmean(column) for column in zip(*values, strict=True))
            rows.append(
                {
                    "gold": name,
                    "layout": layout,
                    "rows": part,
                    "formulas": len(values),
                    "dice": round(marked, 4),
                    "dice_without_marks": round(plain, 4),
                }
            )
    return rows


def tree_or_none(formula: str, layout: Layout) -> Tree | None:
    """The tree of a formula, None where it has none."""
    try:
        return parse(formula, layout)
    except FormulaError:
        return None


def equal_edges(folder: Path) -> Iterator[dict[str, Any]]:
    """Share of the coded graphs' edges that trees of MathML and of LaTeX have too."""
    codes = read_codes(folder / CODES)
    topics = {
        row["topic"]: row
        for _, row in read_json_lines(folder / GOLD["NTCIR-12 topics"][0], Counter())
    }
    graphs = [row for _, row in read_json_lines(folder / QUERIES, Counter())]
    for layout in LAYOUTS:
        for source in ("mathml", "latex"):
            equal = total = known = 0
            for graph in graphs:
                coded = Counter(decode_graph(layout, graph[layout], codes).edges)
                ours = Counter(parse(topics[graph["id"]][source], layout).edges)
                equal += (coded & ours).total()
                total += coded.total()
                known += sum(n for edge, n in coded.items() if "#" not in edge[0] + edge[1])
            yield {
                "layout": layout,
                "from": source,
                "edges": total,
                "equal": round(equal / total, 4),
                "equal_of_decoded": round(equal / known, 4),
            }


def wikipedia_formulas(path: Path, count: int | None, seed: int) -> list[str]:
    """So many formulas of the list, at random; all if it has fewer."""
    lines = [line.partition("\t")[2] for _, line in read_lines(path, Counter())][1:]
    return lines if count is None else random.Random(seed).sample(lines, min(count, len(lines)))


def convert(formulas: list[str]) -> tuple[int, float, dict[str, int], list[tuple[str, str]]]:
    """Converts formulas: nodes of all trees, CPU seconds, reasons of failures, examples of them."""
    nodes, reasons, examples = 0, Counter[str](), []
    start = time.process_time()
    for formula in formulas:
        try:
            slt, opt = parse_both(formula)
        except FormulaError as error:
            reasons[error.reason[:60]] += 1
            examples.append((formula[:100], error.problem[:160]))
        else:
            nodes += len(slt) + len(opt)
    return nodes, time.process_time() - start, dict(reasons), examples


def speed(formulas: list[str], processes: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Converts Wikipedia's formulas in several processes; how that went, and what failed."""
    parts = [formulas[start : start + 500] for start in range(0, len(formulas), 500)]
    context = multiprocessing.get_context("spawn")  # JAX has threads, which a fork would not have
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        list(pool.map(convert, parts[: 2 * processes]))  # Imports, and fills the caches.
        start = time.perf_counter()
        results = list(pool.map(convert, parts))
        seconds = time.perf_counter() - start
    failed = sum((Counter(reasons) for _, _, reasons, _ in results), Counter())
    found = {
        "formulas": len(formulas),
        "converted": round(1 - failed.total() / len(formulas), 5),
        "nodes_per_formula": round(sum(nodes for nodes, *_ in results) / len(formulas), 1),
        "processes": processes,
        "seconds": round(seconds, 2),
        "formulas_per_second": round(len(formulas) / seconds),
        "formulas_per_cpu_second": round(len(formulas) / sum(cpu for _, cpu, _, _ in results)),
        "reasons": dict(failed.most_common()),
    }
    return found, [example for *_, examples in results for example in examples][:EXAMPLES]


@one_screen_errors
def main() -> None:
    """The command line."""
    command = tyro.cli(Command, prog="python -m benchmarks.formula_conversion", description=__doc__)
    record, examples = measure(command)
    print(table(record))
    for reason, count in record["wikipedia"]["reasons"].items():
        print(f"  {count} x {reason}")
    for formula, problem in examples:
        print(f"  {formula!r}: {problem}")
    write_record(command.results, record)


if __name__ == "__main__":
    main()
