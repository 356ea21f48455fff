"""Runs one cell of a sweep under a claim; what a launcher starts, here or on a cluster.

COMMAND   python -m experiments.sweep.worker --output FOLDER --cell NAME
TIME      that of the cell
HARDWARE  that of the experiment

The experiment runs inside this process, so that claim and training live and die together. It takes
an interrupted run folder up by itself. Started several times by `retrieval_jax.distributed`, it is
one run of all these processes: process 0 claims the cell and notes how it ended, with its own time
and memory. Exit status: 0 done, by this call or before; 1 failed; 75 another process is at it; 128
and more: stopped by a signal, to be started again.
"""

import contextlib
import dataclasses
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import tyro

from experiments.machine import peak_mib
from experiments.sweep import claims
from experiments.sweep.cells import (
    DONE,
    FAILED,
    LOG,
    SPENT,
    Cell,
    numbers_of_run,
    read_cell,
    read_json,
    state,
)
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.files import write_json

T = TypeVar("T")

BUSY = 75
"""Exit status EX_TEMPFAIL: another process runs the cell."""
FAILED_BEFORE = "failed_before.json"
"""Where `failed.json` goes when the cell is run again, for the number of attempts."""


@dataclasses.dataclass(frozen=True)
class Command:
    """Runs one cell of a sweep.

    Attributes:
        output: folder of the sweep.
        cell: name of the cell.
    """

    output: Path
    cell: str


def run_cell(cell: Cell, output: Path) -> int:
    """Runs a cell unless it is done or another process is at it; the others of a job join in.

    Args:
        cell: which; its folder is there.
        output: folder of the sweep.

    Returns:
        The exit status, see above.
    """
    if not _is_first():
        told = _tell_others(None)
        return _experiment(cell, output) if told is None else told
    folder = cell.folder(output)
    claim = claims.take(folder)
    if claim is None:
        return _tell_others(BUSY)
    with claim:
        if (folder / DONE).is_file():
            return _tell_others(0)
        _tell_others(None)
        if (folder / FAILED).is_file():
            (folder / FAILED).replace(folder / FAILED_BEFORE)
        with _timed(folder), _into_log(folder / LOG):
            print(f"$ {cell.command(output)}", flush=True)
            code = _experiment(cell, output)
        if code >= 128 or claim.lost:
            return code or BUSY
        record = {
            "command": cell.command(output),
            "attempts": _failures(folder) + 1,
            **read_json(folder / SPENT),
        }
        if code:
            write_json(folder / FAILED, record | {"code": code})
        else:
            numbers = numbers_of_run(folder / "run")
            write_json(folder / DONE, record | {"peak_mib": peak_mib(), "numbers": numbers})
            (folder / FAILED_BEFORE).unlink(missing_ok=True)
        return code


def _has_others() -> bool:
    """Whether `retrieval_jax.distributed` has joined this process with others."""
    # Who joined them has imported JAX; here that would come before the time is taken.
    jax = sys.modules.get("jax")
    return jax is not None and jax.distributed.is_initialized() and jax.process_count() > 1


def _is_first() -> bool:
    """Whether this process claims the cell, for the others too."""
    return not _has_others() or sys.modules["jax"].process_index() == 0


def _tell_others(code: T) -> T:
    """The first process's exit status on all, if it is known already; None = run the experiment."""
    if not _has_others():
        return code
    from retrieval_jax.distributed import broadcast

    return broadcast(code)


def note_killed(cell: Cell, output: Path, code: int) -> None:
    """Notes the failure of a cell whose worker could not: it was killed, or never began.

    Args:
        cell: which.
        output: folder of the sweep.
        code: exit status of the worker, negative if a signal ended it.
    """
    folder = cell.folder(output)
    killed = code < 0 and -code not in (signal.SIGTERM, signal.SIGINT)
    if (killed or code in (1, 2)) and state(folder) in ("waiting", "interrupted"):
        record = {"command": cell.command(output), "attempts": _failures(folder) + 1, "code": code}
        write_json(folder / FAILED, record)


def _failures(folder: Path) -> int:
    notes = (folder / name for name in (FAILED, FAILED_BEFORE))
    return max((read_json(note)["attempts"] for note in notes if note.is_file()), default=0)


@contextlib.contextmanager
def _timed(folder: Path) -> Iterator[None]:
    """Adds the time inside to that of earlier attempts: by the clock, and of all cores.

    However the inside ends; but an attempt that is killed is not counted.
    """
    clock, cores = time.perf_counter(), _cpu_seconds()
    try:
        yield
    finally:
        spent = {"seconds": time.perf_counter() - clock, "cpu_seconds": _cpu_seconds() - cores}
        path = folder / SPENT
        before = read_json(path) if path.is_file() else dict.fromkeys(spent, 0.0)
        write_json(path, {name: round(spent[name] + before[name], 1) for name in spent})


def _cpu_seconds() -> float:
    """What this process and its ended children have computed, user and system."""
    return sum(os.times()[:4])


def _experiment(cell: Cell, output: Path) -> int:
    """Runs the experiment's module in this process; gives its status."""
    with _command_line(cell.module, cell.arguments(output)):
        try:
            runpy.run_module(cell.module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if not isinstance(end.code, int | None):
                print(end.code, file=sys.stderr)
                return 1
            return end.code or 0
        except Exception:  # whatever it is: the log says it, and the sweep goes on
            traceback.print_exc()
            return 1
        return 0


@contextlib.contextmanager
def _into_log(path: Path) -> Iterator[None]:
    """Sends output to a file, also that of libraries and child processes."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with path.open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    # Python's own streams may be another's (a test's): they are pointed to the same file.
    with open(1, "w", closefd=False, encoding="utf-8", buffering=1) as text:
        try:
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                yield
        finally:
            text.flush()
            for stream, before in zip((1, 2), kept, strict=True):
                os.dup2(before, stream)
                os.close(before)


@contextlib.contextmanager
def _command_line(module: str, arguments: list[str]) -> Iterator[None]:
    """The experiment's command line instead of the worker's, for it and its provenance."""
    before = sys.argv, sys.orig_argv
    sys.argv = [module, *arguments]
    sys.orig_argv = [sys.executable, "-m", module, *arguments]
    try:
        yield
    finally:
        sys.argv, sys.orig_argv = before


@one_screen_errors
def main() -> None:
    """Runs the cell that the command line names."""
    command = tyro.cli(Command, prog="python -m experiments.sweep.worker")
    cell = read_cell(command.output, command.cell)
    code = run_cell(cell, command.output)
    if code == 1 and _has_others():
        # An error perhaps of this process alone: the others wait for it, and end when it is gone.
        os._exit(code)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
