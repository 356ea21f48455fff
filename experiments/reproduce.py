"""Runs the command of a results file again, and compares.

COMMAND   python -m experiments.reproduce experiments/results/ltr_debian_clir.json
TIME      that of the command, which the file names
HARDWARE  that of the command
SCORE     a table of the numbers that differ

The new results go to a temporary file. Words after `--` are added to the command, for example
`-- --runs runs/again`, without which finished runs are read and not trained again. Arguments that
were files of another folder are looked up by their names below the folder that RETRIEVAL_DATA
names. Exit status 1 if a number is out of tolerance, absent or new.

How much a number may differ depends on its kind. Measures: --tolerance, and means over seeds
--deviations standard deviations more. Standard deviations: the tolerance and half of the larger.
Differences, gains and ends of intervals: twice the tolerance and a tenth of the interval. p values:
.01 and a quarter of the larger. Weights: a step of their grid, .1. Counts: nothing. Times, rates,
loads and memory are not compared.
"""

import dataclasses
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from experiments.records import read_record
from experiments.tolerances import Difference, compare, numbers_of
from retrieval_jax.config import split_at_dashes
from retrieval_jax.data_folders import DATA_VARIABLE
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import result_console

MODULES = ("experiments.", "benchmarks.")
RESULTS = "--results"


@dataclasses.dataclass(frozen=True)
class Command:
    """What to run again, and how much may differ.

    Attributes:
        record: results file.
        tolerance: of a measure, absolute; other kinds of numbers as above.
        deviations: standard deviations over seeds that a mean may differ by, beside it.
        new: results of another run to compare with, instead of running the command.
        dry_run: print the command only.
    """

    record: Annotated[Path, tyro.conf.Positional]
    tolerance: float = 0.002
    deviations: float = 2.0
    new: Path | None = None
    dry_run: bool = False


def recorded_command(record: Mapping[str, Any], output: Path, more: Sequence[str]) -> list[str]:
    """The recorded command as words, its results going elsewhere.

    Args:
        record: a results file's contents.
        output: where the new results go.
        more: further words.

    Raises:
        InputError: no command, or another one than of this project's experiments.
    """
    words = shlex.split(record.get("provenance", {}).get("command", ""))
    if words[:2] != ["python", "-m"] or not words[2:3] or not words[2].startswith(MODULES):
        raise InputError(
            f"the record's command is no experiment: {shlex.join(words) or 'none'}",
            "Give results with provenance, written by a command of this project.",
        )
    own, behind = split_at_dashes([found(word) for word in words[3:]])
    kept = [
        word
        for before, word in zip(["", *own], own, strict=False)
        if RESULTS not in (before, word) and not word.startswith(f"{RESULTS}=")
    ]
    elsewhere = [*kept, *more, RESULTS, str(output)]
    return [sys.executable, "-m", words[2], *elsewhere, *(["--", *behind] if behind else [])]


def read_again(path: Path) -> dict[str, Any]:
    """Reads the record whose command is to run again.

    Raises:
        InputError: as `read_record`; or the results of a benchmark that writes no record.
    """
    try:
        return read_record(path)
    except InputError:
        name = _benchmark_of(path)
        if name is None:
            raise
    module = f"benchmarks.{name}"
    raise InputError(
        f"{path} is not the record of an experiment, but what {module} wrote: speed and memory,"
        " which are never the same again, or a record in an earlier form",
        f"Run the benchmark itself: `python -m {module}`, with options as its --help says. With"
        " --results (benchmarks.formula_conversion) it writes a record that can be reproduced.",
    )


def _benchmark_of(path: Path) -> str | None:
    """Name of the benchmark whose results a file holds; None if it holds none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["benchmark"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def found(argument: str) -> str:
    """A file's name as its path below the data folder, if it lies there once; else as it is."""
    parent = os.environ.get(DATA_VARIABLE)
    is_name = Path(argument).name == argument and not argument.startswith("-")
    if parent is None or not is_name or Path(argument).exists() or argument in (".", ".."):
        return argument
    places = [Path(folder) / argument for folder, _, files in os.walk(parent) if argument in files]
    return str(places[0]) if len(places) == 1 else argument


def comparison_table(differences: Sequence[Difference], compared: int) -> Table:
    """The differences as a table."""
    table = Table(title=f"{compared} numbers compared, {len(differences)} differ")
    for name in ("number", "kind", "before", "after", "difference", "allowed", ""):
        table.add_column(name, justify="left" if name in ("number", "kind", "") else "right")
    for row in differences:
        both = [value for value in (row.before, row.after) if value is not None]
        change = f"{both[1] - both[0]:+.4f}" if len(both) == 2 else ""
        shown = ["" if v is None else f"{v:.4f}" for v in (row.before, row.after)]
        verdict = "" if row.is_within else "beyond"
        table.add_row(row.name, row.kind, *shown, change, f"{row.allowed:.4f}", verdict)
    return table


@one_screen_errors
def main() -> None:
    """Runs the recorded command again, and prints what differs."""
    own, more = split_at_dashes(sys.argv[1:])
    command = tyro.cli(
        Command, prog="python -m experiments.reproduce", description=__doc__, args=own
    )
    before = read_again(command.record)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / command.record.name
        if command.new is None:
            again = recorded_command(before, output, more)
            print(shlex.join(["python", *again[1:]]), flush=True)
            if command.dry_run:
                return
            code = subprocess.run(again, check=False).returncode
            if code:
                raise InputError(f"the command ended with status {code}", "See its output above.")
        after = read_record(command.new or output, before["experiment"])
    differences = compare(before, after, command.tolerance, command.deviations)
    console = result_console()
    console.print(comparison_table(differences, len(numbers_of(before))))
    fingerprints = [of.get("provenance", {}).get("data_fingerprint") for of in (before, after)]
    if fingerprints[0] != fingerprints[1]:
        console.print("The data differ: their fingerprints are not the same.", highlight=False)
    beyond = [row for row in differences if not row.is_within]
    print(f"{len(beyond)} beyond tolerance" if beyond else "reproduced, within tolerance")
    if beyond:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
