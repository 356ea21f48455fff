"""Launchers: what takes a list of commands and has them run.

`Launcher` is all that a sweep asks for, so that another cluster's fits in beside those here.
"""

import shlex
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from experiments.launch import ModuleJob, Slurm, make_executor, submit_jobs

POLL_S = 0.5


class Launcher(Protocol):
    """Has commands run, in any order, each at least once."""

    def __call__(self, commands: Sequence[Sequence[str]], watch: Callable[[], None]) -> list[int]:
        """Starts all commands.

        Args:
            commands: words of each.
            watch: to be called now and then while they run.

        Returns:
            Exit statuses, as far as known when it returns; empty if they only were handed over.
        """
        ...


class LocalProcesses:
    """Runs commands in processes of this machine.

    Args:
        workers: how many at a time.
    """

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers

    def __call__(self, commands: Sequence[Sequence[str]], watch: Callable[[], None]) -> list[int]:
        """Runs all; stopped (Ctrl-C), it stops what runs and waits for it."""
        waiting = deque(enumerate(commands))
        running: dict[int, subprocess.Popen] = {}
        codes = [0] * len(commands)
        try:
            while waiting or running:
                while waiting and len(running) < self._workers:
                    index, words = waiting.popleft()
                    # Of a session of its own: Ctrl-C comes here only, and children are told below.
                    running[index] = subprocess.Popen(
                        list(words), stdin=subprocess.DEVNULL, start_new_session=True
                    )
                time.sleep(POLL_S)
                for index in [i for i, process in running.items() if process.poll() is not None]:
                    codes[index] = running.pop(index).returncode
                watch()
        finally:
            for process in running.values():
                process.terminate()  # training saves, then ends
            for process in running.values():
                process.wait()
        return codes


class SlurmArray:
    """Submits commands as an array of Slurm, by `experiments.launch`.

    A command with several tasks is run by all of them together, started by
    `retrieval_jax.distributed`.

    Args:
        slurm: what to ask for, for each command.
        workers: how many commands at a time, at most.
    """

    def __init__(self, slurm: Slurm, workers: int = 16) -> None:
        self._slurm = slurm
        self._workers = workers

    def __call__(self, commands: Sequence[Sequence[str]], watch: Callable[[], None]) -> list[int]:
        """Submits all, and does not wait.

        Raises:
            InputError: as `experiments.launch.make_executor` and `submit_jobs`.
        """
        if commands:
            executor = make_executor(self._slurm)
            executor.update_parameters(array_parallelism=self._workers)
            # The words of a command: python -m MODULE ARGUMENTS
            jobs = [ModuleJob(words[2], words[3:]) for words in commands]
            for job in submit_jobs(executor, jobs):
                print(f"job {job.job_id}: {job.paths.stderr}")
        watch()
        return []


class CommandFile:
    r"""Writes commands to a file, one a line, for whatever runs them.

    For example `xargs -d '\n' -P 4 -I{} sh -c '{}' < commands.txt`, or the array of another
    scheduler, each task of which takes its line.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, commands: Sequence[Sequence[str]], watch: Callable[[], None]) -> list[int]:
        """Writes the file."""
        self._path.write_text("".join(f"{shlex.join(words)}\n" for words in commands))
        print(f"{len(commands)} commands: {self._path}")
        watch()
        return []
