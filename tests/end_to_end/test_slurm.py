"""A job of two processes and an array on a Slurm of one node, started here in a temporary folder.

Needs root and Debian's slurm-wlm and munge; skipped without.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retrieval_jax.runs import create_run
from retrieval_jax.training import train
from tests.end_to_end.process_worker import CONFIG, SlowTask
from tests.end_to_end.test_processes import check_close, free_port

DAEMONS = ("munged", "slurmctld", "slurmd")
ABSENT = [name for name in (*DAEMONS, "sbatch") if shutil.which(name) is None]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(ABSENT), reason=f"{', '.join(ABSENT)} not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd needs root"),
]

SLURM_CONF = """
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
SlurmctldPort={controller}
SlurmdPort={daemon}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=1
ReturnToService=2
KillWait=20
NodeName=localhost CPUs=8 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES State=UP
"""


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A Slurm of one node; gives the environment in which its commands find it."""
    pytest.importorskip("submitit")
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    conf = folder / "slurm.conf"
    conf.write_text(
        SLURM_CONF.format(folder=folder, controller=free_port(), daemon=free_port()),
        encoding="utf-8",
    )
    env = os.environ | {"SLURM_CONF": str(conf)}
    munge = ["munged", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock"]
    munge += [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
    try:
        for command in (munge, ["slurmctld", "-f", str(conf)], ["slurmd", "-f", str(conf)]):
            subprocess.run(command, env=env, check=True, capture_output=True)
        wait_until(lambda: "idle" in ask(env, "sinfo", "-h", "-o", "%T"), 30)
        yield env
    finally:
        ask(env, "scancel", "--user", "root", "--signal", "KILL")
        for name in reversed(DAEMONS):
            pid = folder / f"{name}.pid"
            if pid.is_file():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid.read_text()), signal.SIGTERM)


def ask(env, *command):
    """What a command of Slurm prints."""
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout


def launch(env, *args):
    """Submits by the command line; gives the first job's id."""
    env = {k: v for k, v in env.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-m", "experiments.launch", "slurm", *map(str, args)]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()[1].rstrip(":")


def test_a_preempted_job_of_two_processes_saves_is_requeued_and_ends_as_one_process(
    slurm, tmp_path: Path
):
    whole = train(SlowTask(), CONFIG, create_run(tmp_path / "a", "toy", CONFIG, "x"), None, False)
    run, logs = tmp_path / "run", tmp_path / "logs"
    asked = ("--tasks-per-node", 2, "--cpus-per-task", 1, "--hours", 0.2, "--logs", logs)
    job = launch(slurm, *asked, "--", "tests.end_to_end.process_worker", run, 0.2)
    points = ("--cpus-per-task", 1, "--logs", logs, "--sweep", "x=1,2", "--", "this", "{point}")
    array = launch(slurm, *points).partition("_")[0]

    wait_until((run / "checkpoints" / "10").is_dir)
    ask(slurm, "scancel", "--signal=USR2", job)  # as before the end of its time
    wait_until((run / "params.npz").is_file)
    wait_until(lambda: not ask(slurm, "squeue", "-h"))
    check_close(run, whole, tmp_path / "a")
    said = (logs / f"{job}_0_log.err").read_text()
    assert "stopped by SIGUSR2 after step" in said
    for point in range(2):
        assert "Beautiful is better" in (logs / f"{array}_{point}_0_log.out").read_text()
