"""The one training loop.

A task binds a paper's model, loss and data; the loop knows nothing else of a paper. At each step:

1. take a batch, run the jitted step (state donated, metrics added up on the device);
2. every `log_every` steps, and before 3 and 4: fetch the metrics, stop if they are not finite, log;
3. every `evaluate_every` steps and after the last: evaluate on dev, keep the best parameters;
4. every `checkpoint_every` steps and after the last: save state and data iterator.

Resuming restores the state, moves the data iterator to where it stood, and goes on at 1.
"""

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import grain
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from retrieval_jax import optimizers
from retrieval_jax.checkpoints import Checkpoints
from retrieval_jax.errors import InputError
from retrieval_jax.logs import MetricWriter, TrainingProgress, read_metrics
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.params import Params, flatten, unflatten
from retrieval_jax.runs import RunFolder
from retrieval_jax.sharding import (
    MeshConfig,
    Rules,
    check_divisible,
    make_mesh,
    shard_batch,
    shardings,
)

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


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How to train.

    Attributes:
        steps: optimizer steps.
        batch_size: examples a step, over all devices and hosts.
        seed: of initialisation, order of the data, dropout.
        log_every: steps between two lines of metrics.
        evaluate_every: steps between two evaluations on dev; the last step always evaluates.
        checkpoint_every: steps between two checkpoints; the last step always saves.
        keep: number of last checkpoints that are kept.
        best_measure: measure of `Task.evaluate`, higher is better, that chooses the parameters.
        patience: evaluations without a better one before training stops; None = never.
        tensorboard: also write TensorBoard events.
        mesh: devices.
        optimizer: AdamW and its schedule.
    """

    steps: int = 1000
    batch_size: int = 64
    seed: int = 0
    log_every: int = 20
    evaluate_every: int = 200
    checkpoint_every: int = 200
    keep: int = 2
    best_measure: str = "RR"
    patience: int | None = None
    tensorboard: bool = False
    mesh: MeshConfig = MeshConfig()
    optimizer: OptimizerConfig = OptimizerConfig()


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


@dataclasses.dataclass(frozen=True)
class Trained:
    """What training gives.

    Attributes:
        params: after the last step, on the mesh.
        step: steps done; fewer than asked for if it stopped early.
        best_step: step of the best evaluation, None without any.
        best: its measures.
        seconds: wall time of this call's steps, compilation included, evaluation and saving not.
        examples_per_second: median over the logged intervals, None if this call did no step.
    """

    params: Params
    step: int
    best_step: int | None
    best: dict[str, float]
    seconds: float
    examples_per_second: float | None


class TrainingDivergedError(InputError):
    """The loss or the gradient is no longer finite."""


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


def train(
    task: Task,
    config: TrainingConfig,
    run: RunFolder | None = None,
    mesh: Mesh | None = None,
    show_progress: bool = True,
) -> Trained:
    """Trains, or goes on with training, until `config.steps`.

    Args:
        task: what to train.
        config: how.
        run: where logs and checkpoints go, and where an interrupted run is taken up; without it
            nothing is written.
        mesh: devices; made from `config.mesh` by default.
        show_progress: progress bar on a terminal, else a line a log.

    Returns:
        The result; the parameters of the best evaluation are in the run folder
        (`checkpoints.restore_params`).

    Raises:
        InputError: a batch that the mesh cannot split, optimizer patterns that match nothing, an
            unknown `best_measure`.
        TrainingDivergedError: the loss or gradient became NaN or infinite; nothing is saved after.
    """
    mesh = make_mesh(config.mesh) if mesh is None else mesh
    check_divisible(config.batch_size, mesh)
    optimizer = optimizers.make_optimizer(config.optimizer, config.steps)
    schedule = optimizers.make_schedule(config.optimizer, config.steps)
    shapes = state_shapes(task, optimizer, config.seed, mesh)
    optimizers.check_patterns(config.optimizer, shapes.params)
    train_step = make_train_step(task, optimizer, config.optimizer, shapes, mesh)
    iterator = task.batches(config.batch_size, config.seed)

    with contextlib.ExitStack() as stack:
        saved = writer = state = None
        if run is not None:
            saved = stack.enter_context(Checkpoints(run.path, config.keep))
            writer = stack.enter_context(MetricWriter(run.path, config.tensorboard))
            state = saved.restore(shapes, iterator)
        if state is None:
            state = create_state(task, optimizer, config.seed, mesh)
        step = int(state.step)
        best = _Best(config.best_measure)
        if run is not None:
            best = best.recall(read_metrics(run.path), step)
        progress = stack.enter_context(TrainingProgress(config.steps, step, show_progress))

        pending: list[Metrics] = []  # device scalars; fetching them is the loop's only wait
        rates: list[float] = []
        seconds, window_start = 0.0, time.perf_counter()
        while step < config.steps and not best.out_of_patience(config.patience):
            batch = shard_batch(next(iterator), mesh)
            state, metrics = train_step(state, batch)
            pending.append(metrics)
            step += 1
            evaluates = step == config.steps or step % config.evaluate_every == 0
            saves = step == config.steps or step % config.checkpoint_every == 0
            if not (evaluates or saves or step % config.log_every == 0):
                continue

            values = _means(jax.device_get(pending))
            elapsed = time.perf_counter() - window_start
            seconds += elapsed
            rates.append(len(pending) * config.batch_size / elapsed)
            values["learning_rate"] = float(np.asarray(schedule(step - 1)))
            values["examples_per_second"] = rates[-1]
            _check_finite(values, step, len(pending))
            pending = []
            progress.update(step, values)
            if writer is not None:
                writer.write(step, "train", values)
            if evaluates and (measures := task.evaluate(state.params)):
                best = best.compare(step, measures)
                progress.show(step, measures)
                if writer is not None:
                    writer.write(step, "dev", measures)
                if saved is not None and best.step == step:
                    saved.save_best(step, state.params)
            if saved is not None and (saves or best.out_of_patience(config.patience)):
                saved.save(step, state, iterator)
            window_start = time.perf_counter()
    return Trained(
        params=state.params,
        step=step,
        best_step=best.step,
        best=best.measures,
        seconds=seconds,
        examples_per_second=statistics.median(rates) if rates else None,
    )


@dataclasses.dataclass(frozen=True)
class _Best:
    """The best evaluation so far, by `measure`, and how many evaluations came after it."""

    measure: str
    step: int | None = None
    measures: dict[str, float] = dataclasses.field(default_factory=dict)
    since: int = 0

    def compare(self, step: int, measures: dict[str, float]) -> "_Best":
        """Takes in one more evaluation."""
        if self.measure not in measures:
            raise InputError(
                f"best_measure {self.measure!r} is no measure of this task",
                f"Its measures are {', '.join(measures)}.",
            )
        if self.step is None or measures[self.measure] > self.measures[self.measure]:
            return _Best(self.measure, step, measures)
        return dataclasses.replace(self, since=self.since + 1)

    def recall(self, history: list[dict[str, Any]], step: int) -> "_Best":
        """Takes in the logged evaluations up to `step`, as an uninterrupted run would have."""
        best = self
        for entry in history:
            if entry["kind"] == "dev" and entry["step"] <= step:
                measures = {k: v for k, v in entry.items() if k not in ("step", "kind", "time")}
                best = best.compare(entry["step"], measures)
        return best

    def out_of_patience(self, patience: int | None) -> bool:
        """Whether training stops here."""
        return patience is not None and self.since >= patience


def _means(window: Sequence[Metrics]) -> dict[str, float]:
    """Means by count over the steps of a log interval."""
    totals = jax.tree.map(lambda *leaves: float(sum(leaves)), *window)
    return {name: value / max(count, 1e-9) for name, (value, count) in totals.items()}


def _check_finite(values: dict[str, float], step: int, window: int) -> None:
    broken = [name for name in ("loss", "grad_norm") if not math.isfinite(values[name])]
    if broken:
        raise TrainingDivergedError(
            f"{' and '.join(broken)} no longer finite between steps {step - window + 1} and {step}"
            f" (learning rate {values['learning_rate']:.2g})",
            "Lower --training.optimizer.learning-rate or raise its warmup; checkpoints from before"
            " are intact.",
        )


def _key_data(seed: int) -> jax.Array:
    return jax.random.key_data(jax.random.key(seed))
