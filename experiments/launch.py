"""Submits a module to a cluster, with sweeps as arrays, requeued when it is preempted.

COMMAND   python -m experiments.launch slurm --nodes 2 --gpus-per-node 8 --hours 24 --
          experiments.docent.pretrain --preset paper --run runs/docent
          python -m experiments.launch slurm --sweep training.seed=0,1,2 --
          experiments.docent.pretrain --run runs/seeds/{point}
TIME      a second; --dry-run prints the batch script instead
HARDWARE  a machine from which sbatch works; extra `launch`

The module is started by `python -m retrieval_jax.distributed` once for each GPU, or once on each
node without. Before its time is over, or when it is preempted, it is told to stop, saves, and is
put into the queue again, where the same command goes on. Logs are in the folder of `--logs`.
"""

import argparse
import contextlib
import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro

from retrieval_jax.config import split_at_dashes
from retrieval_jax.errors import InputError, one_screen_errors

STOPPED = tuple(
    code for number in (signal.SIGUSR2, signal.SIGTERM) for code in (128 + number, -number)
)
POINT = "{point}"


@dataclasses.dataclass(frozen=True)
class Slurm:
    """What to ask Slurm for.

    Attributes:
        nodes: machines of a job.
        gpus_per_node: GPUs of each.
        tasks_per_node: processes of each; 0 = one for each GPU, or one where there is none.
        cpus_per_task: cores of each process.
        mem_gb: memory of each node; None = the partition's default.
        hours: limit of a run, after which it is put into the queue again.
        partition: None = the cluster's default.
        account: None = your default.
        save_seconds: how long before the end it is told to stop.
        requeues: how often it may run out of time.
        parallel: points of a sweep that run at a time, at most.
        setup: shell commands before it starts, for example `module load cuda`.
        sweep: FIELD=V1,V2,...: a job for each combination of values, as `--FIELD VALUE`.
        name: of the job.
        logs: folder, shared by the nodes, of logs and of what submitit keeps.
        dry_run: print the batch script, submit nothing.
        extra: further options of sbatch, NAME=VALUE, for example `constraint=h100`.
    """

    nodes: int = 1
    gpus_per_node: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 4
    mem_gb: float | None = None
    hours: float = 24.0
    partition: str | None = None
    account: str | None = None
    save_seconds: int = 120
    requeues: int = 100
    parallel: int = 16
    setup: tuple[str, ...] = ()
    sweep: tuple[str, ...] = ()
    name: str = "retrieval"
    logs: Path = Path("runs/logs")
    dry_run: bool = False
    extra: tuple[str, ...] = ()


class ModuleJob:
    """A module as a job: run by one process of `retrieval_jax.distributed`.

    Args:
        module: its name.
        args: its arguments.
    """

    def __init__(self, module: str, args: Sequence[str]) -> None:
        self.module, self.args = module, tuple(args)
        self._pid: int | None = None

    def __call__(self) -> str:
        """Runs it, and says how it ended.

        Raises:
            RuntimeError: it failed.
        """
        command = [sys.executable, "-m", "retrieval_jax.distributed", self.module, *self.args]
        process = subprocess.Popen(command)
        self._pid = process.pid
        # Not `wait`, which would hold a lock when `checkpoint` interrupts it.
        while process.poll() is None:
            time.sleep(0.1)
        if process.returncode in STOPPED:
            return "stopped"
        if process.returncode:
            raise RuntimeError(f"{self.module} ended with {process.returncode}; see its log")
        return "finished"

    def checkpoint(self) -> Any:
        """Tells it to stop, waits until it has saved, and gives the job that goes on.

        Called by submitit, on a signal, in the first of a job's processes.
        """
        from submitit.helpers import DelayedSubmission

        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGUSR2)
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        return DelayedSubmission(ModuleJob(self.module, self.args))


def sweep_points(sweep: Sequence[str], args: Sequence[str]) -> list[list[str]]:
    """Arguments of each combination of a sweep's values, `POINT` replaced by its name.

    Raises:
        InputError: a sweep without values, or arguments that name no folder for each point.
    """
    if not sweep:
        return [list(args)]
    fields = [field.partition("=") for field in sweep]
    for field, (name, _, values) in zip(sweep, fields, strict=True):
        if not name or not values:
            raise InputError(f"the sweep {field!r} has no values", "Give FIELD=VALUE,VALUE,...")
    if not any(POINT in arg for arg in args):
        raise InputError(
            "every point of the sweep would write to the same folder",
            f"Put {POINT} into the module's arguments: --run runs/{POINT}",
        )
    points = []
    for values in itertools.product(*(values.split(",") for _, _, values in fields)):
        pairs = [(name, value) for (name, _, _), value in zip(fields, values, strict=True)]
        point = "_".join(f"{name.rpartition('.')[2]}{value}" for name, value in pairs)
        options = [word for name, value in pairs for word in (f"--{name}", value)]
        points.append([*(arg.replace(POINT, point) for arg in args), *options])
    return points


