"""Runs an experiment with every combination of settings and every seed.

COMMAND   python -m experiments.sweep --ablation gcl_augmentation --output runs/ablations/gcl
          python -m experiments.sweep --module experiments.docent.pretrain --output runs/sweep \
              --fields model.kind=dual,hybrid model.layers=2,4,6 --seeds 0 1 2 -- --preset small
TIME      cells by the time of each; `--dry-run` lists them and runs nothing
HARDWARE  that of the experiment; `--workers` cells at a time
SCORE     results.json in --output, and where --results says when all cells are done

Words after `--` are options of all cells; what the sweep varies is refused there. A value with
spaces is several words:
`--fields "augmentation.methods=node_drop,node_drop edge_drop"`. Finished cells are not run again, a
half-finished one is taken up by its run folder, a failed one is listed with its log and run again
by the next call. Several calls may work on one folder: each cell is run by one of them.
"""

import dataclasses
import importlib.util
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tyro

from experiments.launch import Slurm
from experiments.records import write_record
from experiments.sweep import status
from experiments.sweep.ablations import ABLATIONS
from experiments.sweep.cells import Sweep, state
from experiments.sweep.launchers import CommandFile, Launcher, LocalProcesses, SlurmArray
from experiments.sweep.options import with_options
from experiments.sweep.running import print_sweep, run_sweep
from retrieval_jax.config import split_at_dashes
from retrieval_jax.errors import InputError, check_at_least_1, one_screen_errors


@dataclasses.dataclass(frozen=True)
class Command:
    """Which cells, and how they are run.

    Attributes:
        output: folder of the sweep, made here.
        ablation: a registered sweep, instead of module, fields and seeds.
        module: the experiment.
        fields: what is varied, NAME=VALUE,VALUE each; NAME is an option of the experiment.
        seeds: of each combination; of an ablation, instead of its own.
        seed_option: option of the experiment that takes the seed, as `--seed-option=--seed`; None =
            --training.seed.
        measures: patterns of names in the runs' results.json, beside the best dev value; also of
            runs that are done already.
        workers: cells at a time; None = 1 here, 16 of an array.
        launcher: local = processes here; slurm = an array of Slurm, after which `--dry-run` shows
            how the cells are; commands = write commands.txt for any other.
        slurm: what to ask Slurm for, for each cell.
        dry_run: list the cells with their states and commands, and run nothing.
        results: JSON file to write besides results.json in `output`, when all cells are done.
    """

    output: Path
    ablation: str | None = None
    module: str | None = None
    fields: tuple[str, ...] = ()
    seeds: tuple[int, ...] | None = None
    seed_option: str | None = None
    measures: tuple[str, ...] = ()
    workers: int | None = None
    launcher: Literal["local", "slurm", "commands"] = "local"
    slurm: Slurm = Slurm(name="sweep")
    dry_run: bool = False
    results: Path | None = None


def sweep_of(command: Command, options: Sequence[str]) -> Sweep:
    """The sweep that a command line means.

    Raises:
        InputError: neither an ablation nor a module, an unknown ablation, an ablation and what it
            says itself, a field without value, a field, value or seed that is given twice, or what
            `with_options` refuses.
    """
    _check_once(list(map(str, command.seeds or ())), "--seeds")
    if command.ablation is not None:
        if command.ablation not in ABLATIONS:
            names = ", ".join(ABLATIONS)
            raise InputError(f"no ablation {command.ablation!r}", f"There are {names}.")
        own = {
            "--module": command.module,
            "--fields": command.fields or None,
            "--seed-option": command.seed_option,
        }
        given = [option for option, value in own.items() if value is not None]
        if given:
            raise InputError(
                f"the ablation {command.ablation} has its own {', '.join(given)}",
                "Leave these options or --ablation out.",
            )
        sweep = ABLATIONS[command.ablation]
        sweep = dataclasses.replace(
            sweep,
            seeds=sweep.seeds if command.seeds is None else command.seeds,
            measures=(*sweep.measures, *command.measures),
        )
        return with_options(sweep, options)
    if command.module is None:
        raise InputError("no experiment was given", "Give --module or --ablation.")
    axes = list(map(_axis, command.fields))
    _check_once([name for name, _ in axes], "--fields")
    sweep = Sweep(
        command.module,
        dict(axes),
        (0,) if command.seeds is None else command.seeds,
        seed_option=command.seed_option or Sweep.seed_option,
        measures=command.measures,
    )
    return with_options(sweep, options)


def _axis(field: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    name, equals, values = field.partition("=")
    if not (name and equals and all(values.split(","))):
        raise InputError(f"{field!r} is no field with values", "Write NAME=VALUE,VALUE.")
    _check_once(values.split(","), field)
    try:
        return name, {value: (f"--{name}", *shlex.split(value)) for value in values.split(",")}
    except ValueError as error:
        raise InputError(f"{field!r}: {error}", "Close the quotation, or escape it.") from error


def _check_once(names: Sequence[str], where: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{where}: {', '.join(twice)} is given twice", "Give each once.")


def _check_launch(command: Command, module: str) -> None:
    """Refuses what would fail in every cell, and options of a launcher that is not asked for.

    Raises:
        InputError: no such module, or a launcher that has no use for what was given.
    """
    if command.workers is not None:
        check_at_least_1(workers=command.workers)
    if command.launcher != "slurm" and command.slurm != Command.slurm:
        raise InputError(
            f"options --slurm were given, but the launcher is {command.launcher}",
            "Set --launcher slurm, or leave them out.",
        )
    if command.launcher == "commands" and command.workers is not None:
        raise InputError(
            "--workers was given, but --launcher commands runs nothing",
            "Leave it out: whatever runs the commands says how many at a time.",
        )
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        is_there = False
    if not is_there:
        raise InputError(f"there is no module {module}", "Name one, as experiments.gcl.train.")


@one_screen_errors
def main() -> None:
    """Runs the sweep of the command line; exit status 1 if cells failed."""
    own, more = split_at_dashes(sys.argv[1:])
    command = tyro.cli(Command, prog="python -m experiments.sweep", description=__doc__, args=own)
    sweep = sweep_of(command, more)
    _check_launch(command, sweep.module)
    workers = {} if command.workers is None else {"workers": command.workers}
    name = command.ablation or command.module or ""
    cells = sweep.cells()
    if command.dry_run:
        for cell in cells:
            print(f"{state(cell.folder(command.output)):11} {cell.command(command.output)}")
        print(f"{len(cells)} cells")
        return
    launchers: dict[str, Launcher] = {
        "local": LocalProcesses(**workers),
        "slurm": SlurmArray(command.slurm, **workers),
        "commands": CommandFile(command.output / "commands.txt"),
    }
    command.output.mkdir(parents=True, exist_ok=True)
    unfinished = run_sweep(name, sweep, command.output, launchers[command.launcher])
    record = status.sweep_record(name, sweep, command.output)
    write_record(command.output / "results.json", record)
    if not unfinished:
        write_record(command.results, record)
    elif command.results is not None:
        print(f"{command.results} is not written: {len(unfinished)} cells are not done.")
    has_failures = print_sweep(name, sweep, command.output)
    if unfinished and command.launcher == "local":
        print(f"{len(unfinished)} cells are not done; the same command goes on with them.")
    if has_failures:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
