"""Runs a sweep by a launcher, with a table of its progress."""

from pathlib import Path

from rich.live import Live

from experiments.sweep import status
from experiments.sweep.cells import Cell, Sweep, state
from experiments.sweep.launchers import Launcher
from experiments.sweep.worker import note_killed
from retrieval_jax.logs import result_console


def run_sweep(name: str, sweep: Sweep, output: Path, launcher: Launcher) -> list[Cell]:
    """Runs what is not done yet, showing the table; gives the cells that are not done then."""
    cells = sweep.cells()
    for cell in cells:
        cell.prepare(output)
    todo = [cell for cell in cells if state(cell.folder(output)) not in ("done", "running")]
    console = result_console()
    said = ""

    def watch() -> None:
        nonlocal said
        rows = status.rows_of(sweep, output)
        if live.is_started:
            live.update(status.progress_table(name, rows))
        elif said != (said := status.counts(rows)):
            console.print(said, highlight=False)

    live = Live(console=console, refresh_per_second=1)
    if console.is_terminal:
        live.start()
    try:
        codes = launcher([cell.worker_command(output) for cell in todo], watch)
    finally:
        live.stop()
    for cell, code in zip(todo, codes, strict=False):  # a launcher may not know any
        note_killed(cell, output, code)
    return [cell for cell in cells if state(cell.folder(output)) != "done"]


def print_sweep(name: str, sweep: Sweep, output: Path) -> bool:
    """Prints the table, and what failed with its log; tells whether anything did."""
    console = result_console()
    console.print(status.progress_table(name, status.rows_of(sweep, output)))
    failed = status.failures(sweep.cells(), output)
    for line in failed:
        console.print(line, highlight=False, soft_wrap=True)
    return bool(failed)
