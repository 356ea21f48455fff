"""Measuring: programs taken in turns in one process, medians, memory of each alone, one JSON line.

A benchmark gives `compare` a function that prepares its *sides*: ours first, then the peers.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tyro

from experiments.machine import resident_mib
from retrieval_jax.errors import InputError, check_at_least_1, one_screen_errors
from retrieval_jax.files import whole_file
from retrieval_jax.runs import provenance_record

C = TypeVar("C")


@dataclasses.dataclass(frozen=True)
class Options:
    """How to measure.

    Attributes:
        repeats: timed runs of each side, in turns: A B A B ...
        threads: CPU cores that the process may use, the same for every side.
        memory: also measure the peak memory of each side, alone in a process of its own.
        output: JSON file to write; the line is printed in any case.

    Raises:
        InputError: no repeats, or no threads.
    """

    repeats: int = 5
    threads: int = 2
    memory: bool = False
    output: Path | None = None

    def __post_init__(self) -> None:
        """Checks the numbers."""
        check_at_least_1(repeats=self.repeats, threads=self.threads)


class Side(NamedTuple):
    """A program, built and ready to run.

    Attributes:
        run: does the work once, waits for its end and gives what sides must agree on.
        items: how much a run works through, for example pairs.
    """

    run: Callable[[], np.ndarray]
    items: float


class Comparison(NamedTuple):
    """What a benchmark compares.

    Attributes:
        settings: what was computed, in terms of the benchmark.
        data: `name` and `fingerprint` of what it was computed on.
        packages: distributions that the peers use.
        sides: name -> builder; the first is ours.
        check: looks at the first outcome of each side; gives what to report of it.
    """

    settings: dict[str, Any]
    data: dict[str, str]
    packages: tuple[str, ...]
    sides: dict[str, Callable[[], Side]]
    check: Callable[[Mapping[str, np.ndarray]], dict[str, Any]]


class DisagreementError(AssertionError):
    """Two sides did not compute the same, so their times mean nothing."""


@one_screen_errors
def command_line(
    name: str, prepare: Callable[[C], Comparison], command_type: type[C], description: str | None
) -> dict[str, Any]:
    """Measures as the command line says; `command_type` has the field `options: Options`.

    Returns:
        The record.
    """
    command: Any = tyro.cli(
        command_type, prog=f"python -m benchmarks.{name}", description=description
    )
    limit_threads(command.options.threads)
    return compare(name, prepare, command, command.options)


def settings_of(command: Any) -> dict[str, Any]:
    """What a record says of a command: its fields, but for how to measure and where data lies."""
    settings = {
        field.name: getattr(command, field.name)
        for field in dataclasses.fields(command)
        if field.name not in ("options", "reviews")
    }
    if "encoder" in settings:
        settings["encoder"] = Path(settings["encoder"]).name
    return settings


def compare(
    name: str, prepare: Callable[[C], Comparison], command: C, options: Options
) -> dict[str, Any]:
    """Measures a benchmark, prints its JSON line and writes it to `options.output`.

    The first run of each side is not timed: it compiles, and its outcome is checked.

    Args:
        name: of the benchmark.
        prepare: importable function; called again in the processes that measure memory.
        command: its argument, picklable.
        options: how to measure.

    Returns:
        The record. In it `ratio` is a peer's median time an item by ours, so that above 1 ours is
        faster; `compile_s` is what our first run took longer than the median; `peak_mib` see
        `peak_memory`.

    Raises:
        InputError: a package that is not installed.
        DisagreementError: from the check.
    """
    load = os.getloadavg()[0]
    try:
        comparison = prepare(command)
    except ModuleNotFoundError as error:
        raise InputError(
            f"the peer's package {error.name!r} is not installed", "pip install -e '.[bench]'"
        ) from error
    peaks = {
        side: peak_memory(prepare, command, side) for side in comparison.sides if options.memory
    }
    sides = {side: build() for side, build in comparison.sides.items()}
    firsts = {side: _timed(run) for side, (run, _) in sides.items()}
    checked = comparison.check({side: first.outcome for side, first in firsts.items()})
    times = _take_turns({side: run for side, (run, _) in sides.items()}, options.repeats)

    results = _summary(times, {side: items for side, (_, items) in sides.items()})
    for side, peak in peaks.items():
        results[side]["peak_mib"] = round(peak)
    ours = next(iter(sides))
    provenance = provenance_record(comparison.data["fingerprint"])
    provenance["versions"] |= {
        package: importlib.metadata.version(package) for package in comparison.packages
    }
    record = {
        "benchmark": name,
        "settings": comparison.settings,
        "data": comparison.data,
        "threads": options.threads,
        "repeats": options.repeats,
        "sides": results,
        "compile_s": round(firsts[ours].wall - results[ours]["median_s"], 2),
        **checked,
        "load_average": round(load, 2),
        **provenance,
    }
    give_record(record, options.output)
    return record


def give_record(record: Mapping[str, Any], output: Path | None) -> None:
    """Prints a record as one JSON line, and writes it to `output`, whose folder is made."""
    line = json.dumps(record, ensure_ascii=False)
    print(line)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(output) as partial:
            partial.write_text(line + "\n", encoding="utf-8")


def check_losses(losses: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Refuses sides whose losses `[steps]` differ; gives the loss of the first step of each.

    Raises:
        DisagreementError: somewhere ours, the first, differs from another by more than 1e-3.
    """
    ours, *peers = losses
    for side in peers:
        difference = float(np.max(np.abs(losses[ours] - losses[side])))
        if not difference <= 1e-3:
            raise DisagreementError(f"losses of {ours} and {side} differ by {difference:.2g}")
    return {"first_loss": {side: round(float(values[0]), 5) for side, values in losses.items()}}


