"""Devices as a mesh, parameters placed by rules, batches split over the data axis."""

import collections
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from retrieval_jax.errors import InputError, check_fields

DATA, MODEL = "data", "model"

# (regular expression searched in a parameter's path "a/b/c", its placement); the first match
# counts, no match means a copy on every device.
Rules = Sequence[tuple[str, PartitionSpec]]


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """Shape of the mesh.

    Attributes:
        data: devices over which a batch is split; -1 = all that `model` leaves.
        model: devices over which large parameters are split, by a task's rules.
        fsdp_mib: parameters and optimizer moments of at least so many MiB are also split over
            `data`, along their largest axis that it divides; None = never.
    """

    data: int = -1
    model: int = 1
    fsdp_mib: float | None = None


def make_mesh(config: MeshConfig, devices: Sequence[Any] | None = None) -> Mesh:
    """Arranges devices (all by default) as a `data` x `model` mesh.

    Devices of several processes stand in the order of the processes, each of which has whole rows:
    then the processes' parts of a batch, one after the other, are the batch.

    Raises:
        InputError: the product is not the number of devices, or a `model` that does not divide
            those of each process.
    """
    devices = jax.devices() if devices is None else devices
    check_fields(config, ("model",), "training.mesh", at_least=1)
    data = len(devices) // config.model if config.data == -1 else config.data
    if data * config.model != len(devices) or data < 1:
        raise InputError(
            f"a mesh of data={config.data} x model={config.model} does not fit"
            f" {len(devices)} devices",
            "Their product must be the number of devices; data=-1 takes what model leaves.",
        )
    # Auto: the partitioner places collectives; Explicit axes refuse q @ d.T of two sharded sides.
    axis_types = (AxisType.Auto,) * 2
    of_process = collections.Counter(device.process_index for device in devices)
    if len(of_process) == 1:
        return jax.make_mesh(
            (data, config.model), (DATA, MODEL), axis_types=axis_types, devices=devices
        )
    if any(count % config.model for count in of_process.values()):
        raise InputError(
            f"a mesh of model={config.model} would split processes of"
            f" {sorted(set(of_process.values()))} devices",
            "Make --training.mesh.model a divisor of each process's number of devices.",
        )
    ordered = sorted(devices, key=lambda device: (device.process_index, device.id))
    grid = np.array(ordered).reshape(data, config.model)
    return Mesh(grid, (DATA, MODEL), axis_types=axis_types)


def shardings(tree: Any, mesh: Mesh, rules: Rules = (), fsdp_mib: float | None = None) -> Any:
    """Gives each leaf of `tree` (arrays or shapes) its `NamedSharding` by the first rule that fits.

    Works on parameters and on optimizer states alike, whose paths end like the parameters'.

    Args:
        tree: arrays or shapes.
        mesh: devices.
        rules: placements by path.
        fsdp_mib: as in `MeshConfig`.

    Raises:
        InputError: an axis that the mesh does not divide, with the parameter's path.
    """

    def place(path: jax.tree_util.KeyPath, leaf: Any) -> NamedSharding:
        name = path_name(path)
        spec = next((s for pattern, s in rules if re.search(pattern, name)), PartitionSpec())
        if len(spec) > len(leaf.shape):  # a rule for a table met its scalar in an optimizer state
            spec = PartitionSpec()
        if fsdp_mib is not None and leaf.size * leaf.dtype.itemsize >= fsdp_mib * 2**20:
            spec = _split_over_data(leaf.shape, spec, mesh.shape[DATA])
        for size, axis in zip(leaf.shape, spec, strict=False):
            parts = int(np.prod([mesh.shape[a] for a in np.atleast_1d(axis)])) if axis else 1
            if size % parts:
                raise InputError(
                    f"{name} {leaf.shape} cannot be split in {parts} over mesh axis {axis!r}",
                    "Choose another mesh, or pad the axis to a multiple.",
                )
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(place, tree)


def _split_over_data(shape: Sequence[int], spec: PartitionSpec, parts: int) -> PartitionSpec:
    """Adds the data axis to the largest axis of an array that is whole and divides."""
    axes = [*spec, *[None] * (len(shape) - len(spec))]
    free = [i for i, axis in enumerate(axes) if axis is None and shape[i] % parts == 0]
    if free:
        axes[max(free, key=lambda i: shape[i])] = DATA
    return PartitionSpec(*axes)


def path_name(path: jax.tree_util.KeyPath) -> str:
    """Writes a key path as `a/b/c`."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def check_divisible(batch_size: int, mesh: Mesh) -> None:
    """Refuses a global batch that the mesh's data axis does not divide.

    Raises:
        InputError: with the sizes.
    """
    if batch_size % mesh.shape[DATA]:
        raise InputError(
            f"a batch of {batch_size} cannot be split over {mesh.shape[DATA]} devices",
            f"Make --training.batch-size a multiple of {mesh.shape[DATA]}, or split fewer ways:"
            " --training.mesh.model takes devices from the data axis.",
        )


def device_memory(mesh: Mesh) -> float | None:
    """Bytes that each device of `mesh` can hold; None if it does not tell.

    CPU devices share what memory the machine has.
    """
    device = mesh.local_devices[0]
    if device.platform == "cpu":
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return whole / len(mesh.local_devices)
    return (device.memory_stats() or {}).get("bytes_limit")


def shard_batch(
    batch: Mapping[str, np.ndarray], mesh: Mesh, is_whole: bool = False
) -> dict[str, jax.Array]:
    """Makes global arrays, split over the data axis.

    Args:
        batch: this process's part of a global batch, or all of it.
        mesh: of `make_mesh`.
        is_whole: whether it is all of it, on every process, of which each keeps its part.

    Raises:
        InputError: a whole array whose first axis the mesh does not divide.
    """
    sharding = NamedSharding(mesh, PartitionSpec(DATA))
    if not is_whole:
        return {
            name: jax.make_array_from_process_local_data(sharding, value)
            for name, value in batch.items()
        }
    for name, value in batch.items():
        if len(value) % mesh.shape[DATA]:
            raise InputError(
                f"{len(value)} rows of {name!r} cannot be split over {mesh.shape[DATA]} devices",
                "This task is not made for so many devices: take a divisor of that number.",
            )
    return {
        name: jax.make_array_from_callback(value.shape, sharding, value.__getitem__)
        for name, value in batch.items()
    }


def place_array(value: np.ndarray, target: jax.ShapeDtypeStruct | jax.Array) -> jax.Array:
    """Makes a global array of a host array that is the same on every process.

    Each device is given its part alone, as a copy of its own that a step to which it is donated may
    write over. Nothing is sent to other processes: `jax.device_put` would send them the whole to
    compare.

    Args:
        value: host array; of one that is memory-mapped only the parts are read.
        target: its shape, with the dtype and the sharding that it gets.
    """
    value, sharding = np.asarray(value), target.sharding
    assert sharding is not None
    parts = [
        jax.device_put(np.array(value[index], target.dtype), device)
        for device, index in sharding.addressable_devices_indices_map(value.shape).items()
    ]
    return jax.make_array_from_single_device_arrays(value.shape, sharding, parts)
