"""How processes find each other, and what is said among one; two are in tests/end_to_end."""

import os
import signal
import subprocess
import sys
import types

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from retrieval_jax.distributed import (
    DistributedConfig,
    StopAgreement,
    broadcast,
    is_main,
    local_copy,
    main_first,
    on_main,
    spans_processes,
)
from retrieval_jax.errors import InputError
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"coordinator": "host:1"}, "together or not at all"),
        ({"processes": 2, "process": 0}, "together or not at all"),
        ({"coordinator": "host:1", "processes": 2, "process": 2}, "process 2 of 2"),
        ({"coordinator": "host", "processes": 2, "process": 0}, "'host' names no port"),
    ],
)
def test_half_an_answer_is_refused(given, problem):
    with pytest.raises(InputError, match=problem):
        DistributedConfig(**given)


def run(*args):
    """The command line, in a process of its own."""
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-m", "retrieval_jax.distributed", *args]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=120
    )


def test_without_a_cluster_the_module_runs_alone():
    result = run("this", "--coordinator")
    assert result.returncode == 0, result.stderr
    assert "Beautiful is better" in result.stdout


def test_when_the_others_do_not_come_it_ends_with_a_message():
    join = ("--coordinator", "127.0.0.1:1", "--processes", "2", "--process", "1")
    result = run(*join, "--start", "1", "this")
    assert result.returncode == 2
    assert "Beautiful" not in result.stdout
    assert "process 1 of 2 found no process 0 at 127.0.0.1:1" in result.stderr
    assert "Traceback" not in result.stderr


def test_one_process_agrees_with_itself():
    assert is_main()
    assert broadcast({"a": [1, 0.5]}) == {"a": [1, 0.5]}
    done = []
    on_main(lambda: done.append(1))
    assert main_first(lambda: 5) == 5
    assert done == [1]

    def fail():
        raise InputError("no room", "Make some.")

    with pytest.raises(InputError, match="no room\nMake some"):
        on_main(fail)


def test_one_process_stops_at_once():
    mesh = make_mesh(MeshConfig())
    assert not spans_processes(mesh)
    agree = StopAgreement(mesh)
    assert agree(None) is agree.at_end(None) is None
    assert agree(signal.SIGTERM) is agree.at_end(signal.SIGTERM) is signal.SIGTERM


def test_among_several_what_came_in_the_last_steps_counts_at_the_end():
    agree = StopAgreement(make_mesh(MeshConfig()))
    agree._is_alone = False  # the exchange is the same
    assert [agree(received) for received in (None, None, signal.SIGUSR2)] == [None] * 3
    assert agree.at_end(signal.SIGUSR2) is signal.SIGUSR2
    assert agree.at_end(None) is None


def test_a_local_copy_is_whole_and_on_one_device():
    mesh = make_mesh(MeshConfig(data=4, model=2))
    values = np.arange(16.0).reshape(8, 2)
    copy = local_copy(shard_batch({"x": values}, mesh), mesh)["x"]
    np.testing.assert_array_equal(copy, values)
    assert copy.devices() == {jax.devices()[0]}


def test_a_local_copy_of_what_is_whole_copies_nothing(caplog):
    mesh = make_mesh(MeshConfig(data=4, model=2))
    whole = jax.device_put(np.arange(16.0), NamedSharding(mesh, PartitionSpec()))
    split = shard_batch({"x": np.arange(24.0)}, mesh)["x"]
    local_copy({"whole": whole, "split": split}, mesh)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        again = local_copy({"whole": whole, "split": split}, mesh)
    assert not caplog.records  # nothing is compiled twice
    first = whole.addressable_data(0)
    assert again["whole"].unsafe_buffer_pointer() == first.unsafe_buffer_pointer()


def test_batches_that_each_process_makes_whole_are_split_alike():
    mesh = make_mesh(MeshConfig(data=4, model=2))
    values = np.arange(16.0).reshape(8, 2)
    whole, part = (shard_batch({"x": values}, mesh, is_whole)["x"] for is_whole in (True, False))
    np.testing.assert_array_equal(whole, part)
    assert whole.sharding == part.sharding
    with pytest.raises(InputError, match="6 rows of 'x' cannot be split over 4"):
        shard_batch({"x": values[:6]}, mesh, is_whole=True)


def test_the_model_axis_stays_within_a_process():
    devices = [types.SimpleNamespace(process_index=i // 4, id=i) for i in range(8)]
    with pytest.raises(InputError, match=r"model=8 would split processes of \[4\] devices"):
        make_mesh(MeshConfig(model=8), devices)
