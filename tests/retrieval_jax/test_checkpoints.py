"""Checkpoints: parameters alone, on other devices, and absent ones."""

import itertools

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from retrieval_jax.checkpoints import Checkpoints, restore_params
from retrieval_jax.errors import InputError
from retrieval_jax.sharding import MeshConfig, make_mesh
from retrieval_jax.train_step import TrainState
from tests.retrieval_jax.toy import ToyTask

WINDOW = [{"loss": (0.1, 1.0)}, {"loss": (float(np.float32(1) / 3), 1.0)}]
START = {"next_index": 0}


def sharded_state(mesh, step=3):
    place = NamedSharding(mesh, PartitionSpec("data"))
    params = {"a": {"kernel": jax.device_put(np.arange(16.0).reshape(8, 2), place)}}
    return TrainState(
        step=jax.numpy.int32(step), params=params, opt_state=(), rng=np.zeros(2, np.uint32)
    )


def test_parameters_alone_restore_on_one_device(tmp_path):
    state = sharded_state(make_mesh(MeshConfig(data=8)))
    with Checkpoints(tmp_path) as saved:
        saved.save(3, state, START, [])
    restored = restore_params(tmp_path)
    np.testing.assert_array_equal(restored["a"]["kernel"], state.params["a"]["kernel"])
    assert restored["a"]["kernel"].devices() == {jax.devices()[0]}


def test_state_of_eight_devices_restores_on_two(tmp_path):
    iterator = ToyTask().batches(16, 0)
    next(iterator)
    with Checkpoints(tmp_path) as saved:
        state = sharded_state(make_mesh(MeshConfig(data=8)))
        saved.save(3, state, iterator.get_state(), WINDOW)
    two = make_mesh(MeshConfig(data=2), jax.devices()[:2])
    target = jax.tree.map(np.zeros_like, sharded_state(two))
    target = target.replace(params=sharded_state(two).params, step=jax.numpy.int32(0))
    fresh = ToyTask().batches(16, 0)
    with Checkpoints(tmp_path) as saved:
        restored = saved.restore(target, fresh)
    assert restored is not None
    restored, window = restored
    assert window == WINDOW
    assert int(restored.step) == 3
    assert len(restored.params["a"]["kernel"].sharding.device_set) == 2
    np.testing.assert_array_equal(restored.params["a"]["kernel"], np.arange(16.0).reshape(8, 2))
    np.testing.assert_array_equal(next(fresh)["id"], next(iterator)["id"])


def test_best_parameters_come_before_the_last(tmp_path):
    mesh = make_mesh(MeshConfig())
    with Checkpoints(tmp_path) as saved:
        for step in (1, 2):
            state = sharded_state(mesh)
            scaled = jax.tree.map(lambda a, s=step: a * s, state.params)
            saved.save_best(step, scaled)
            saved.save(step + 5, state, START, [])
    assert [path.name for path in (tmp_path / "best").iterdir()] == ["2"]
    assert restore_params(tmp_path)["a"]["kernel"][1, 1] == 6.0


def test_best_parameters_stay_while_a_state_before_the_next_ones_does(tmp_path):
    state = sharded_state(make_mesh(MeshConfig()))

    def best():
        return sorted(int(path.name) for path in (tmp_path / "best").iterdir())

    with Checkpoints(tmp_path) as saved:
        saved.save_best(1, state.params)
        saved.save(2, state, START, [])
        saved.save_best(3, state.params)
        saved.save(4, state, START, [])
    assert best() == [1, 3]
    with Checkpoints(tmp_path) as saved:
        saved.save(6, state, START, [])  # the state of step 2 goes
    assert best() == [3]


def test_the_best_is_written_before_a_state_that_knows_of_it(tmp_path, monkeypatch):
    calls = []
    state = sharded_state(make_mesh(MeshConfig()))
    with Checkpoints(tmp_path) as saved:
        for manager, name in ((saved._best, "wait_until_finished"), (saved._last, "save")):
            function = getattr(manager, name)

            def recording(*args, name=name, function=function, **kwargs):
                calls.append(name)
                return function(*args, **kwargs)

            monkeypatch.setattr(manager, name, recording)
        saved.save_best(1, state.params)
        calls.clear()
        saved.save(2, state, START, [])
        assert calls[0] == "wait_until_finished"
        assert calls.count("save") == 1


