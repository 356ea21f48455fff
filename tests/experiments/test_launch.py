"""The batch script, and what is refused; tests/end_to_end/test_slurm.py runs real jobs."""

import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from experiments.launch import (
    Command,
    ModuleJob,
    Slurm,
    launch,
    main,
    make_executor,
    split_arguments,
)
from retrieval_jax.errors import InputError
from tests.experiments import fake_slurm


def test_a_dry_run_prints_the_script_with_what_the_command_asks_for(tmp_path, capsys, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setattr(shutil, "which", lambda *_: None)  # needs no Slurm
    slurm = Slurm(
        nodes=2,
        gpus_per_node=8,
        hours=1.5,
        partition="h100",
        mem_gb=0.5,
        setup=("module load cuda",),
        extra=("constraint=ib",),
        logs=tmp_path,
    )
    launch(Command(slurm, dry_run=True), "experiments.docent.pretrain", ["--run", "runs/a b"])
    script = capsys.readouterr().out
    for option in (
        *("nodes=2", "gpus-per-node=8", "ntasks-per-node=8", "time=90", "partition=h100"),
        *("mem=512MB", "signal=USR2@120", "constraint=ib", "requeue"),
    ):
        assert f"#SBATCH --{option}\n" in script
    assert "module load cuda\n" in script
    assert "srun --unbuffered" in script
    assert "--kill-on-bad-exit=1" in script
    assert "retrieval_jax.distributed experiments.docent.pretrain --run 'runs/a b'\n" in script
    assert not list(tmp_path.iterdir())


def test_a_job_is_submitted_and_its_log_named(tmp_path, monkeypatch, capsys):
    pytest.importorskip("submitit")
    script = fake_slurm.put_in_place(monkeypatch, tmp_path)
    command = Command(Slurm(tasks_per_node=2, logs=tmp_path / "logs"))
    launch(command, "experiments.docent.pretrain", ["--run", "r"])
    log = tmp_path / "logs" / f"{fake_slurm.JOB}_0_log.err"
    printed = capsys.readouterr().out
    assert printed == f"job {fake_slurm.JOB}: experiments.docent.pretrain --run r\n  log: {log}\n"
    assert "#SBATCH --ntasks-per-node=2\n" in script.read_text()


def test_a_job_that_slurm_refuses_is_an_error_of_the_input(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    fake_slurm.put_in_place(monkeypatch, tmp_path, refusal="invalid account")
    with pytest.raises(InputError, match=r"Slurm refused the job.*invalid account"):
        launch(Command(Slurm(logs=tmp_path)), "this", [])


def test_options_of_slurm_stand_beside_the_dry_run_on_the_command_line(
    tmp_path, monkeypatch, capsys
):
    pytest.importorskip("submitit")
    words = ["launch", "slurm", "--dry-run", "--nodes", "3", "--logs", str(tmp_path), "--", "this"]
    monkeypatch.setattr(sys, "argv", words)
    main()
    assert "#SBATCH --nodes=3\n" in capsys.readouterr().out


def test_arguments_are_split_at_the_dashes():
    words = ["slurm", "--nodes", "2", "--", "a.b", "--x", "--", "1"]
    assert split_arguments(words) == (["slurm", "--nodes", "2"], "a.b", ["--x", "--", "1"])
    assert split_arguments(["slurm", "--help"]) == (["slurm", "--help"], "", [])
    with pytest.raises(InputError, match="no module"):
        split_arguments(["slurm", "--nodes", "2", "--"])


def test_without_slurm_or_with_a_wrong_extra_it_says_what_to_do(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    with pytest.raises(InputError, match="NAME=VALUE"):
        make_executor(Slurm(extra=("constraint",), logs=tmp_path), needs_slurm=False)
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


def test_help_without_a_cluster_has_examples(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["launch", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "usage: python -m experiments.launch slurm OPTIONS -- MODULE ARGUMENTS" in out
    assert "slurm --dry-run -- " in out
