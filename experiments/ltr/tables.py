"""Evaluations of systems, cells and seeds as the means and tests of a record, and as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from experiments.records import differences, one_family, query_values, summarise
from ltr_jax.evaluation import MEASURE
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation
from retrieval_jax.logs import result_console

Seeds = Sequence[dict[int, Evaluation]]
"""Of each seed, difficulty -> evaluation."""

Cells = dict[str, dict[str, list[Evaluation]]]
"""System -> "pair difficulty" -> evaluation of each seed."""


def to_cells(pairs: Mapping[str, Mapping[str, Seeds]]) -> Cells:
    """Brings pair -> system -> seeds -> difficulty into the order of a table."""
    cells: Cells = {}
    for pair, systems in pairs.items():
        for name, seeds in systems.items():
            for level in seeds[0]:
                of_cell = [of_seed[level] for of_seed in seeds]
                cells.setdefault(name, {})[f"{pair} {level}"] = of_cell
    return cells


def means_and_tests(cells: Cells, split: str, tested: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Means and tests of a table.

    Args:
        cells: evaluations.
        split: what they were evaluated on.
        tested: (better, worse) as expected; those that are not there are left out.

    Returns:
        "systems": name -> split -> cell -> mean and standard deviation over seeds; "significance":
        a row for each tested pair and cell, Holm-corrected over the cells of the pair.

    Raises:
        InputError: the two of a pair have not as many runs, or runs that judge other queries.
    """
    systems = {
        name: {
            split: {
                cell: summarise(run.mean[MEASURE] for run in runs)
                for cell, runs in of_system.items()
            }
        }
        for name, of_system in cells.items()
    }
    rows = []
    for first, second in tested:
        if first in cells and second in cells:
            rows += _tests(cells, first, second)
    return {"systems": systems, "significance": rows}


def _tests(cells: Cells, first: str, second: str) -> list[dict[str, Any]]:
    """Tests of first - second, a row a cell, with the gains of the runs of each seed."""
    rows = []
    for cell, runs in cells[second].items():
        both = {first: cells[first][cell], second: runs}
        per_query = {name: [run.per_query for run in of] for name, of in both.items()}
        (row,) = differences(query_values(per_query, MEASURE), [(first, second)], cell)
        rows.append(row | {"gains": _gains(both[first], both[second], cell)})
    return one_family(rows)


def _gains(first: Sequence[Evaluation], second: Sequence[Evaluation], cell: str) -> list[float]:
    """Differences of runs of the same seed."""
    if len(first) != len(second):
        raise InputError(
            f"the systems of cell {cell} have {len(first)} and {len(second)} runs",
            "Give runs of the same seeds.",
        )
    both = zip(first, second, strict=True)
    return [better.mean[MEASURE] - worse.mean[MEASURE] for better, worse in both]


def print_table(record: Mapping[str, Any], title: str) -> None:
    """Prints the means, a table for each pair, and the tests below."""
    systems, split = record["systems"], record["split"]
    console = result_console()
    pairs: dict[str, list[str]] = {}
    for cell in next(iter(systems.values()))[split]:
        pairs.setdefault(cell.partition(" ")[0], []).append(cell)
    for cells in pairs.values():
        table = Table(title=f"{title}: {MEASURE} on {split}")
        table.add_column("system")
        for cell in cells:
            table.add_column(cell, justify="right")
        for name, system in systems.items():
            table.add_row(name, *(f"{system[split][cell]['mean']:.3f}" for cell in cells))
        console.print(table)
    for row in record["significance"]:
        console.print(
            f"{row['measure']}: {row['first']} - {row['second']} = {row['difference']:+.3f}"
            f" (Holm-corrected p = {row['p_holm']:.4f})",
            highlight=False,
            soft_wrap=True,
        )
