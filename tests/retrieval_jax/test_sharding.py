"""Meshes, rules, batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from retrieval_jax.errors import InputError
from retrieval_jax.sharding import (
    MeshConfig,
    check_divisible,
    make_mesh,
    place_array,
    shard_batch,
    shardings,
)


def test_data_axis_takes_what_model_leaves():
    assert dict(make_mesh(MeshConfig()).shape) == {"data": 8, "model": 1}
    assert dict(make_mesh(MeshConfig(model=4)).shape) == {"data": 2, "model": 4}


@pytest.mark.parametrize("config", [MeshConfig(data=3), MeshConfig(model=5), MeshConfig(model=16)])
def test_mesh_that_does_not_fit_the_devices_is_refused(config):
    with pytest.raises(InputError, match="8 devices"):
        make_mesh(config)


def test_first_matching_rule_counts_and_the_rest_is_replicated():
    mesh = make_mesh(MeshConfig(data=2, model=4))
    tree = {"a": {"kernel": jnp.zeros((3, 8)), "bias": jnp.zeros(8)}, "step": jnp.int32(0)}
    rules = (("a/kernel", PartitionSpec(None, "model")), ("kernel", PartitionSpec("data")))
    placed = shardings(tree, mesh, rules)
    assert placed["a"]["kernel"].spec == PartitionSpec(None, "model")
    assert placed["a"]["bias"].spec == PartitionSpec()
    assert placed["step"].spec == PartitionSpec()


def test_large_arrays_are_also_split_over_data():
    mesh = make_mesh(MeshConfig(data=2, model=4))
    tree = {
        "kernel": jnp.zeros((6, 512, 256)),  # 3 MiB
        "table": jnp.zeros((512, 512)),  # 1 MiB
        "odd": jnp.zeros((3, 512 * 511, 1)),  # 3 MiB
        "small": jnp.zeros((512, 256)),
    }
    rules = (("kernel", PartitionSpec(None, "model")),)
    placed = shardings(tree, mesh, rules, fsdp_mib=1.0)
    assert placed["kernel"].spec == PartitionSpec(None, "model", "data")
    assert placed["table"].spec == PartitionSpec("data", None)
    assert placed["odd"].spec == PartitionSpec(None, "data", None)
    assert placed["small"].spec == PartitionSpec()


def test_axis_that_does_not_divide_is_refused_with_its_path():
    mesh = make_mesh(MeshConfig(data=2, model=4))
    rules = (("table", PartitionSpec(("data", "model"))),)
    with pytest.raises(InputError, match=r"entities/table \(12, 2\) cannot be split in 8"):
        shardings({"entities": {"table": jnp.zeros((12, 2))}}, mesh, rules)


def test_batches_are_split_over_data():
    mesh = make_mesh(MeshConfig(data=4, model=2))
    batch = shard_batch({"x": np.arange(16.0).reshape(8, 2)}, mesh)
    assert batch["x"].sharding.spec == PartitionSpec("data")
    assert batch["x"].addressable_shards[0].data.shape == (2, 2)
    np.testing.assert_array_equal(jax.device_get(batch["x"]), np.arange(16.0).reshape(8, 2))


def test_batch_must_divide():
    check_divisible(16, make_mesh(MeshConfig()))
    with pytest.raises(InputError, match="multiple of 8"):
        check_divisible(12, make_mesh(MeshConfig()))


@pytest.mark.parametrize("spec", [PartitionSpec(), PartitionSpec("data"), PartitionSpec("model")])
def test_a_host_array_is_placed_in_parts_that_are_the_devices_own(spec):
    sharding = NamedSharding(make_mesh(MeshConfig(data=4, model=2)), spec)
    value = np.arange(64.0).reshape(8, 8)
    placed = place_array(value, jax.ShapeDtypeStruct((8, 8), np.float32, sharding=sharding))
    assert placed.dtype == np.float32
    assert placed.sharding == sharding
    pointers = {part.data.unsafe_buffer_pointer() for part in placed.addressable_shards}
    assert len(pointers) == 8
    value[:] = 0.0
    np.testing.assert_array_equal(placed, np.arange(64.0).reshape(8, 8))