def test_damaged_best_parameters_fall_back_to_the_last(tmp_path):
    state = sharded_state(make_mesh(MeshConfig()))
    with Checkpoints(tmp_path) as saved:
        saved.save_best(2, jax.tree.map(lambda a: a * 2, state.params))
        saved.save(5, state, START, [])
    (tmp_path / "best" / "2" / "params" / "manifest.ocdbt").unlink()
    with pytest.warns(UserWarning, match="is damaged"):
        restored = restore_params(tmp_path)
    np.testing.assert_array_equal(restored["a"]["kernel"], state.params["a"]["kernel"])
    (tmp_path / "checkpoints" / "5" / "params" / "manifest.ocdbt").unlink()
    with pytest.warns(UserWarning), pytest.raises(InputError, match="can be read"):
        restore_params(tmp_path)


def test_nothing_saved(tmp_path):
    with Checkpoints(tmp_path) as saved:
        assert saved.restore(sharded_state(make_mesh(MeshConfig())), None) is None
    with pytest.raises(InputError, match="no checkpoint"):
        restore_params(tmp_path)
    with pytest.raises(InputError, match="no checkpoint"):
        restore_params(tmp_path / "none")


def save_steps(folder, *steps):
    """Saves states of some steps, each at its place in the data, as best parameters too."""
    mesh = make_mesh(MeshConfig())
    with Checkpoints(folder) as saved:
        for step in steps:
            saved.save_best(step, sharded_state(mesh).params)
            saved.save(step, sharded_state(mesh, step), {"next_index": step}, WINDOW)


def test_a_place_in_the_data_that_is_none_falls_back(tmp_path):
    save_steps(tmp_path, 3, 5)
    (tmp_path / "checkpoints" / "5" / "iterator" / "process_0-of-1.json").write_text('{"a": 1}')
    iterator = ToyTask().batches(16, 0)
    with Checkpoints(tmp_path) as saved, pytest.warns(UserWarning, match="KeyError: 'next_index'"):
        restored = saved.restore(sharded_state(make_mesh(MeshConfig())), iterator)
    assert restored is not None
    assert int(restored[0].step) == iterator.get_state()["next_index"] == 3


def others_cannot_read(monkeypatch, *checkpoints):
    """Of those in `checkpoints`, counted from the first that is tried, another process tells."""

    class Told:
        def __init__(self, seconds):
            self.calls = itertools.count()

        def __call__(self, problem):
            assert problem is None
            return "process 1 of 2: gone" if next(self.calls) in checkpoints else None

    monkeypatch.setattr("retrieval_jax.checkpoints._ProblemAgreement", Told)


def test_what_another_process_cannot_read_is_not_used(tmp_path, monkeypatch):
    save_steps(tmp_path, 3, 5)
    others_cannot_read(monkeypatch, 0)
    iterator = ToyTask().batches(16, 0)
    with Checkpoints(tmp_path) as saved, pytest.warns(UserWarning, match="process 1 of 2: gone"):
        restored = saved.restore(sharded_state(make_mesh(MeshConfig())), iterator)
    assert restored is not None
    assert int(restored[0].step) == iterator.get_state()["next_index"] == 3
    assert (tmp_path / "damaged" / "5").is_dir()
    with pytest.warns(UserWarning, match=r"best/3 is damaged.*process 1 of 2: gone"):
        restore_params(tmp_path)


def test_when_another_process_can_read_none_all_say_so(tmp_path, monkeypatch):
    save_steps(tmp_path, 3, 5)
    others_cannot_read(monkeypatch, 0, 1, 2)
    state = sharded_state(make_mesh(MeshConfig()))
    message = r"the newest \(checkpoints/5\): process 1 of 2: gone"
    with Checkpoints(tmp_path) as saved, pytest.raises(InputError, match=message):
        saved.restore(state, ToyTask().batches(16, 0))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["3", "5"]
