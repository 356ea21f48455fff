"""Commands in place of Slurm's, which keep the script of a job, or refuse it."""

import os
import shutil
from pathlib import Path

JOB = "7"


def put_in_place(monkeypatch, folder: Path, refusal: str = "") -> Path:
    """Makes `sbatch` and `srun` of `folder` those that are found; gives where the script will be.

    With `refusal`, sbatch says it and fails.
    """
    commands, script = folder / "commands", folder / "submitted.sh"
    commands.mkdir()
    accept = f'{shutil.which("cp")} "$1" {script}; echo Submitted batch job {JOB}'
    refuse = f"echo 'sbatch: error: {refusal}' >&2; exit 1"
    for name in ("sbatch", "srun"):
        (commands / name).write_text(f"#!/bin/sh\n{refuse if refusal else accept}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    return script
