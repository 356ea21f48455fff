"""The one training loop.

A task binds a paper's model, loss and data; the loop knows nothing else of a paper. At each step:

1. take a batch, which was put on the devices `prefetch` steps before, and run the jitted step
   (state donated, metrics left on the device);
2. every `log_every` steps: log the means of the metrics since the last log;
3. every `evaluate_every` steps: evaluate on dev, keep the best parameters;
4. every `checkpoint_every` steps, and when told to stop: save state, place in the data after
   the last step's batch, metrics since the last log.

2 to 4 are also done after the last step, and stop a run whose metrics are no longer finite.
Resuming restores what 4 saved and the best evaluation from the log, and goes on at 1, so that an
interrupted run and an uninterrupted one are the same to the bit.
"""

import contextlib
import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import grain
import jax
import numpy as np
from jax.sharding import Mesh

from retrieval_jax import optimizers
from retrieval_jax.checkpoints import Checkpoints
from retrieval_jax.config import added_later
from retrieval_jax.distributed import (
    StopAgreement,
    broadcast,
    is_main,
    local_copy,
    spans_processes,
)
from retrieval_jax.errors import InputError, check_fields
from retrieval_jax.interruption import InterruptedRunError, StopRequest
from retrieval_jax.logs import MetricWriter, TrainingProgress, read_metrics
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.params import Params
from retrieval_jax.prefetch import taken_ahead
from retrieval_jax.runs import RunFolder
from retrieval_jax.sharding import (
    MeshConfig,
    check_divisible,
    device_memory,
    make_mesh,
    shard_batch,
)
from retrieval_jax.train_step import (
    Metrics,
    Task,
    check_memory,
    create_state,
    make_train_step,
    memory_estimate,
    state_memory,
    state_shapes,
)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How to train.

    Attributes:
        steps: optimizer steps.
        batch_size: examples a step, over all devices and hosts.
        accumulate: parts in which a step's batch is computed one after the other, for memory; only
            for losses that are means over examples.
        prefetch: steps whose batches are put on the devices ahead of the one that computes, so that
            none waits for a transfer; 0 = none.
        seed: of initialisation, order of the data, dropout.
        log_every: steps between two lines of metrics.
        evaluate_every: steps between two evaluations on dev; the last step always evaluates.
        checkpoint_every: steps between two checkpoints; the last step always saves.
        keep: number of last checkpoints that are kept.
        best_measure: measure of `Task.evaluate`, higher is better, that chooses the parameters.
        patience: evaluations without a better one before training stops; None = never.
        tensorboard: also write TensorBoard events.
        profile: write a trace of the device for steps 11 to 15 of this call into `profile/`.
        mesh: devices.
        optimizer: AdamW and its schedule.
    """

    steps: int = 1000
    batch_size: int = 64
    accumulate: int = 1
    prefetch: int = added_later(2)
    seed: int = 0
    log_every: int = 20
    evaluate_every: int = 200
    checkpoint_every: int = 200
    keep: int = 2
    best_measure: str = "RR"
    patience: int | None = None
    tensorboard: bool = False
    profile: bool = False
    mesh: MeshConfig = MeshConfig()
    optimizer: OptimizerConfig = OptimizerConfig()

    def __post_init__(self) -> None:
        """Refuses counts below 1, a `prefetch` or a seed below 0.

        Raises:
            InputError: the field and its value.
        """
        counts = ("steps", "batch_size", "accumulate", "log_every", "evaluate_every")
        counts = (*counts, "checkpoint_every", "keep", "patience")
        check_fields(self, counts, "training", at_least=1)
        check_fields(self, ("prefetch", "seed"), "training", at_least=0)


@dataclasses.dataclass(frozen=True)
class Trained:
    """What training gives.

    Attributes:
        params: after the last step, on the mesh.
        step: steps done; fewer than asked for if it stopped early.
        best_step: step of the best evaluation, None without any.
        best: its measures.
        examples_per_second: median over the logged intervals, None if this call did no step.
    """

    params: Params
    step: int
    best_step: int | None
    best: dict[str, float]
    examples_per_second: float | None


class TrainingDivergedError(InputError):
    """The loss or the gradient is no longer finite."""


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
        InputError: a batch that the mesh cannot split, a state that cannot fit its devices,
            optimizer patterns that match nothing, an unknown `best_measure`.
        TrainingDivergedError: the loss or gradient became NaN or infinite; nothing is saved after.
        InterruptedRunError: SIGTERM or SIGUSR2 came, be it after the last step; the state is saved.
    """
    mesh = make_mesh(config.mesh) if mesh is None else mesh
    has_others = spans_processes(mesh)
    writes = run is not None and (not has_others or is_main())
    # What each process has made: its part of a batch, or all of it.
    is_whole = has_others and not getattr(task, "batches_by_process", False)
    part_size = _part_size(task, config)
    check_divisible(part_size, mesh)
    optimizer = optimizers.make_optimizer(config.optimizer, config.steps)
    schedule = optimizers.make_schedule(config.optimizer, config.steps)
    shapes = state_shapes(task, optimizer, config.seed, mesh, config.mesh.fsdp_mib)
    optimizers.check_patterns(config.optimizer, shapes.params)
    check_memory(state_memory(shapes), device_memory(mesh))
    train_step = make_train_step(task, optimizer, config.optimizer, shapes, mesh)
    iterator = task.batches(part_size, config.seed)

    with contextlib.ExitStack() as stack:
        saved = writer = restored = None
        if run is not None:
            saved = stack.enter_context(Checkpoints(run.path, config.keep))
            restored = saved.restore(shapes, iterator)
            if writes:
                writer = stack.enter_context(MetricWriter(run.path, config.tensorboard))
        state, window = restored or (create_state(task, optimizer, config.seed, shapes), [])
        step = first_step = int(state.step)
        best = _Best(config.best_measure)
        if run is not None:
            best = best.recall(read_metrics(run.path), step)
        if has_others:
            best = _Best(**broadcast(dataclasses.asdict(best)))
            show_progress = show_progress and is_main()
        placed = _placed_batches(iterator, config, mesh, is_whole)
        ahead = taken_ahead(placed, config.prefetch)
        progress = stack.enter_context(TrainingProgress(config.steps, step, show_progress))
        request, agree = stack.enter_context(StopRequest()), StopAgreement(mesh)
        trace = stack.enter_context(contextlib.ExitStack())

        rates: list[float] = []
        seconds, timed_steps, started = 0.0, 0, time.perf_counter()
        while step < config.steps and not best.out_of_patience(config.patience):
            batches, position = next(ahead)
            if step == first_step:
                # The one that is used, and while the next is put there the one before it.
                held = len(batches) * (2 + config.prefetch)
                estimate = memory_estimate(task, shapes, batches[0], mesh, held)
                progress.say(check_memory(estimate, device_memory(mesh)))
            if config.profile and writes and run is not None and step == first_step + 10:
                # The devices lag behind: the trace would hold the work of other steps.
                jax.block_until_ready(state)
                trace.enter_context(jax.profiler.trace(run.path / "profile"))
            if step == first_step + 15:
                jax.block_until_ready(state)
                trace.close()
            state, metrics = train_step(state, batches)
            stop = agree(request.received)
            # Device scalars of the steps since the last log; fetching them is the only wait.
            window.append(metrics)
            step, timed_steps = step + 1, timed_steps + 1
            last = step == config.steps
            logs = last or step % config.log_every == 0
            evaluates = last or step % config.evaluate_every == 0
            saves = last or step % config.checkpoint_every == 0 or stop is not None
            if not (logs or evaluates or saves):
                continue

            window = jax.device_get(window)
            seconds += time.perf_counter() - started
            _check_finite(window, step, config.optimizer.learning_rate)
            measures = _evaluate(task, state.params, mesh) if evaluates else {}
            if measures:
                best = best.compare(step, measures)
            last = last or best.out_of_patience(config.patience)
            if logs or last:
                values = _means(window)
                rates.append(timed_steps * config.batch_size / seconds)
                values["learning_rate"] = float(np.asarray(schedule(step - 1)))
                values["examples_per_second"] = rates[-1]
                window, seconds, timed_steps = [], 0.0, 0
                progress.update(step, values)
                if writer is not None:
                    writer.write(step, "train", values)
            if measures:
                progress.show(step, measures)
                if writer is not None:
                    writer.write(step, "dev", measures)
                if saved is not None and best.step == step:
                    saved.save_best(step, state.params)
            if saved is not None and (saves or last):
                saved.save(step, state, position, window)
            if stop is not None and not last:
                raise InterruptedRunError(stop, step)
            started = time.perf_counter()
        # What comes after training is not started either.
        stop = agree.at_end(request.received)
        if stop is not None:
            raise InterruptedRunError(stop, step)
    return Trained(
        params=state.params,
        step=step,
        best_step=best.step,
        best=best.measures,
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
        if not math.isfinite(measures[self.measure]):
            raise TrainingDivergedError(
                f"{self.measure} on dev is {measures[self.measure]} at step {step}",
                "Lower --training.optimizer.learning-rate; checkpoints from before are intact.",
            )
        if self.step is None or measures[self.measure] > self.measures[self.measure]:
            return _Best(self.measure, step, measures)
        return dataclasses.replace(self, since=self.since + 1)

    def recall(self, history: list[dict[str, Any]], step: int) -> "_Best":
        """Takes in the logged evaluations up to `step`, as an uninterrupted run would have."""
        best = self
        for entry in history:
            if entry["kind"] == "dev" and entry["step"] <= step:
                # What was no number is null there.
                measures = {
                    name: math.nan if value is None else value
                    for name, value in entry.items()
                    if name not in ("step", "kind", "time")
                }
                best = best.compare(entry["step"], measures)
        return best

    def out_of_patience(self, patience: int | None) -> bool:
        """Whether training stops here."""
        return patience is not None and self.since >= patience


def _part_size(task: Task, config: TrainingConfig) -> int:
    """Examples that are computed at a time."""
    if config.accumulate > 1 and task.inseparable is not None:
        raise InputError(
            f"accumulate={config.accumulate}, but this loss has no parts: {task.inseparable}",
            "Set --training.accumulate 1; for memory use remat, more devices or a smaller batch.",
        )
    if config.batch_size % config.accumulate:
        raise InputError(
            f"a batch of {config.batch_size} has no {config.accumulate} equal parts",
            "Make --training.batch-size a multiple of --training.accumulate.",
        )
    return config.batch_size // config.accumulate


def _placed_batches(
    iterator: grain.DatasetIterator, config: TrainingConfig, mesh: Mesh, is_whole: bool
) -> Iterator[tuple[list[dict[str, jax.Array]], dict[str, Any]]]:
    """Batches of each step on the devices, and the state of `iterator` after them."""
    while True:
        parts = itertools.islice(iterator, config.accumulate)
        batches = [shard_batch(part, mesh, is_whole) for part in parts]
        if len(batches) < config.accumulate:
            raise InputError("the batches came to an end", "`Task.batches` must be endless.")
        yield batches, iterator.get_state()


def _evaluate(task: Task, params: Params, mesh: Mesh) -> dict[str, float]:
    """Measures of the task; of several processes, all take those of the first."""
    if not spans_processes(mesh):
        return task.evaluate(params)
    return broadcast(task.evaluate(local_copy(params, mesh)))


def _means(window: Sequence[Metrics]) -> dict[str, float]:
    """Means by count over the steps of a log interval."""
    totals = jax.tree.map(lambda *leaves: sum(map(float, leaves)), *window)
    return {name: value / max(count, 1e-9) for name, (value, count) in totals.items()}


def _check_finite(window: Sequence[Metrics], step: int, learning_rate: float) -> None:
    for name in ("loss", "grad_norm"):
        broken = [i for i, metrics in enumerate(window) if not np.isfinite(metrics[name][0])]
        if broken:
            raise TrainingDivergedError(
                f"{name} is no longer finite at step {step - len(window) + broken[0] + 1} (peak"
                f" learning rate {learning_rate:.2g})",
                "Lower --training.optimizer.learning-rate or raise its warmup; checkpoints from"
                " before are intact.",
            )
