"""A job of two processes and a sweep on a Slurm of one node, started here in a temporary folder.

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

from experiments.sweep.cells import LOG, state
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


def preempt(env, job):
    """Tells a job to stop, as Slurm does before the end of its time."""
    ask(env, "scancel", "--signal=USR2", job)


def submit(env, *args):
    """Submits by a command line; gives the first job's id."""
    env = {k: v for k, v in env.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-m", *map(str, args)]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()[1].rstrip(":")


def test_a_preempted_job_of_two_processes_saves_is_requeued_and_ends_as_one_process(
    slurm, tmp_path: Path
):
    whole = train(SlowTask(), CONFIG, create_run(tmp_path / "a", "toy", CONFIG, "x"), None, False)
    run, logs = tmp_path / "run", tmp_path / "logs"
    asked = ("--tasks-per-node", 2, "--cpus-per-task", 1, "--hours", 0.2, "--logs", logs)
    module = ("tests.end_to_end.process_worker", run, 0.2)
    job = submit(slurm, "experiments.launch", "slurm", *asked, "--", *module)
    wait_until((run / "checkpoints" / "10").is_dir)
    preempt(slurm, job)
    wait_until((run / "params.npz").is_file)
    wait_until(lambda: not ask(slurm, "squeue", "-h"))
    check_close(run, whole, tmp_path / "a")
    assert "stopped by SIGUSR2 after step" in (logs / f"{job}_0_log.err").read_text()


CELL = """
import sys
from tests.end_to_end.process_worker import main
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
sys.argv[1:] = [options["--run"], options["--seconds"]]
main()
"""


def test_cells_of_two_processes_are_an_array_and_a_preempted_one_goes_on(slurm, tmp_path: Path):
    (tmp_path / "toy_cell.py").write_text(CELL)
    python_path = os.pathsep.join(filter(None, [str(tmp_path), slurm.get("PYTHONPATH")]))
    output, logs = tmp_path / "out", tmp_path / "logs"
    grid = ("--module", "toy_cell", "--fields", "seconds=0.2,0.1", "--output", output)
    asked = ("--slurm.tasks-per-node", 2, "--slurm.cpus-per-task", 1, "--slurm.logs", logs)
    job = submit(
        slurm | {"PYTHONPATH": python_path},
        *("experiments.sweep", "--launcher", "slurm", "--workers", 1, *grid, *asked),
    )
    array = job.partition("_")[0]
    assert job == f"{array}_0"
    first, second = (next((output / "cells").glob(f"{s}-*")) for s in ("0.2", "0.1"))
    wait_until((first / "run" / "checkpoints" / "10").is_dir)
    assert not (second / "run").exists()  # one at a time
    preempt(slurm, job)
    wait_until(lambda: not ask(slurm, "squeue", "-h"), 300)
    for folder in (first, second):
        assert state(folder) == "done", (folder / LOG).read_text()
        assert (folder / "run" / "params.npz").is_file()
        lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
        assert len(lines) == len(set(lines))  # of process 0 alone
    assert (first / LOG).read_text().count("stopped by SIGUSR2 after step") == 1
    assert (first / LOG).read_text().count("$ python -m toy_cell") == 2
