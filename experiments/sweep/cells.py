"""Sweeps and their cells: which commands a grid of settings means, and what each has left.

A cell is one training: one choice on every axis, and a seed. Its folder `cells/NAME` holds
`cell.json` (what it is), `log.txt`, `run` (the run folder), `spent.json` (the time so far), and at
the end `done.json`, with time, memory and all numbers of the run, or `failed.json`. The name ends
in a hash of the command, so that other options are other cells.
"""

import dataclasses
import fnmatch
import hashlib
import itertools
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from experiments.sweep.claims import is_claimed
from retrieval_jax.errors import InputError
from retrieval_jax.files import write_json
from retrieval_jax.logs import read_metrics

DONE, FAILED, CELL, LOG = "done.json", "failed.json", "cell.json", "log.txt"
SPENT = "spent.json"
"""Time of all attempts so far, also of those that were told to stop."""
BEST_DEV = "dev "
"""How names of best dev values begin."""
State = Literal["done", "running", "failed", "interrupted", "waiting"]
Axis = Mapping[str, tuple[str, ...]]
"""Label of a choice -> words of the command line."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """An experiment, run with each combination of settings and each seed.

    Attributes:
        module: the experiment, such as "experiments.gcl.train"; it takes `--run`.
        axes: what is varied: name -> choices.
        seeds: of each combination.
        options: words of the command line that all cells have.
        seed_option: takes the seed.
        measures: patterns of names in the run's `results.json`, dots between levels, such as
            "bpref.all.*.full"; the best dev value of the run's own measure is always kept.
        about: what it shows, in a sentence.
        decided_by: option of the experiment -> the one that decides it, unless that is None.
    """

    module: str
    axes: Mapping[str, Axis]
    seeds: tuple[int, ...] = (0,)
    options: tuple[str, ...] = ()
    seed_option: str = "--training.seed"
    measures: tuple[str, ...] = ()
    about: str = ""
    decided_by: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def cells(self) -> list["Cell"]:
        """All cells, seed by seed, so that an early look shows every combination.

        Raises:
            InputError: an axis without choices, or two cells that are the same.
        """
        empty = [name for name, choices in self.axes.items() if not choices]
        if empty or not self.seeds:
            raise InputError(f"nothing to vary in {empty or 'seeds'}", "Give one value or more.")
        combinations = list(itertools.product(*(choices for choices in self.axes.values())))
        cells = [
            self._cell(dict(zip(self.axes, labels, strict=True)), seed)
            for seed in self.seeds
            for labels in combinations
        ]
        names = [cell.name for cell in cells]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"these cells occur twice: {', '.join(twice)}", "Give values once.")
        return cells

    def _cell(self, choices: dict[str, str], seed: int) -> "Cell":
        varied = [word for axis, label in choices.items() for word in self.axes[axis][label]]
        words = (*self.options, *varied, self.seed_option, str(seed))
        digest = hashlib.sha256(json.dumps([self.module, *words]).encode()).hexdigest()[:8]
        slug = re.sub(r"[^\w.+-]+", "_", "-".join([*choices.values(), str(seed)]))[:80]
        return Cell(f"{slug}-{digest}", self.module, words, choices, seed)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training of a sweep.

    Attributes:
        name: of its folder.
        module: the experiment.
        words: of its command line, but for `--run`.
        choices: axis -> label.
        seed: random seed.
    """

    name: str
    module: str
    words: tuple[str, ...]
    choices: dict[str, str]
    seed: int

    def folder(self, output: Path) -> Path:
        """Its folder in that of the sweep."""
        return output / "cells" / self.name

    def arguments(self, output: Path) -> list[str]:
        """Words of the experiment's command line."""
        return [*self.words, "--run", str(self.folder(output) / "run")]

    def command(self, output: Path) -> str:
        """The experiment's command, for people."""
        return shlex.join(["python", "-m", self.module, *self.arguments(output)])

    def worker_command(self, output: Path) -> list[str]:
        """The command that runs it under a claim; what a launcher is given."""
        words = ["--output", str(output), "--cell", self.name]
        return [sys.executable, "-m", "experiments.sweep.worker", *words]

    def prepare(self, output: Path) -> None:
        """Makes its folder and says there what it is, for the worker."""
        folder = self.folder(output)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / CELL).is_file():
            write_json(folder / CELL, dataclasses.asdict(self))


def read_cell(output: Path, name: str) -> Cell:
    """The cell that `Cell.prepare` has written.

    Raises:
        InputError: there is none.
    """
    path = output / "cells" / name / CELL
    if not path.is_file():
        raise InputError(f"no cell {name} in {output}", "Start it with experiments.sweep.")
    fields = read_json(path)
    return Cell(**{**fields, "words": tuple(fields["words"])})


def state(folder: Path) -> State:
    """What has become of the cell in a folder."""
    if (folder / DONE).is_file():
        return "done"
    if is_claimed(folder):
        return "running"
    if (folder / FAILED).is_file():
        return "failed"
    return "interrupted" if (folder / "run").is_dir() else "waiting"


def numbers_of_run(run: Path) -> dict[str, float]:
    """Every number that a run folder holds.

    Returns:
        "dev NAME": the best dev value of the measure that the configuration names; and the numbers
        of `results.json` by their paths.
    """
    numbers: dict[str, float] = {}
    if (run / "config.json").is_file():
        config = read_json(run / "config.json")["config"]
        name = config.get("training", {}).get("best_measure")
        evaluations = [entry for entry in read_metrics(run) if entry["kind"] == "dev"]
        values = [value for e in evaluations if (value := e.get(name)) is not None]
        if values:
            numbers[f"{BEST_DEV}{name}"] = max(values)
    if (run / "results.json").is_file():
        numbers |= flatten(read_json(run / "results.json"))
    return numbers


def chosen(numbers: Mapping[str, float], patterns: Sequence[str]) -> dict[str, float]:
    """Of the numbers of a run the best dev value, and those whose name a pattern matches."""
    kept = {name: value for name, value in numbers.items() if name.startswith(BEST_DEV)}
    for pattern in patterns:
        kept |= {n: value for n, value in numbers.items() if fnmatch.fnmatchcase(n, pattern)}
    return kept


def flatten(values: Any, name: str = "") -> dict[str, float]:
    """The numbers of nested dictionaries and lists by their path, dots between levels."""
    if isinstance(values, Mapping):
        items = [(str(key), value) for key, value in values.items()]
    elif isinstance(values, list):
        items = [(str(index), value) for index, value in enumerate(values)]
    else:
        is_number = isinstance(values, int | float) and not isinstance(values, bool)
        return {name: values} if is_number else {}
    return {
        path: number
        for key, value in items
        for path, number in flatten(value, f"{name}.{key}" if name else key).items()
    }


def read_json(path: Path) -> Any:
    """Reads a file of a cell."""
    return json.loads(path.read_text(encoding="utf-8"))