def peak_memory(prepare: Callable[[C], Comparison], command: C, side: str) -> float:
    """MiB that building `side` and running it once needs at most, in a process of its own.

    What the process held before (interpreter, imported libraries of all sides, data) is not
    counted. Linux only.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_run_alone, prepare, command, side).result()


def _run_alone(prepare: Callable[[C], Comparison], command: C, side: str) -> float:
    build = prepare(command).sides[side]
    with contextlib.suppress(
        OSError
    ):  # some systems do not let the peak be set to what is held now
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = resident_mib("VmRSS")
    build().run()
    return resident_mib("VmHWM") - before


def limit_threads(threads: int) -> None:
    """Starts the process again on so many cores, if it has more.

    JAX, torch and OpenMP count the cores once, when they are loaded. Pinned later to one of two,
    OpenMP's threads wait for each other several times as long as they work.

    Raises:
        InputError: there are fewer cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise InputError(
            f"{threads} threads on {len(cores)} cores", f"Set --threads {len(cores)} or less."
        )
    if threads < len(cores):
        os.sched_setaffinity(0, cores[-threads:])
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


class _Timed(NamedTuple):
    """One run: what it gave, wall seconds, CPU seconds of all threads."""

    outcome: np.ndarray
    wall: float
    cpu: float


def _timed(run: Callable[[], np.ndarray]) -> _Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = run()
    return _Timed(outcome, time.perf_counter() - wall, time.process_time() - cpu)


def _summary(
    times: Mapping[str, list[_Timed]], items: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Statistics of each side's runs; the first side is ours."""
    medians = {side: statistics.median(run.wall for run in runs) for side, runs in times.items()}
    pace = {side: median / items[side] for side, median in medians.items()}
    ours, *peers = times
    summary = {
        side: {
            "items_per_second": round(1 / pace[side], 1),
            "median_s": round(medians[side], 4),
            "min_s": round(min(run.wall for run in runs), 4),
            "max_s": round(max(run.wall for run in runs), 4),
            "median_cpu_s": round(statistics.median(run.cpu for run in runs), 4),
        }
        for side, runs in times.items()
    }
    for peer in peers:
        summary[peer]["ratio"] = round(pace[peer] / pace[ours], 3)
    return summary


def _take_turns(
    runs: Mapping[str, Callable[[], np.ndarray]], repeats: int
) -> dict[str, list[_Timed]]:
    times: dict[str, list[_Timed]] = {side: [] for side in runs}
    for repeat in range(repeats):
        for side, run in runs.items():
            times[side].append(_timed(run))
        shown = ", ".join(f"{side} {done[-1].wall:.2f} s" for side, done in times.items())
        print(f"repeat {repeat + 1}/{repeats}: {shown}", file=sys.stderr)
    return times
