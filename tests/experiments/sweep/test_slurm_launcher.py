"""Cells as an array of Slurm; tests/end_to_end/test_slurm.py runs real ones."""

import pickle
import shutil
import sys

import pytest

from experiments.launch import Slurm
from experiments.sweep import __main__ as command_line
from experiments.sweep.cells import Sweep
from experiments.sweep.launchers import SlurmArray
from retrieval_jax.errors import InputError
from tests.experiments import fake_slurm

pytest.importorskip("submitit")


@pytest.fixture
def commands(tmp_path):
    """Those of two cells."""
    return [cell.worker_command(tmp_path) for cell in Sweep("m", {}, (0, 1)).cells()]


def test_each_cell_is_a_job_of_an_array(tmp_path, monkeypatch, commands, capsys):
    script = fake_slurm.put_in_place(monkeypatch, tmp_path)
    watched = []
    launcher = SlurmArray(Slurm(partition="p", logs=tmp_path / "logs"), workers=1)
    assert launcher(commands, lambda: watched.append(True)) == []
    assert watched == [True]
    for option in ("array=0-1%1", "partition=p", "ntasks-per-node=1", "requeue"):
        assert f"#SBATCH --{option}\n" in script.read_text()
    printed = capsys.readouterr().out
    for number, words in enumerate(commands):
        job = f"{fake_slurm.JOB}_{number}"
        assert f"job {job}: {tmp_path}/logs/{job}_0_log.err\n" in printed
        submitted = (tmp_path / "logs" / f"{job}_submitted.pkl").read_bytes()
        module = pickle.loads(submitted).function
        assert (module.module, list(module.args)) == (words[2], words[3:])


def test_a_cell_may_have_several_nodes_and_tasks(tmp_path, monkeypatch, commands):
    script = fake_slurm.put_in_place(monkeypatch, tmp_path)
    SlurmArray(Slurm(nodes=2, gpus_per_node=4, logs=tmp_path))(commands, lambda: None)
    for option in ("array=0-1%2", "nodes=2", "gpus-per-node=4", "ntasks-per-node=4"):
        assert f"#SBATCH --{option}\n" in script.read_text()


def test_what_slurm_refuses_is_an_error_of_the_input(tmp_path, monkeypatch, commands):
    fake_slurm.put_in_place(monkeypatch, tmp_path, refusal="invalid partition specified: p")
    with pytest.raises(InputError, match=r"Slurm refused the job.*invalid partition"):
        SlurmArray(Slurm(logs=tmp_path))(commands, lambda: None)


def test_where_nothing_is_left_to_submit_no_slurm_is_needed(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_: None)
    watched = []
    assert SlurmArray(Slurm())([], lambda: watched.append(True)) == []
    assert watched == [True]


@pytest.mark.parametrize("option", (["--slurm.dry-run"], ["--slurm.sweep", "a=1,2"]))
def test_options_of_launch_are_none_of_a_sweep(option, tmp_path, monkeypatch, capsys):
    script = fake_slurm.put_in_place(monkeypatch, tmp_path)
    grid = ["--module", "this", "--fields", "a=1,2", "--output", str(tmp_path / "out")]
    slurm = ["--launcher", "slurm", "--slurm.logs", str(tmp_path), *option]
    monkeypatch.setattr(sys, "argv", ["sweep", *grid, *slurm])
    with pytest.raises(SystemExit) as end:
        command_line.main()
    assert end.value.code == 2
    assert option[0] in capsys.readouterr().err
    assert not script.exists() and not (tmp_path / "out").exists()
