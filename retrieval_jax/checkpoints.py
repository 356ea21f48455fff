"""Checkpoints by orbax: all of a training run's state, and parameters alone for inference.

A run folder has `checkpoints/` (the last states: parameters, optimizer, step, rng, place in the
data) and `best/` (parameters only, at the best evaluation; before it, at the best one that an
earlier kept state knows of). Of several processes each writes its parts of arrays, and all must
call the functions of this file; what one could not finish none restores, and what one cannot read
none uses.
"""

import contextlib
import itertools
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grain
import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from retrieval_jax.distributed import broadcast, on_main
from retrieval_jax.errors import InputError
from retrieval_jax.params import Params

T = TypeVar("T")
LAST, BEST = "checkpoints", "best"
# Seconds that the slowest process may need longer than the first to read a checkpoint.
WAIT = 600.0


class Checkpoints:
    """The checkpoints of one run folder; a context manager that waits for pending writes.

    Args:
        folder: run folder.
        keep: number of last states that are kept.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self._folder = folder
        self._last = _manager(folder / LAST, keep)
        self._best = _manager(folder / BEST, None)

    def save(
        self, step: int, state: Any, position: Mapping[str, Any], window: Sequence[Any]
    ) -> None:
        """Saves everything at `step`, writing in the background.

        Args:
            step: number of steps done.
            state: a `train_step.TrainState`.
            position: state of the data iterator after the batch of this step.
            window: metrics of the steps since the last log, fetched.

        Raises:
            InputError: the folder cannot be written (read-only, full).
        """
        if step in self._last.all_steps():
            return
        parts = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params),  # pyright: ignore[reportCallIssue]
            rest=ocp.args.StandardSave(_without_params(state)),  # pyright: ignore[reportCallIssue]
            iterator=ocp.args.JsonSave(dict(position)),  # pyright: ignore[reportCallIssue]
            window=ocp.args.JsonSave(jax.tree.map(float, list(window))),  # pyright: ignore[reportCallIssue]
        )
        with _explained(self._folder):
            # A resumed run trusts the log that the best of earlier steps was written.
            self._best.wait_until_finished()
            self._prune_best()
            self._last.save(step, args=parts)

    def save_best(self, step: int, params: Params) -> None:
        """Saves the parameters as the best so far.

        An earlier one stays while a state from before this step does: a run that is resumed from it
        does not know of this one.
        """
        parts = ocp.args.Composite(params=ocp.args.StandardSave(params))  # pyright: ignore[reportCallIssue]
        with _explained(self._folder):
            self._best.save(step, args=parts)

    def _prune_best(self) -> None:
        """Deletes best parameters that are not the best for any state that is kept."""
        self._last.wait_until_finished()
        first = min(self._last.all_steps(), default=0)
        for step, later in itertools.pairwise(sorted(self._best.all_steps())):
            if later <= first:
                self._best.delete(step)

    def _forget_best_after(self, step: int) -> None:
        """Deletes best parameters of steps that will be done again, maybe with other results."""
        for later in sorted(self._best.all_steps()):
            if later > step:
                self._best.delete(later)

    def restore(self, state: Any, iterator: grain.DatasetIterator) -> tuple[Any, list[Any]] | None:
        """Restores the last state that every process can read, and moves `iterator` to its place.

        One that some process cannot read is moved to `damaged/` with a warning, and the one before
        is taken.

        Args:
            state: a state of the same structure, arrays or shapes with shardings.
            iterator: moved in place.

        Returns:
            The state and the metrics since the last log, or None if nothing was saved yet.

        Raises:
            InputError: there are checkpoints, but none can be read.
            RuntimeError: a process hangs in reading.
        """

        def read(checkpoint: Path) -> Any:
            parts = ocp.args.Composite(
                params=ocp.args.StandardRestore(state.params),  # pyright: ignore[reportCallIssue]
                rest=ocp.args.StandardRestore(_without_params(state)),  # pyright: ignore[reportCallIssue]
                iterator=ocp.args.JsonRestore(),
                window=ocp.args.JsonRestore(),
            )
            with _reader() as reader:
                restored = reader.restore(checkpoint, args=parts)
            iterator.set_state(restored["iterator"])
            return restored

        restored, damaged = _read_first(self._folder, _names(self._folder, LAST), read)
        if restored is not None:
            self._set_aside(damaged)
            self._forget_best_after(int(restored["rest"].step))
            iterator.start_prefetch()
            window = [{n: tuple(v) for n, v in metrics.items()} for metrics in restored["window"]]
            return restored["rest"].replace(params=restored["params"]), window
        if not damaged:
            self._forget_best_after(0)
            return None
        newest = next(iter(damaged))
        raise InputError(
            f"no checkpoint in {self._folder / LAST} can be read; the newest ({newest}):"
            f" {damaged[newest]}",
            "They are damaged, of another model or version, or in a folder that not every process"
            " sees. Give a new --run folder.",
        )

    def _set_aside(self, damaged: Mapping[str, str]) -> None:
        def target(name: str) -> Path:
            return self._folder / "damaged" / Path(name).name

        def move() -> None:
            with _explained(self._folder):
                for name in damaged:
                    target(name).parent.mkdir(exist_ok=True)
                    shutil.rmtree(target(name), ignore_errors=True)
                    (self._folder / name).rename(target(name))

        for name, problem in damaged.items():
            warnings.warn(
                f"checkpoint {Path(name).name} in {self._folder} is damaged and was moved to"
                f" {target(name)}: {problem}",
                stacklevel=4,
            )
        if damaged:
            on_main(move)
            self._last.reload()

    def __enter__(self) -> "Checkpoints":
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Finishes pending writes and closes.

        Raises:
            InputError: what was pending could not be written.
        """
        with _explained(self._folder):
            self._best.wait_until_finished()
            self._prune_best()
            self._last.close()
            self._best.close()


