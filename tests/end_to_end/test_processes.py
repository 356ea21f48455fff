"""Two processes train as one: the same result, stopped, killed, taken up by fewer and by more."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from retrieval_jax import training
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.logs import read_metrics
from retrieval_jax.runs import create_run
from retrieval_jax.training import train
from tests.end_to_end.process_worker import CONFIG, SlowTask
from tests.end_to_end.unreadable_worker import HANG

HEARTBEAT = 10


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def start(folder, seconds=0.0, unreadable=None):
    """Starts two processes of one device each on a run folder.

    With `unreadable`, process 1 cannot read the states of those steps.
    """
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    env |= {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": folder.parent / "xla",
    }
    env |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    join = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2"]
    join += ["--heartbeat", str(HEARTBEAT), "--start", "120"]
    worker = ["tests.end_to_end.process_worker", str(folder), str(seconds)]
    if unreadable is not None:
        worker = ["tests.end_to_end.unreadable_worker", *worker[1:], unreadable]
    return [
        subprocess.Popen(
            [sys.executable, "-m", "retrieval_jax.distributed", *join, "--process", rank, *worker],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]


def end(processes, timeout=300):
    """Exit codes, and what each printed on stdout and stderr."""
    try:
        said = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], said


def wait_for_checkpoint(folder, step, processes):
    deadline = time.monotonic() + 300
    while not (folder / "checkpoints" / str(step)).is_dir():
        if time.monotonic() > deadline:
            pytest.fail(f"no checkpoint: {end(processes, timeout=1)}")
        assert all(process.poll() is None for process in processes), end(processes)
        time.sleep(0.02)


def outcome(folder):
    """Last parameters, and the log without times."""
    with np.load(folder / "params.npz") as arrays:
        return {name: arrays[name] for name in arrays}, log_of(folder)


def log_of(folder):
    untold = ("time", "examples_per_second")
    return [{k: v for k, v in e.items() if k not in untold} for e in read_metrics(folder)]


def check_close(folder, expected, expected_folder):
    """The run of several processes in `folder` ended as that of one in `expected_folder`."""
    params, log = outcome(folder)
    for path, leaf in jax.tree_util.tree_leaves_with_path(jax.device_get(expected.params)):
        name = jax.tree_util.keystr(path)
        np.testing.assert_allclose(params[name], leaf, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(log, log_of(expected_folder), strict=True):
        assert ours.pop("kind") == theirs.pop("kind")
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)


class Interrupted(Exception):
    """Stands for a process that is killed."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run of one process with eight devices, killed after step 12, and one that was not."""
    folder = tmp_path_factory.mktemp("processes")
    whole = train(SlowTask(), CONFIG, create_run(folder / "whole", "toy", CONFIG, "x"), None, False)
    taken = []

    def interrupting(batch, *args):
        if len(taken) == 12:
            raise Interrupted
        taken.append(batch)
        return shard_batch(batch, *args)

    shard_batch = training.shard_batch
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(training, "shard_batch", interrupting)
        train(SlowTask(), CONFIG, create_run(folder / "begun", "toy", CONFIG, "x"), None, False)
    return folder, whole


@pytest.fixture(scope="module")
def finished(begun):
    """The killed run, finished by two processes."""
    folder, _ = begun
    shutil.copytree(folder / "begun", folder / "finished")
    codes, said = end(start(folder / "finished"))
    assert codes == [0, 0], said
    return said


def test_two_processes_go_on_with_a_run_of_one_and_end_as_one_would(begun, finished):
    folder, whole = begun
    check_close(folder / "finished", whole, folder / "whole")
    best = restore_params(folder / "finished")
    assert SlowTask().evaluate(best)["RR"] == pytest.approx(whole.best["RR"], rel=1e-4)


def test_process_0_alone_prints_and_logs(begun, finished):
    folder, _ = begun
    (out, err), (other_out, other_err) = finished
    assert "training finished" in out
    assert "step 60/60" in err
    assert "training" not in other_out
    assert "step" not in other_err
    lines = (folder / "finished" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 12 + 9  # dev, train


def test_told_to_stop_killed_and_left_half_saved_they_end_bit_identical(begun, finished):
    folder, _ = begun
    run = folder / "stopped"
    shutil.copytree(folder / "begun", run)

    # A signal to one of them stops both after the same step.
    processes = start(run, seconds=0.3)
    wait_for_checkpoint(run, 20, processes)
    processes[1].send_signal(signal.SIGUSR2)
    codes, said = end(processes)
    assert codes == [128 + signal.SIGUSR2] * 2, said
    assert "stopped by SIGUSR2 after step" in said[0][1]
    assert not (run / "params.npz").exists()
    # One process can go on as well.
    shutil.copytree(run, folder / "alone")
    alone = train(SlowTask(), CONFIG, create_run(folder / "alone", "toy", CONFIG, "x"), None, False)
    check_close(folder / "finished", alone, folder / "alone")

    # One that is killed ends the other in bounded time, with a message.
    processes = start(run, seconds=0.3)
    wait_for_checkpoint(run, 40, processes)
    processes[1].kill()
    killed = time.monotonic()
    codes, said = end(processes)
    assert time.monotonic() - killed < 3 * HEARTBEAT
    assert codes[0] not in (0, 128 + signal.SIGUSR2)
    assert "the same command goes on" in said[0][1]

    # What was left half-saved is not restored.
    saved = [path for path in (run / "checkpoints").iterdir() if path.name.isdigit()]
    last = max(saved, key=lambda path: int(path.name))
    shutil.copytree(last, last.with_name("59.orbax-checkpoint-tmp"))
    codes, said = end(start(run))
    assert codes == [0, 0], said
    ours, theirs = outcome(run), outcome(folder / "finished")
    assert ours[1] == theirs[1]
    assert {n: a.tobytes() for n, a in ours[0].items()} == {
        n: a.tobytes() for n, a in theirs[0].items()
    }


@pytest.mark.long
def test_a_state_that_one_process_cannot_read_is_taken_up_by_none(begun):
    folder, whole = begun
    run = folder / "older"
    shutil.copytree(folder / "begun", run)
    codes, said = end(start(run, unreadable="10"))
    assert codes == [0, 0], said
    for _, err in said:
        assert "checkpoint 10 in" in err
        assert "process 1 of 2: OSError: [Errno 5] Input/output error" in err
    assert (run / "damaged" / "10").is_dir()
    check_close(run, whole, folder / "whole")


@pytest.mark.long
def test_where_one_process_can_read_no_state_both_end_alike(begun):
    folder, _ = begun
    run = folder / "unreadable"
    shutil.copytree(folder / "begun", run)
    codes, said = end(start(run, unreadable="5,10"))
    assert codes == [2, 2], said
    for _, err in said:
        assert "the newest (checkpoints/10): process 1 of 2: OSError: [Errno 5]" in err
        assert "Traceback" not in err
    assert not (run / "damaged").exists()


@pytest.mark.long
def test_a_process_that_hangs_in_reading_ends_both_in_bounded_time(begun):
    folder, _ = begun
    run = folder / "hanging"
    shutil.copytree(folder / "begun", run)
    codes, said = end(start(run, unreadable=HANG))  # within its timeout
    assert codes[0] == 1, said
    assert codes[1] != 0, said
    assert "process 0 of 2 waited 10 s in vain for the others" in said[0][1]
