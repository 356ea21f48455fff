"""Runs the command of a results file again, and compares.

COMMAND   python -m experiments.reproduce experiments/results/ltr_debian_clir.json
TIME      that of the command, which the file names
HARDWARE  that of the command
SCORE     a table of the numbers that differ

The new results go to a temporary file. Words after `--` are added to the command, for example
`-- --runs runs/again`, without which finished runs are read and not trained again. Arguments that
were files of another folder are looked up by their names below the folder that RETRIEVAL_DATA
names. Exit status 1 if a number is out of tolerance, absent or new.
"""

import dataclasses
import math
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
from experiments.sweep.cells import flatten
from retrieval_jax.config import split_at_dashes
from retrieval_jax.data_folders import DATA_VARIABLE
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import result_console

# What differs from one time to the next, or says how and not what.
IGNORED = ("provenance", "config", "configs", "seeds", "tuning", "budget")
TIMES = ("seconds", "_second", "load_average")
"""How names of times, rates and loads end."""
MODULES = ("experiments.", "benchmarks.")
RESULTS = "--results"


@dataclasses.dataclass(frozen=True)
class Command:
    """What to run again, and how much may differ.

    Attributes:
        record: results file.
        tolerance: of each number, absolute; beside it numbers may differ by their own standard
            deviations.
        deviations: so many of these.
        new: results of another run to compare with, instead of running the command.
        dry_run: print the command only.
    """

    record: Annotated[Path, tyro.conf.Positional]
    tolerance: float = 0.002
    deviations: float = 2.0
    new: Path | None = None
    dry_run: bool = False


@dataclasses.dataclass(frozen=True)
class Difference:
    """A number that is not what it was.

    Attributes:
        name: its path in the record.
        before: value, None if it is new.
        after: value, None if it is absent.
        allowed: difference that would be within tolerance.
    """

    name: str
    before: float | None
    after: float | None
    allowed: float

    @property
    def is_within(self) -> bool:
        """Whether it is within tolerance."""
        if self.before is None or self.after is None:
            return False
        if math.isnan(self.before) and math.isnan(self.after):
            return True
        return abs(self.after - self.before) <= self.allowed


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


def found(argument: str) -> str:
    """A file's name as its path below the data folder, if it lies there once; else as it is."""
    parent = os.environ.get(DATA_VARIABLE)
    is_name = Path(argument).name == argument and not argument.startswith("-")
    if parent is None or not is_name or Path(argument).exists() or argument in (".", ".."):
        return argument
    places = [Path(folder) / argument for folder, _, files in os.walk(parent) if argument in files]
    return str(places[0]) if len(places) == 1 else argument


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """What a record's experiment has measured, by path."""
    kept = {name: value for name, value in record.items() if name not in IGNORED}
    return flatten(_without_times(kept))


def _without_times(value: Any) -> Any:
    """The same without times, and what follows from them, at any level."""
    if isinstance(value, Mapping):
        return {k: _without_times(of) for k, of in value.items() if not k.endswith(TIMES)}
    return [_without_times(of) for of in value] if isinstance(value, list) else value


def compare(
    before: Mapping[str, Any], after: Mapping[str, Any], tolerance: float, deviations: float
) -> list[Difference]:
    """Numbers of two records that are not the same, in the order of the first."""
    old, new = numbers_of(before), numbers_of(after)
    differences = []
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            spread = max(of.get(f"{name.rpartition('.')[0]}.sd", 0.0) for of in (old, new))
            own = deviations * spread if name.endswith(".mean") else 0.0
            allowed = tolerance + own
            differences.append(Difference(name, old.get(name), new.get(name), allowed))
    return differences


def comparison_table(differences: Sequence[Difference], compared: int) -> Table:
    """The differences as a table."""
    table = Table(title=f"{compared} numbers compared, {len(differences)} differ")
    for name in ("number", "before", "after", "difference", "allowed", ""):
        table.add_column(name, justify="left" if name in ("number", "") else "right")
    for row in differences:
        both = [value for value in (row.before, row.after) if value is not None]
        change = f"{both[1] - both[0]:+.4f}" if len(both) == 2 else ""
        shown = ["" if v is None else f"{v:.4f}" for v in (row.before, row.after)]
        verdict = "" if row.is_within else "beyond"
        table.add_row(row.name, *shown, change, f"{row.allowed:.4f}", verdict)
    return table


@one_screen_errors
def main() -> None:
    """Runs the recorded command again, and prints what differs."""
    own, more = split_at_dashes(sys.argv[1:])
    command = tyro.cli(
        Command, prog="python -m experiments.reproduce", description=__doc__, args=own
    )
    before = read_record(command.record)
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
