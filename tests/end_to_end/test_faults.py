"""Runs that are killed, damaged or run out of disk lose nothing that was saved."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from retrieval_jax.checkpoints import restore_params
from retrieval_jax.logs import read_metrics

# Many random moments are a long test; a few are one of every run.
KILLS = (4, pytest.param(20, marks=pytest.mark.long))


def worker(folder, prefix=()):
    """Starts the worker on two fake devices; returns it when it is about to train."""
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "tests.end_to_end.resume_worker", str(folder)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def finish(folder, prefix=()):
    process = worker(folder, prefix)
    _, err = process.communicate(timeout=300)
    return process.returncode, err


def outcome(folder):
    """Last parameters, log without times and best parameters of a finished run."""
    with np.load(folder / "params.npz") as arrays:
        params = {name: arrays[name].tobytes() for name in arrays}
    log = [
        {k: v for k, v in entry.items() if k not in ("time", "examples_per_second")}
        for entry in read_metrics(folder)
    ]
    return params, log, np.asarray(restore_params(folder)["table"]["embedding"]).tobytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    started = time.monotonic()
    code, err = finish(folder)
    assert code == 0, err
    return outcome(folder), time.monotonic() - started


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
def test_killed_at_random_moments_it_ends_bit_identical(whole, tmp_path, kills):
    expected, _ = whole
    folder, moments = tmp_path / "run", random.Random(0)
    codes = []
    for kill in range(kills):
        process = worker(folder)
        time.sleep(moments.uniform(0.0, 2.5))
        process.send_signal(signal.SIGTERM if kill % 4 == 3 else signal.SIGKILL)
        process.communicate(timeout=120)
        codes.append(process.returncode)
        if process.returncode == 0:  # it was done before the signal: start over
            assert outcome(folder) == expected
            folder = tmp_path / f"run{kill}"
    assert codes.count(-signal.SIGKILL) >= kills // 2
    assert codes.count(128 + signal.SIGTERM) >= kills // 10
    code, err = finish(folder)
    assert code == 0, err
    assert outcome(folder) == expected


def test_told_to_stop_it_saves_says_so_and_goes_on(whole, tmp_path):
    expected, _ = whole
    process = worker(tmp_path / "run")
    while not list(tmp_path.glob("run/checkpoints/[0-9]*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGUSR2
    assert "stopped by SIGUSR2 after step" in err
    assert "Traceback" not in err
    assert finish(tmp_path / "run")[0] == 0
    assert outcome(tmp_path / "run") == expected


def damage_missing_file(checkpoint):
    (checkpoint / "params" / "manifest.ocdbt").unlink()


def damage_cut_off(checkpoint):
    for path in checkpoint.glob("params/**/d/*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage_iterator(checkpoint):
    for path in (checkpoint / "iterator").glob("*.json"):
        path.write_text("{")


def damage_bits(checkpoint):
    for path in checkpoint.glob("params/**/d/*"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage_missing_file, marks=pytest.mark.long),
        pytest.param(damage_cut_off, marks=pytest.mark.long),
        damage_iterator,
        damage_bits,
    ],
)
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(whole, tmp_path, damage):
    expected, _ = whole
    process = worker(tmp_path / "run")
    while len(list(tmp_path.glob("run/checkpoints/[0-9]*"))) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    steps = sorted(int(path.name) for path in tmp_path.glob("run/checkpoints/[0-9]*"))
    assert len(steps) == 2
    damage(tmp_path / "run" / "checkpoints" / str(steps[-1]))
    code, err = finish(tmp_path / "run")
    assert code == 0, err
    assert f"checkpoint {steps[-1]}" in err
    assert (tmp_path / "run" / "damaged" / str(steps[-1])).is_dir()
    assert outcome(tmp_path / "run") == expected


def test_when_every_checkpoint_is_damaged_it_says_so(tmp_path):
    process = worker(tmp_path / "run")
    while not list(tmp_path.glob("run/checkpoints/[0-9]*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    for checkpoint in tmp_path.glob("run/checkpoints/[0-9]*"):
        damage_cut_off(checkpoint)
    code, err = finish(tmp_path / "run")
    assert code == 2
    # The storage library's threads may print of their own before; ours is the last word.
    assert "can be read" in err
    assert "Give a new --run folder." in err


def test_a_disk_that_takes_no_more_ends_with_the_folder_named(tmp_path):
    # A write beyond the limit fails, as it does on a full disk.
    limited = ("sh", "-c", 'trap "" XFSZ; ulimit -f 4; exec "$@"', "sh")
    code, err = finish(tmp_path / "run", prefix=limited)
    assert code == 2, err
    assert re.search("run.* (could not|cannot) be written|could not be written in .*run", err)
    assert "the same command goes on from the last" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into read-only folders")
def test_a_read_only_folder_is_named(tmp_path):
    (tmp_path / "run").mkdir(mode=0o500)
    code, err = finish(tmp_path / "run")
    assert code == 2
    assert "run" in err
    assert "Traceback" not in err
