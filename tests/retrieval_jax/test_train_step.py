"""The state and one step of it: made in parts, never whole on a device; accumulation; memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from retrieval_jax import optimizers
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch
from retrieval_jax.train_step import (
    create_state,
    fresh_params,
    make_train_step,
    memory_estimate,
    state_shapes,
)
from retrieval_jax.training import TrainingConfig, train
from tests.retrieval_jax.toy import ToyTask

OPTIMIZER = OptimizerConfig(learning_rate=1e-2)
MESH = MeshConfig(data=1, model=8)
TABLE = (8 * 1024, 16)
TABLE_BYTES = 4 * TABLE[0] * TABLE[1]


class LargeTable(ToyTask):
    """A table of entities of which each device keeps an eighth."""

    rules = (("table", PartitionSpec("model")),)

    def init(self, rng):
        return {"table": jax.random.normal(rng, TABLE), "bias": jnp.zeros(8)}


def shapes_of(task, mesh):
    optimizer = optimizers.make_optimizer(OPTIMIZER, 10)
    return optimizer, state_shapes(task, optimizer, 0, mesh)


def check_parts(state):
    """The table and its moments are in eight parts."""
    tables = [leaf for leaf in jax.tree.leaves(state) if leaf.shape == TABLE]
    assert len(tables) == 3
    for table in tables:
        assert {part.data.nbytes for part in table.addressable_shards} == {TABLE_BYTES // 8}


def test_a_given_table_is_put_on_the_devices_part_by_part(monkeypatch):
    table = np.random.default_rng(0).normal(size=TABLE).astype(np.float32)
    task = LargeTable(warm_start={"table": table})
    optimizer, shapes = shapes_of(task, make_mesh(MESH))
    put, device_put = [], jax.device_put

    def recording(value, *args, **kwargs):
        put.append(value.nbytes)
        return device_put(value, *args, **kwargs)

    monkeypatch.setattr(jax, "device_put", recording)
    state = create_state(task, optimizer, 0, shapes)
    assert max(put) == TABLE_BYTES // 8
    assert put.count(TABLE_BYTES // 8) == 8
    np.testing.assert_array_equal(state.params["table"], table)
    check_parts(state)


def test_each_device_computes_its_part_of_a_fresh_table():
    task = LargeTable()
    mesh = make_mesh(MESH)
    optimizer, shapes = shapes_of(task, mesh)
    state = create_state(task, optimizer, 0, shapes)
    key = jax.random.key(0)
    np.testing.assert_array_equal(state.params["table"], task.init(key)["table"])
    check_parts(state)
    places = {"table": shapes.params["table"].sharding}
    memory = fresh_params(task, places).lower(key).compile().memory_analysis()
    assert memory.output_size_in_bytes == TABLE_BYTES // 8
    assert memory.temp_size_in_bytes < TABLE_BYTES // 2
    whole = {"table": NamedSharding(mesh, PartitionSpec())}
    memory_of_whole = fresh_params(task, whole).lower(key).compile().memory_analysis()
    assert memory_of_whole.temp_size_in_bytes > 4 * memory.temp_size_in_bytes


def test_parameters_and_moments_are_placed_by_the_rules():
    task = ToyTask()
    task.rules = (("kernel", PartitionSpec(None, "model")),)
    optimizer, shapes = shapes_of(task, make_mesh(MeshConfig(data=2, model=4)))
    state = create_state(task, optimizer, 0, shapes)
    placed = [
        leaf.sharding.spec
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if "kernel" in jax.tree_util.keystr(path)
    ]
    assert placed == [PartitionSpec(None, "model")] * 3  # parameter and two moments


def test_warm_start_replaces_only_its_own_paths_and_is_not_overwritten():
    kernel = np.eye(8, dtype=np.float32)
    task = ToyTask(warm_start={"dense": {"kernel": kernel}})
    optimizer, shapes = shapes_of(task, make_mesh(MESH))
    state = create_state(task, optimizer, 0, shapes)
    np.testing.assert_array_equal(state.params["dense"]["kernel"], np.eye(8))
    np.testing.assert_array_equal(
        state.params["table"]["embedding"], ToyTask().init(jax.random.key(0))["table"]["embedding"]
    )
    train(task, TrainingConfig(steps=3, batch_size=16, mesh=MESH), show_progress=False)
    np.testing.assert_array_equal(kernel, np.eye(8))


@pytest.mark.parametrize("parts", [2, 4])
def test_accumulated_gradients_equal_those_of_the_whole_batch(parts):
    task = ToyTask(dropout=0.0)
    mesh = make_mesh(MESH)
    optimizer, shapes = shapes_of(task, mesh)
    step = make_train_step(task, optimizer, OPTIMIZER, shapes, mesh)
    batch = next(task.batches(16, 0))

    def after_one_step(count):
        halves = [
            {name: np.split(value, count)[part] for name, value in batch.items()}
            for part in range(count)
        ]
        state = create_state(task, optimizer, 0, shapes)
        state, metrics = step(state, [shard_batch(half, mesh) for half in halves])
        (loss, count), (norm, _) = metrics["loss"], metrics["grad_norm"]
        return state.params, loss / count, norm

    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        after_one_step(parts),
        after_one_step(1),
    )


def test_memory_estimate_counts_each_part_per_device():
    task = ToyTask(dropout=0.0)
    task.rules = (("kernel", PartitionSpec(None, "model")),)
    mesh = make_mesh(MeshConfig(data=4, model=2))
    _, shapes = shapes_of(task, mesh)
    batch = shard_batch(next(task.batches(16, 0)), mesh)
    estimate = memory_estimate(task, shapes, batch, mesh)
    kernel, bias, table = 8 * 8 * 4, 8 * 4, 50 * 8 * 4
    assert estimate["parameters"] == estimate["gradients"] == kernel / 2 + bias + table
    counters = estimate["optimizer"] - 2 * estimate["parameters"]
    assert 0 < counters <= 64  # Adam's and the schedule's step numbers
    assert estimate["batches"] == 16 * (8 + 1) * 4 / 4
    held = memory_estimate(task, shapes, batch, mesh, held=3)
    assert held == estimate | {"batches": 3 * estimate["batches"]}
    assert 16 * 50 * 4 / 4 <= estimate["saved for backward"] < 16 * 50 * 4 * 6 / 4  # the logits