def restore_params(folder: Path) -> Params:
    """Restores the parameters of a run folder: the best ones, else the last that are intact.

    They go to the first device of this process, whatever devices the run was trained on. Several
    processes take the same.

    Args:
        folder: run folder.

    Raises:
        InputError: the folder has no checkpoint, or none that can be read.
        RuntimeError: a process hangs in reading.
    """
    sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])

    def read(checkpoint: Path) -> Params:
        with _reader() as reader:
            metadata: Any = reader.metadata(checkpoint).item_metadata
            target = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
                metadata["params"].tree,
            )
            parts = ocp.args.Composite(params=ocp.args.StandardRestore(target))  # pyright: ignore[reportCallIssue]
            return reader.restore(checkpoint, args=parts)["params"]

    params, damaged = _read_first(folder, _names(folder, BEST) + _names(folder, LAST), read)
    for name, problem in damaged.items():
        warnings.warn(
            f"{folder / name} is damaged, another checkpoint is tried, which may not be the best:"
            f" {problem}",
            stacklevel=2,
        )
    if params is not None:
        return params
    if damaged:
        raise InputError(
            f"no checkpoint in {folder} can be read: {list(damaged.values())[-1]}",
            "They are damaged, or of another version. Train again.",
        )
    raise InputError(
        f"{folder} holds no checkpoint", "Training has not saved yet, or was stopped before it did."
    )


def _names(folder: Path, kind: str) -> list[str]:
    """Finished checkpoints of a kind, the newest first, relative to their run folder."""
    paths = [path for path in (folder / kind).glob("*") if path.name.isdigit()]
    return [f"{kind}/{step}" for step in sorted((int(path.name) for path in paths), reverse=True)]


def _read_first(
    folder: Path, names: Sequence[str], read: Callable[[Path], T]
) -> tuple[T | None, dict[str, str]]:
    """Reads the first of some checkpoints that every process can read.

    Args:
        folder: run folder.
        names: of checkpoints in it, in the order in which they are tried; those of process 0 count.
        read: reads this process's part of one; waits for no other process.

    Returns:
        What `read` gave, None without any; and what is wrong with those before it, by name.

    Raises:
        RuntimeError: a process hangs in reading.
    """
    names, agree = broadcast(names), _ProblemAgreement(WAIT)
    problems: dict[str, str] = {}
    for name in names:
        restored = problem = None
        try:
            restored = read(folder.absolute() / name)
        except Exception as error:  # what is broken decides which library's exception comes
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        problem = agree(problem)
        if problem is None:
            return restored, problems
        problems[name] = problem
    return None, problems


class _ProblemAgreement:
    """What went wrong on one of the processes, in work that each does alone, told to all.

    Made and called by all of them.

    Args:
        seconds: that the slowest may need longer for the work than the first.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # JAX's own barriers with an end are not public. None of them twice has the same name.
        self._await_others = ocp.multihost.get_barrier_sync_fn()
        self._name, self._calls = broadcast(uuid.uuid4().hex), itertools.count()

    def __call__(self, problem: str | None) -> str | None:
        """Takes the problem of this process, if it has one.

        Returns:
            The problem of the first process that has one, with its number; None if none has.

        Raises:
            RuntimeError: a process does not come in time.
        """
        if jax.process_count() == 1:
            return problem
        own = f"process {jax.process_index()} of {jax.process_count()}"
        try:
            # What follows would wait without end.
            self._await_others(
                key=f"{self._name}/{next(self._calls)}", timeout_ms=round(self._seconds * 1000)
            )
        except jax.errors.JaxRuntimeError as error:
            raise RuntimeError(
                f"{own} waited {self._seconds:.0f} s in vain for the others, of which one hangs"
                " or has ended: see its log, and the storage that it reads"
            ) from error
        has_problem: Any = multihost_utils.process_allgather(np.array([problem is not None]))
        if not np.any(has_problem):
            return None
        return broadcast(f"{own}: {problem}", source=int(np.argmax(has_problem)))


def _without_params(state: Any) -> Any:
    return state.replace(params={})


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Says which folder could not be written, whatever the storage library raises."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"a checkpoint could not be written in {folder}: {str(error)[:500]}",
            "Is the disk full, the folder read-only, or another process gone? Earlier checkpoints"
            " are intact; once the cause is removed, the same command goes on from the last.",
        ) from error


def _handlers() -> dict[str, Any]:
    """How each part is kept; named beforehand, so that it can be looked at before it is restored.

    The place in the data is one for all processes, however many (grain's own handler has a file for
    each, and restores them to as many); its file is grain's of the only process.
    """
    return {
        "params": ocp.StandardCheckpointHandler(),
        "rest": ocp.StandardCheckpointHandler(),
        "iterator": ocp.JsonCheckpointHandler("process_0-of-1.json"),
        "window": ocp.JsonCheckpointHandler(),
    }


def _manager(path: Path, keep: int | None) -> ocp.CheckpointManager:
    options = ocp.CheckpointManagerOptions(max_to_keep=keep, create=True)
    return ocp.CheckpointManager(path.absolute(), options=options, item_handlers=_handlers())


def _reader() -> ocp.Checkpointer:
    """Reads on this process alone.

    A manager waits after it has read until all have: for ever, where one could not.
    """
    own = jax.process_index()
    options = ocp.options.MultiprocessingOptions(primary_host=own, active_processes={own})
    handler = ocp.CompositeCheckpointHandler(**_handlers())
    return ocp.Checkpointer(handler, multiprocessing_options=options)
