"""Submits a module to a cluster, requeued when it is preempted.

COMMAND   python -m experiments.launch slurm --nodes 2 --gpus-per-node 8 --hours 24 --
          experiments.docent.pretrain --preset paper --run runs/docent
TIME      a second; --dry-run prints the batch script instead
HARDWARE  a machine from which sbatch works; extra `launch`

The module is started by `python -m retrieval_jax.distributed` once for each GPU, or once on each
node without. Before its time is over, or when it is preempted, it is told to stop, saves, and is
put into the queue again, where the same command goes on. Logs are in the folder of `--logs`.
Several runs are submitted by `python -m experiments.sweep --launcher slurm`.
"""

import argparse
import contextlib
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from retrieval_jax.config import split_at_dashes
from retrieval_jax.errors import InputError, one_screen_errors

STOPPED = tuple(
    code for number in (signal.SIGUSR2, signal.SIGTERM) for code in (128 + number, -number)
)

EXAMPLES = """examples:
  python -m experiments.launch slurm --help
  python -m experiments.launch slurm --dry-run -- \\
    experiments.docent.pretrain --preset small --run runs/docent
  python -m experiments.launch slurm --gpus-per-node 1 --hours 4 -- \\
    experiments.docent.pretrain --preset small --run runs/docent
"""


@dataclasses.dataclass(frozen=True)
class Slurm:
    """What to ask Slurm for, for each job.

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
        setup: shell commands before it starts, for example `module load cuda`.
        name: of the job.
        logs: folder, shared by the nodes, of logs and of what submitit keeps.
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
    setup: tuple[str, ...] = ()
    name: str = "retrieval"
    logs: Path = Path("runs/logs")
    extra: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Command:
    """What to ask for, and whether to do so.

    Attributes:
        slurm: what to ask Slurm for.
        dry_run: print the batch script, submit nothing.
    """

    slurm: Annotated[Slurm, tyro.conf.arg(name="")] = Slurm()
    dry_run: bool = False


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


def make_executor(slurm: Slurm, needs_slurm: bool = True) -> Any:
    """A submitit executor with what was asked for.

    Args:
        slurm: what to ask for.
        needs_slurm: False where only its script is wanted: it is made without Slurm, too.

    Raises:
        InputError: submitit is absent, there is no Slurm here though it is needed, or an `extra`
            that is no NAME=VALUE.
    """
    try:
        from submitit import SlurmExecutor
    except ModuleNotFoundError as error:
        raise InputError("submitit is not installed", "pip install -e '.[launch]'") from error

    class Executor(SlurmExecutor):
        """Is also made where there is no Slurm."""

        @classmethod
        def affinity(cls) -> int:
            return super().affinity() if needs_slurm else 2

    extra = {name: value for name, _, value in (item.partition("=") for item in slurm.extra)}
    if not all(extra.values()):
        raise InputError(f"extra {slurm.extra} is not NAME=VALUE", "Write constraint=h100.")
    try:
        executor = Executor(slurm.logs.absolute(), max_num_timeout=slurm.requeues)
    except RuntimeError as error:
        raise InputError(
            "this machine submits no Slurm jobs: there is no srun",
            "Call it on a login node; --dry-run needs no Slurm.",
        ) from error
    if slurm.gpus_per_node and slurm.tasks_per_node not in (0, slurm.gpus_per_node):
        raise InputError(
            f"{slurm.tasks_per_node} tasks for {slurm.gpus_per_node} GPUs of a node",
            "Leave tasks-per-node out: under Slurm each process takes one GPU.",
        )
    asked = {
        "job_name": slurm.name,
        "nodes": slurm.nodes,
        "ntasks_per_node": slurm.tasks_per_node or slurm.gpus_per_node or 1,
        "gpus_per_node": slurm.gpus_per_node or None,
        "cpus_per_task": slurm.cpus_per_task,
        "mem": None if slurm.mem_gb is None else f"{round(slurm.mem_gb * 1024)}MB",
        "time": max(round(slurm.hours * 60), 1),
        "partition": slurm.partition,
        "account": slurm.account,
        "signal_delay_s": slurm.save_seconds,
        "setup": list(slurm.setup) or None,
        # One process that dies takes the others with it; a node that fails puts it in the queue.
        "srun_args": ["--kill-on-bad-exit=1"],
        "additional_parameters": {"requeue": True, **extra},
    }
    executor.update_parameters(**{k: v for k, v in asked.items() if v is not None})
    return executor


def batch_script(executor: Any) -> str:
    """The script that an executor of `make_executor` would give to sbatch."""
    return executor._make_submission_file_text(executor._submitit_command_str, "dry-run")


def submit_jobs(executor: Any, jobs: Sequence[ModuleJob]) -> list[Any]:
    """Submits jobs, several as an array.

    Args:
        executor: of `make_executor`.
        jobs: one or more.

    Returns:
        submitit's jobs.

    Raises:
        InputError: Slurm refuses them.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        with executor.batch():
            return [executor.submit(job) for job in jobs]
    except (FailedJobError, FailedSubmissionError) as error:
        raise InputError(f"Slurm refused the job: {error}", "See --help, and sinfo.") from error


def launch(command: Command, module: str, args: Sequence[str]) -> None:
    """Submits a module, and prints the job and its log; a dry run prints the script.

    Raises:
        InputError: as `make_executor` and `submit_jobs`.
    """
    executor = make_executor(command.slurm, needs_slurm=not command.dry_run)
    words = shlex.join([module, *args])
    if command.dry_run:
        print(batch_script(executor))
        print(f"# each task: python -m retrieval_jax.distributed {words}")
        return
    (job,) = submit_jobs(executor, [ModuleJob(module, args)])
    print(f"job {job.job_id}: {words}\n  log: {job.paths.stderr}")


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
    parser = argparse.ArgumentParser(
        "python -m experiments.launch",
        "%(prog)s slurm OPTIONS -- MODULE ARGUMENTS",
        __doc__,
        EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cluster", choices=("slurm",), help="its options: slurm --help")
    options, module, args = split_arguments(sys.argv[1:])
    cluster = parser.parse_args(options[:1]).cluster
    command = tyro.cli(
        Command,
        prog=f"python -m experiments.launch {cluster}",
        description=__doc__,
        args=options[1:],
    )
    launch(command, module, args)


if __name__ == "__main__":
    main()
