"""The batch script, sweeps, and what is refused; tests/end_to_end/test_slurm.py runs real jobs."""

import shutil
import signal
import subprocess
import threading
import time

import pytest

from experiments.launch import (
    ModuleJob,
    Slurm,
    make_executor,
    split_arguments,
    submit,
    sweep_points,
)
from retrieval_jax.errors import InputError


def test_the_script_asks_for_what_the_command_says(tmp_path, capsys):
    pytest.importorskip("submitit")
    command = Slurm(
        nodes=2,
        gpus_per_node=8,
        hours=1.5,
        partition="h100",
        mem_gb=0.5,
        setup=("module load cuda",),
        sweep=("training.seed=0,1", "model.kind=dual,full"),
        extra=("constraint=ib",),
        logs=tmp_path,
        dry_run=True,
    )
    assert submit(command, "experiments.docent.pretrain", ["--run", "runs/{point}"]) == []
    script = capsys.readouterr().out
    for option in (
        *("nodes=2", "gpus-per-node=8", "ntasks-per-node=8", "time=90", "partition=h100"),
        *("mem=512MB", "array=0-3%4", "signal=USR2@120", "constraint=ib", "requeue"),
    ):
        assert f"#SBATCH --{option}\n" in script
    assert "module load cuda\n" in script
    assert "srun --unbuffered" in script
    assert "--kill-on-bad-exit=1" in script
    assert (
        "experiments.docent.pretrain --run runs/seed1_kinddual --training.seed 1"
        " --model.kind dual" in script
    )


def test_a_sweep_is_every_combination_with_a_folder_of_its_own():
    assert sweep_points((), ["--run", "a"]) == [["--run", "a"]]
    assert sweep_points(("a.b=1,2", "c=x"), ["--run", "r/{point}"]) == [
        ["--run", "r/b1_cx", "--a.b", "1", "--c", "x"],
        ["--run", "r/b2_cx", "--a.b", "2", "--c", "x"],
    ]
    with pytest.raises(InputError, match="same folder"):
        sweep_points(("a=1,2",), ["--run", "r"])
    with pytest.raises(InputError, match="no values"):
        sweep_points(("a",), ["{point}"])


def test_arguments_are_split_at_the_dashes():
    words = ["slurm", "--nodes", "2", "--", "a.b", "--x", "--", "1"]
    assert split_arguments(words) == (["slurm", "--nodes", "2"], "a.b", ["--x", "--", "1"])
    assert split_arguments(["slurm", "--help"]) == (["slurm", "--help"], "", [])
    with pytest.raises(InputError, match="no module"):
        split_arguments(["slurm", "--nodes", "2", "--"])


def test_without_slurm_or_with_a_wrong_extra_it_says_what_to_do(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    with pytest.raises(InputError, match="NAME=VALUE"):
        make_executor(Slurm(extra=("constraint",), logs=tmp_path, dry_run=True))
    monkeypatch.setattr(shutil, "which", lambda *_: None)
    with pytest.raises(InputError, match="no srun"):
        make_executor(Slurm(logs=tmp_path))


def test_a_job_that_is_told_to_stop_waits_for_the_module_and_goes_on(monkeypatch):
    pytest.importorskip("submitit")
    # In place of `retrieval_jax.distributed`: takes its time to save after the signal.
    script = (
        "import signal, sys, time\n"
        "def stop(*_): time.sleep(0.5); sys.exit(128 + signal.SIGUSR2)\n"
        "signal.signal(signal.SIGUSR2, stop)\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    popen = subprocess.Popen
    started = []

    def start(command):
        assert command[1:] == ["-m", "retrieval_jax.distributed", "module", "--x"]
        started.append(popen([command[0], "-c", script], stdout=subprocess.PIPE))
        return started[0]

    monkeypatch.setattr("subprocess.Popen", start)
    job, ended = ModuleJob("module", ["--x"]), []
    thread = threading.Thread(target=lambda: ended.append(job()))
    thread.start()
    while not started:
        time.sleep(0.01)
    assert started[0].stdout.readline() == b"ready\n"
    told = time.monotonic()
    again = job.checkpoint()
    assert time.monotonic() - told > 0.4
    thread.join(10)
    started[0].stdout.close()
    assert ended == ["stopped"]
    assert (again.function.module, again.function.args) == ("module", ("--x",))
    assert started[0].returncode == 128 + signal.SIGUSR2
