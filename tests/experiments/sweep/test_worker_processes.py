"""Workers of one cell that `retrieval_jax.distributed` has joined: one run, one claim, one note."""

import json
import os
import subprocess
import sys

import pytest

from experiments.sweep import claims
from experiments.sweep.cells import DONE, FAILED, LOG, Sweep, state
from experiments.sweep.worker import BUSY
from tests.end_to_end.test_processes import HEARTBEAT, end, free_port

TOY = """
import json, pathlib, sys
import jax
from jax.experimental.multihost_utils import process_allgather
words = sys.argv[1:]
run = pathlib.Path(words[words.index("--run") + 1])
fails = words[words.index("--fails") + 1]
process = jax.process_index()
run.mkdir(exist_ok=True)
with (run / f"calls{process}").open("a") as file:
    file.write("x")
print("process", process)
if fails == "second" and process == 1:
    raise ValueError("only here")
if fails == "both":
    raise SystemExit(2)
total = int(process_allgather(process + 1).sum())  # waits for the other one
if process == 0:
    (run / "results.json").write_text(json.dumps({"total": total}))
"""


@pytest.fixture
def work_on(tmp_path, monkeypatch):
    """Makes a cell, and gives it with what runs two joined workers on it."""
    (tmp_path / "toy_experiment.py").write_text(TOY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("XLA_FLAGS", raising=False)

    def make(fails):
        axes = {"fails": {fails: ("--fails", fails)}}
        (cell,) = Sweep("toy_experiment", axes, measures=("total",)).cells()
        cell.prepare(tmp_path)
        return cell.folder(tmp_path), lambda: run_two(cell.worker_command(tmp_path)[2:])

    def run_two(worker):
        join = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2"]
        join += ["--heartbeat", str(HEARTBEAT), "--start", "120"]
        start = [sys.executable, "-m", "retrieval_jax.distributed", *join, "--process"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return end([subprocess.Popen([*start, n, *worker], text=True, **pipes) for n in "01"])

    return make


def test_two_processes_run_a_cell_as_one_and_once(work_on):
    folder, run = work_on("none")
    with claims.take(folder):
        codes, said = run()
        assert codes == [BUSY, BUSY], said
    assert state(folder) == "waiting"
    for _ in range(2):
        codes, said = run()
        assert codes == [0, 0], said
    done = json.loads((folder / DONE).read_text())
    assert done["numbers"] == {"total": 3} and done["attempts"] == 1
    assert [(folder / "run" / f"calls{process}").read_text() for process in range(2)] == ["x", "x"]
    assert (folder / LOG).read_text().endswith("\nprocess 0\n")
    assert "process 1" not in (folder / LOG).read_text()


def test_a_failure_of_both_processes_is_noted_once(work_on):
    folder, run = work_on("both")
    codes, said = run()
    assert codes == [2, 2], said
    failed = json.loads((folder / FAILED).read_text())
    assert (failed["code"], failed["attempts"]) == (2, 1)
    assert state(folder) == "failed"


def test_an_error_of_the_second_process_ends_the_first_which_notes_it(work_on):
    folder, run = work_on("second")
    codes, said = run()
    assert codes == [1, 1], said
    assert "ValueError: only here" in said[1][1]
    assert json.loads((folder / FAILED).read_text())["code"] == 1
