"""What a task gives the training loop, the state that training changes, and one step of it."""

from collections.abc import Callable
from typing import Protocol

import grain
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from retrieval_jax import optimizers
from retrieval_jax.errors import InputError
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.params import Params, flatten, unflatten
from retrieval_jax.sharding import Rules, shardings

# Name -> (sum of values, count): sums of both merge to the right mean across batches and devices.
Metrics = dict[str, tuple[jax.Array, jax.Array]]


class Task(Protocol):
    """What a paper gives the loop.

    Attributes:
        rules: placement of parameters on the mesh (`retrieval_jax.sharding`).
    """

    rules: Rules

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
        """Endless training batches of this process."""
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
    task: Task, optimizer: optax.GradientTransformation, seed: int, mesh: Mesh
) -> TrainState:
    """Makes the first state, each array created where its rule places it."""
    shapes = state_shapes(task, optimizer, seed, mesh)
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

    def init_fresh(rng: jax.Array) -> dict[str, jax.Array]:
        params = flatten(task.init(rng))
        return {path: params[path] for path in fresh}

    params = jax.jit(init_fresh, out_shardings=fresh)(jax.random.key(seed)) if fresh else {}
    for path, value in warm.items():
        # The copy is the state's own: donated steps may write over it.
        copy = np.array(value, known[path].dtype)
        params[path] = jax.device_put(copy, known[path].sharding)
    nested = unflatten(params)
    opt_shardings = jax.tree.map(lambda leaf: leaf.sharding, shapes.opt_state)
    return TrainState(
        step=jax.device_put(jnp.int32(0), shapes.step.sharding),
        params=nested,
        opt_state=jax.jit(optimizer.init, out_shardings=opt_shardings)(nested),
        rng=jax.device_put(_key_data(seed), shapes.rng.sharding),
    )


def state_shapes(
    task: Task, optimizer: optax.GradientTransformation, seed: int, mesh: Mesh
) -> TrainState:
    """Shapes, dtypes and shardings of the state, nothing allocated."""

    def init(rng: jax.Array) -> TrainState:
        params = task.init(rng)
        return TrainState(jnp.int32(0), params, optimizer.init(params), _key_data(seed))

    shapes = jax.eval_shape(init, jax.random.key(seed))
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        shapes,
        shardings(shapes, mesh, task.rules),
    )


def make_train_step(
    task: Task,
    optimizer: optax.GradientTransformation,
    config: OptimizerConfig,
    shapes: TrainState,
    mesh: Mesh,
) -> Callable[[TrainState, dict[str, jax.Array]], tuple[TrainState, Metrics]]:
    """Jits `(state, batch) -> (state, metrics)`; the state is donated, the metrics replicated."""

    def train_step(state: TrainState, batch: dict[str, jax.Array]) -> tuple[TrainState, Metrics]:
        rng = jax.random.fold_in(jax.random.wrap_key_data(state.rng), state.step)
        grad_fn = jax.value_and_grad(task.loss, has_aux=True)
        (loss, metrics), grads = grad_fn(state.params, batch, rng, True)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        # Without the frozen ones, whose gradients are then never computed.
        trained = jax.tree.map(
            lambda grad, frozen: None if frozen else grad,
            grads,
            optimizers.match_paths(grads, config.frozen),
        )
        one = jnp.float32(1)
        metrics = metrics | {"loss": (loss, one), "grad_norm": (optax.tree.norm(trained), one)}
        state = state.replace(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            opt_state=opt_state,
        )
        return state, metrics

    state_shardings = jax.tree.map(lambda leaf: leaf.sharding, shapes)
    replicated = NamedSharding(mesh, PartitionSpec())
    return jax.jit(train_step, donate_argnums=0, out_shardings=(state_shardings, replicated))


def _key_data(seed: int) -> jax.Array:
    return jax.random.key_data(jax.random.key(seed))
