"""Where a sweep stands: its cells' states, the table on the screen, and the record at the end."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from experiments.records import make_record, mean_and_sd, summarise
from experiments.sweep.cells import (
    DONE,
    FAILED,
    LOG,
    SPENT,
    Cell,
    State,
    Sweep,
    chosen,
    read_json,
    state,
)
from retrieval_jax.logs import read_metrics

LISTED = 40
"""Rows that the live table has at most: of a large sweep those that are in progress come first."""
SHOWN = 3
"""Measures that it has at most, the first; the record has all."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One combination of a sweep.

    Attributes:
        choices: axis -> label.
        states: of its cells, one a seed.
        step: of each running cell, the last that its metrics name.
        measures: measure -> values of the finished cells.
        seconds: what these took.
    """

    choices: dict[str, str]
    states: list[State]
    step: list[int]
    measures: dict[str, list[float]]
    seconds: list[float]


def rows_of(sweep: Sweep, output: Path) -> list[Row]:
    """The combinations of a sweep, as they stand on disk; measures are those that it names now."""
    rows: dict[tuple[str, ...], Row] = {}
    for cell in sweep.cells():
        row = rows.setdefault(tuple(cell.choices.values()), Row(cell.choices, [], [], {}, []))
        folder = cell.folder(output)
        row.states.append(state(folder))
        if row.states[-1] == "running":
            entries = read_metrics(folder / "run")
            row.step.append(entries[-1]["step"] if entries else 0)
        if row.states[-1] == "done":
            done = read_json(folder / DONE)
            row.seconds.append(done["seconds"])
            numbers = done.get("numbers", done.get("measures", {}))  # of an older sweep
            for name, value in chosen(numbers, sweep.measures).items():
                row.measures.setdefault(name, []).append(value)
    return list(rows.values())


def counts(rows: Sequence[Row]) -> str:
    """How many cells are in which state, in words."""
    found = Counter(state for row in rows for state in row.states)
    return ", ".join(f"{number} {name}" for name, number in found.most_common())


def progress_table(title: str, rows: Sequence[Row]) -> Table:
    """The table on the screen: a row a combination, its states and its measures so far."""
    table = Table(title=f"{title}: {counts(rows)}")
    for axis in rows[0].choices:
        table.add_column(axis)
    table.add_column("cells")
    measured = list(dict.fromkeys(name for row in rows for name in row.measures))
    names = measured[:SHOWN]
    for name in (*names, "s"):
        table.add_column(name, justify="right")
    further = {"combinations": len(rows) - LISTED, "measures": len(measured) - SHOWN}
    table.caption = ", ".join(f"{n} more {what}" for what, n in further.items() if n > 0)
    if len(rows) > LISTED:
        rows = sorted(rows, key=lambda row: "running" not in row.states)
    for row in rows[:LISTED]:
        cells = [mean_and_sd(summarise(of)) if (of := row.measures.get(n)) else "" for n in names]
        seconds = f"{sum(row.seconds) / len(row.seconds):.0f}" if row.seconds else ""
        table.add_row(*row.choices.values(), _states(row), *cells, seconds)
    return table


def _states(row: Row) -> str:
    found = Counter(row.states)
    words = [f"{number} {name}" for name, number in found.items() if name != "running"]
    return ", ".join([*words, *(f"running, step {step}" for step in row.step)])


def failures(cells: Sequence[Cell], output: Path) -> list[str]:
    """A line for each cell that failed: its name, status, attempts and log."""
    lines = []
    for cell in cells:
        folder = cell.folder(output)
        if state(folder) == "failed":
            failed = read_json(folder / FAILED)
            lines.append(
                f"failed: {cell.name} (status {failed['code']}, {failed['attempts']} attempts):"
                f" {folder / LOG}"
            )
    return lines


def budget(cells: Sequence[Cell], output: Path) -> dict[str, float]:
    """What the cells have taken so far, failed and stopped attempts with them.

    Returns:
        `cells`, and how many of them were `timed`; `cpu_hours` of all cores and `wall_hours`, one
        cell after the other, that these took; and `peak_mib`, the most memory that one held.
    """
    notes = [cell.folder(output) / SPENT for cell in cells]
    spent = [read_json(note) for note in notes if note.is_file()]
    ends = [cell.folder(output) / DONE for cell in cells]
    peaks = [read_json(done).get("peak_mib", 0.0) for done in ends if done.is_file()]
    return {
        "cells": len(cells),
        "timed": len(spent),
        "cpu_hours": round(sum(of["cpu_seconds"] for of in spent) / 3600, 3),
        "wall_hours": round(sum(of["seconds"] for of in spent) / 3600, 3),
        "peak_mib": max(peaks, default=0.0),
    }


def data_fingerprints(cells: Sequence[Cell], output: Path) -> str:
    """The hashes of what the cells were trained on, each once, with blanks between."""
    notes = [cell.folder(output) / "run" / "provenance.json" for cell in cells]
    return " ".join(sorted({read_json(n)["data_fingerprint"] for n in notes if n.is_file()}))


def sweep_record(name: str, sweep: Sweep, output: Path) -> dict[str, Any]:
    """The record of a sweep: each combination's measures over its finished seeds.

    "rows" holds `choices`, `cells` (state -> number), `measures` (name -> mean, sd, seeds) and
    `seconds` (mean a cell); combinations without a finished cell are there too, without measures.
    "budget" is what all cells took.
    """
    cells = sweep.cells()
    rows = [
        {
            "choices": row.choices,
            "cells": dict(Counter(row.states)),
            "measures": {
                name: summarise(values) | {"seeds": len(values)}
                for name, values in row.measures.items()
            },
            "seconds": round(sum(row.seconds) / len(row.seconds), 1) if row.seconds else None,
        }
        for row in rows_of(sweep, output)
    ]
    found = {
        "axes": list(sweep.axes),
        "about": sweep.about,
        "rows": rows,
        "budget": budget(cells, output),
    }
    config = {"sweep": {"module": sweep.module, "options": list(sweep.options)}}
    fingerprints = data_fingerprints(cells, output)
    return make_record(f"sweep {name}", sweep.about, config, sweep.seeds, fingerprints, found)
