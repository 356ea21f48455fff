"""What a task gives the training loop, the state that training changes, and one step of it."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import grain
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax.extend.core import Var
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from retrieval_jax import optimizers
from retrieval_jax.errors import InputError
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.params import Params, flatten, unflatten
from retrieval_jax.sharding import DATA, Rules, place_array, shardings

# XLA's CPU compiler would start what it can as early as it can, which undoes rematerialisation and
# leaves the caches. (Measured: a step of BERT takes a seventh less memory and time.)
CPU_COMPILER_OPTIONS = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}

# Parts of a memory estimate.
PARAMETERS, GRADIENTS, OPTIMIZER = "parameters", "gradients", "optimizer"
BATCH, SAVED = "batches", "saved for backward"
CERTAIN = (PARAMETERS, OPTIMIZER, BATCH)

# Name -> (sum of values, count): sums of both merge to the right mean across batches and devices.
Metrics = dict[str, tuple[jax.Array, jax.Array]]


class Task(Protocol):
    """What a paper gives the loop.

    Attributes:
        rules: placement of parameters on the mesh (`retrieval_jax.sharding`).
        inseparable: why the loss of a batch is not the mean of its parts' losses (in-batch
            negatives), so that gradients cannot be accumulated; None if it is.

    A task may have `batches_by_process = True`: of several processes, each makes its part of every
    batch, and the parts in the order of the processes are the batch. Otherwise each makes all of
    it, the same, and keeps its part.
    """

    rules: Rules
    inseparable: str | None

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters; pure."""
        ...

    def warm_start(self) -> Params:
        """Host arrays that replace the same paths of `init`'s result; may be empty.

        Called once for a new run, not when one is resumed.
        """
        ...

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """Scalar loss of a global batch, and metrics; pure."""
        ...

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Endless training batches, or this process's part of them; their state is one number.

        Number `i` is a function of `i` and the seed, so that what one process stopped at any
        number of them can take up.
        """
        ...

    def evaluate(self, params: Params) -> dict[str, float]:
        """Measures on the dev split; empty if there is none."""
        ...


class TrainState(struct.PyTreeNode):
    """All that changes in training.

    Attributes:
        step: int32 scalar, steps done.
        params: the model's parameters.
        opt_state: the optimizer's.
        rng: uint32 key data; step `i` uses it folded with `i`, so any step can be replayed.
    """

    step: jax.Array
    params: Params
    opt_state: optax.OptState
    rng: jax.Array


def create_state(
    task: Task, optimizer: optax.GradientTransformation, seed: int, shapes: TrainState
) -> TrainState:
    """Makes the first state, each array created where `shapes` (of `state_shapes`) places it."""
    warm = flatten(task.warm_start())
    known = flatten(shapes.params)
    for path, value in warm.items():
        if path not in known or known[path].shape != value.shape:
            raise InputError(
                f"warm start {path} {value.shape} does not fit the model"
                f" ({known[path].shape if path in known else 'no such parameter'})",
                "The encoder folder and the configuration describe different models.",
            )
    fresh = {path: leaf.sharding for path, leaf in known.items() if path not in warm}
    params = fresh_params(task, fresh)(jax.random.key(seed)) if fresh else {}
    params |= {path: place_array(value, known[path]) for path, value in warm.items()}
    nested = unflatten(params)
    opt_shardings = jax.tree.map(lambda leaf: leaf.sharding, shapes.opt_state)
    return TrainState(
        step=place_array(np.zeros((), np.int32), shapes.step),
        params=nested,
        opt_state=jax.jit(optimizer.init, out_shardings=opt_shardings)(nested),
        rng=place_array(np.asarray(_key_data(seed)), shapes.rng),
    )


def fresh_params(task: Task, places: Mapping[str, Sharding]) -> jax.stages.Wrapped:
    """Jitted `rng -> parameters by path`, those of `places`: a device computes what it keeps."""

    def init(rng: jax.Array) -> dict[str, jax.Array]:
        params = flatten(task.init(rng))
        return {path: params[path] for path in places}

    return jax.jit(init, out_shardings=dict(places))


def state_shapes(
    task: Task,
    optimizer: optax.GradientTransformation,
    seed: int,
    mesh: Mesh,
    fsdp_mib: float | None = None,
) -> TrainState:
    """Shapes, dtypes and shardings of the state, nothing allocated; see `sharding.shardings`."""

    def init(rng: jax.Array) -> TrainState:
        params = task.init(rng)
        return TrainState(jnp.int32(0), params, optimizer.init(params), _key_data(seed))

    shapes = jax.eval_shape(init, jax.random.key(seed))
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        shapes,
        shardings(shapes, mesh, task.rules, fsdp_mib),
    )


def make_train_step(
    task: Task,
    optimizer: optax.GradientTransformation,
    config: OptimizerConfig,
    shapes: TrainState,
    mesh: Mesh,
) -> Callable[[TrainState, Sequence[dict[str, jax.Array]]], tuple[TrainState, Metrics]]:
    """Makes `(state, batches) -> (state, metrics)`, one optimizer step.

    One batch is one jitted program. Several batches of equal size are accumulated: gradients and
    metrics are summed batch by batch, then applied as their mean. State and sums are donated,
    metrics replicated.
    """

    def gradients(
        state: TrainState, batch: dict[str, jax.Array], part: jax.Array
    ) -> tuple[Params, Metrics]:
        rng = jax.random.fold_in(jax.random.wrap_key_data(state.rng), state.step)
        rng = jax.random.fold_in(rng, part)
        grad_fn = jax.value_and_grad(task.loss, has_aux=True)
        (loss, metrics), grads = grad_fn(state.params, batch, rng, True)
        return grads, metrics | {"loss": (loss, jnp.float32(1))}

    def apply(state: TrainState, grads: Params, metrics: Metrics) -> tuple[TrainState, Metrics]:
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        # Without the frozen ones, whose gradients are then never computed.
        trained = jax.tree.map(
            lambda grad, frozen: None if frozen else grad,
            grads,
            optimizers.match_paths(grads, config.frozen),
        )
        metrics = metrics | {"grad_norm": (optax.tree.norm(trained), jnp.float32(1))}
        state = state.replace(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            opt_state=opt_state,
        )
        return state, metrics

    def whole(state: TrainState, batch: dict[str, jax.Array]) -> tuple[TrainState, Metrics]:
        return apply(state, *gradients(state, batch, jnp.int32(0)))

    def accumulate(
        state: TrainState,
        sums: tuple[Params, Metrics],
        batch: dict[str, jax.Array],
        part: jax.Array,
    ) -> tuple[Params, Metrics]:
        return jax.tree.map(jnp.add, sums, gradients(state, batch, part))

    def apply_mean(
        state: TrainState, sums: tuple[Params, Metrics], parts: jax.Array
    ) -> tuple[TrainState, Metrics]:
        grads, metrics = sums
        return apply(state, jax.tree.map(lambda grad: grad / parts, grads), metrics)

    placed = jax.tree.map(lambda leaf: leaf.sharding, shapes)
    replicated = NamedSharding(mesh, PartitionSpec())
    options = CPU_COMPILER_OPTIONS if mesh.devices.flat[0].platform == "cpu" else None
    jit = functools.partial(jax.jit, compiler_options=options)
    step_whole = jit(whole, donate_argnums=0, out_shardings=(placed, replicated))
    sum_shardings = (placed.params, replicated)
    first = jit(gradients, out_shardings=sum_shardings)
    further = jit(accumulate, donate_argnums=1, out_shardings=sum_shardings)
    finish = jax.jit(apply_mean, donate_argnums=0, out_shardings=(placed, replicated))

    def train_step(
        state: TrainState, batches: Sequence[dict[str, jax.Array]]
    ) -> tuple[TrainState, Metrics]:
        if len(batches) == 1:
            return step_whole(state, batches[0])
        sums = first(state, batches[0], jnp.int32(0))
        for part, batch in enumerate(batches[1:], 1):
            sums = further(state, sums, batch, jnp.int32(part))
        return finish(state, sums, jnp.float32(len(batches)))

    return train_step


def state_memory(shapes: TrainState) -> dict[str, float]:
    """Bytes that state and gradients take on each device, by part; `shapes` of `state_shapes`."""
    return {
        PARAMETERS: _on_device(shapes.params),
        GRADIENTS: _on_device(shapes.params),
        OPTIMIZER: _on_device(shapes.opt_state),
    }


def _on_device(tree: Any) -> float:
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def memory_estimate(
    task: Task, shapes: TrainState, batch: dict[str, jax.Array], mesh: Mesh, held: int = 1
) -> dict[str, float]:
    """Bytes that a step needs on each device, estimated without compiling.

    Args:
        task: whose loss is differentiated.
        shapes: as `state_shapes` gives.
        batch: one global batch.
        mesh: devices.
        held: batches that are on the devices at a time.

    Returns:
        Bytes by part. "saved for backward" counts what the loss keeps for its gradient, split over
        the data axis; the compiler may do with less or, for temporaries, need more.
    """

    def residuals(params: Params, batch: dict[str, jax.Array]) -> Any:
        rng = jax.random.key(0)
        return jax.vjp(lambda p: task.loss(p, batch, rng, True)[0], params)[1]

    jaxpr = jax.make_jaxpr(residuals)(shapes.params, batch).jaxpr
    given = set(jaxpr.invars)
    outvars = {var for var in jaxpr.outvars if isinstance(var, Var)}
    saved = [var.aval for var in outvars - given]
    saved_bytes = sum(aval.size * aval.dtype.itemsize for aval in saved)  # pyright: ignore[reportAttributeAccessIssue]
    return state_memory(shapes) | {
        BATCH: held * _on_device(batch),
        SAVED: saved_bytes / mesh.shape[DATA],
    }


def check_memory(parts: dict[str, float], available: float | None) -> str:
    """Describes a memory estimate, before anything is compiled.

    Args:
        parts: of `memory_estimate`, or of `state_memory` alone.
        available: bytes of a device, None if it does not tell (`sharding.device_memory`).

    Returns:
        A line for the log, with a warning where the whole estimate is more than the device has: the
        compiler may do with less, or not.

    Raises:
        InputError: what is certain to be needed (`CERTAIN`: frozen parameters have no gradients) is
            more than the device has.
    """
    total = sum(parts.values())
    shown = ", ".join(f"{name} {size / 2**20:.0f}" for name, size in parts.items())
    line = f"memory a device, estimated: {total / 2**20:.0f} MiB ({shown})"
    if available is None or total <= available:
        return line
    has = f"a device has {available / 2**20:.0f} MiB"
    if sum(parts.get(name, 0.0) for name in CERTAIN) > available:
        raise InputError(
            f"{line}; {has}",
            "Split parameters: --training.mesh.fsdp-mib 1, or --training.mesh.model; or take more"
            " devices, a smaller model or batch, or --training.prefetch 0.",
        )
    return (
        f"{line}; {has}: if it runs out of memory, take --model.remat, chunks of a contrastive"
        " batch, more devices or a smaller batch"
    )


def _key_data(seed: int) -> jax.Array:
    return jax.random.key_data(jax.random.key(seed))
