"""Devices as a mesh, parameters placed by rules, batches split over the data axis."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from retrieval_jax.errors import InputError

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

    Raises:
        InputError: the product is not the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    if config.model < 1:
        raise InputError(f"a mesh of model={config.model}", "Give 1 or more.")
    data = len(devices) // config.model if config.data == -1 else config.data
    if data * config.model != len(devices) or data < 1:
        raise InputError(
            f"a mesh of data={config.data} x model={config.model} does not fit"
            f" {len(devices)} devices",
            "Their product must be the number of devices; data=-1 takes what model leaves.",
        )
    # Auto: the partitioner places collectives; Explicit axes refuse q @ d.T of two sharded sides.
    return jax.make_mesh(
        (data, config.model), (DATA, MODEL), axis_types=(AxisType.Auto,) * 2, devices=devices
    )


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


def shard_batch(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """Makes global arrays, split over the data axis, from this process's part of a batch."""
    sharding = NamedSharding(mesh, PartitionSpec(DATA))
    return {
        name: jax.make_array_from_process_local_data(sharding, value)
        for name, value in batch.items()
    }