def make_executor(command: Slurm) -> Any:
    """A submitit executor with what was asked for.

    Raises:
        InputError: submitit is absent, there is no sbatch here (but for a dry run), or an `extra`
            that is no NAME=VALUE.
    """
    try:
        from submitit import SlurmExecutor
    except ModuleNotFoundError as error:
        raise InputError("submitit is not installed", "pip install -e '.[launch]'") from error

    class Executor(SlurmExecutor):
        """Prints its script; for that, no Slurm is needed."""

        @classmethod
        def affinity(cls) -> int:
            return 2 if command.dry_run else super().affinity()

        def script(self) -> str:
            return self._make_submission_file_text(self._submitit_command_str, "dry-run")

    extra = {name: value for name, _, value in (item.partition("=") for item in command.extra)}
    if not all(extra.values()):
        raise InputError(f"extra {command.extra} is not NAME=VALUE", "Write constraint=h100.")
    try:
        executor = Executor(command.logs.absolute(), max_num_timeout=command.requeues)
    except RuntimeError as error:
        raise InputError(
            "this machine submits no Slurm jobs: there is no srun",
            "Call it on a login node, or with --dry-run.",
        ) from error
    if command.gpus_per_node and command.tasks_per_node not in (0, command.gpus_per_node):
        raise InputError(
            f"{command.tasks_per_node} tasks for {command.gpus_per_node} GPUs of a node",
            "Leave --tasks-per-node out: under Slurm each process takes one GPU.",
        )
    asked = {
        "job_name": command.name,
        "nodes": command.nodes,
        "ntasks_per_node": command.tasks_per_node or command.gpus_per_node or 1,
        "gpus_per_node": command.gpus_per_node or None,
        "cpus_per_task": command.cpus_per_task,
        "mem": None if command.mem_gb is None else f"{round(command.mem_gb * 1024)}MB",
        "time": max(round(command.hours * 60), 1),
        "partition": command.partition,
        "account": command.account,
        "signal_delay_s": command.save_seconds,
        "setup": list(command.setup) or None,
        "array_parallelism": command.parallel,
        # One process that dies takes the others with it; a node that fails puts it in the queue.
        "srun_args": ["--kill-on-bad-exit=1"],
        "additional_parameters": {"requeue": True, **extra},
    }
    executor.update_parameters(**{k: v for k, v in asked.items() if v is not None})
    return executor


def submit(command: Slurm, module: str, args: Sequence[str]) -> list[Any]:
    """Submits a module, as an array if it is swept; a dry run prints the script.

    Returns:
        submitit's jobs, none of a dry run.

    Raises:
        InputError: as `sweep_points` and `make_executor`; Slurm refuses the job.
    """
    points = sweep_points(command.sweep, args)
    executor = make_executor(command)
    if command.dry_run:
        if len(points) > 1:
            executor.parameters["map_count"] = len(points)
        print(executor.script())
        for number, point in enumerate(points):
            print(f"# job {number}: python -m retrieval_jax.distributed {module} {' '.join(point)}")
        return []
    jobs = [ModuleJob(module, point) for point in points]
    try:
        with executor.batch():
            submitted = [executor.submit(job) for job in jobs]
    except Exception as error:
        if not type(error).__module__.startswith("submitit"):
            raise
        raise InputError(f"Slurm refused the job: {error}", "See --help, and sinfo.") from error
    for job, point in zip(submitted, points, strict=True):
        print(f"job {job.job_id}: {module} {' '.join(point)}\n  log: {job.paths.stderr}")
    return submitted


def split_arguments(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Options before `--`, the module after it, and the module's arguments.

    Raises:
        InputError: there is no module.
    """
    options, module = split_at_dashes(words)
    if not module and not {"-h", "--help"} & set(options):
        raise InputError("no module is named", "Write: slurm OPTIONS -- MODULE ARGUMENTS")
    return options, module[0] if module else "", module[1:]


@one_screen_errors
def main() -> None:
    """Submits as the command line says."""
    parser = argparse.ArgumentParser("python -m experiments.launch", add_help=False)
    parser.add_argument("cluster", choices=("slurm",))
    options, module, args = split_arguments(sys.argv[1:])
    cluster = parser.parse_args(options[:1]).cluster
    command = tyro.cli(
        Slurm,
        prog=f"python -m experiments.launch {cluster}",
        description=__doc__,
        args=options[1:],
    )
    submit(command, module, args)


if __name__ == "__main__":
    main()
