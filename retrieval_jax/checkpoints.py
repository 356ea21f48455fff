"""Checkpoints by orbax: all of a training run's state, and parameters alone for inference.

A run folder has `checkpoints/` (the last states: parameters, optimizer, step, rng, data iterator)
and `best/` (parameters only, at the best evaluation). Of several processes each writes its parts of
arrays, and all must call the functions of this file; what one could not finish none restores.
"""

import contextlib
import dataclasses
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grain
import jax
import orbax.checkpoint as ocp
from etils import epath

from retrieval_jax.distributed import all_agree, is_main, on_main
from retrieval_jax.errors import InputError
from retrieval_jax.params import Params


class Checkpoints:
    """The checkpoints of one run folder; a context manager that waits for pending writes.

    Args:
        folder: run folder.
        keep: number of last states that are kept.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self._folder = folder
        self._last = _manager(folder / "checkpoints", keep)
        self._best = _manager(folder / "best", 1)

    def save(
        self, step: int, state: Any, iterator: grain.DatasetIterator, window: Sequence[Any]
    ) -> None:
        """Saves everything at `step`, writing in the background.

        Args:
            step: number of steps done.
            state: a `train_step.TrainState`.
            iterator: the data iterator, standing after the batch of this step.
            window: metrics of the steps since the last log, fetched.

        Raises:
            InputError: the folder cannot be written (read-only, full).
        """
        if step in self._last.all_steps():
            return
        parts = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params),  # pyright: ignore[reportCallIssue]
            rest=ocp.args.StandardSave(_without_params(state)),  # pyright: ignore[reportCallIssue]
            iterator=_SaveIterator(iterator),
            window=ocp.args.JsonSave(jax.tree.map(float, list(window))),  # pyright: ignore[reportCallIssue]
        )
        with _explained(self._folder):
            # A resumed run trusts the log that the best of earlier steps was written.
            self._best.wait_until_finished()
            self._last.save(step, args=parts)

    def save_best(self, step: int, params: Params) -> None:
        """Saves the parameters as the best so far, replacing the earlier best.

        A step saved before is left alone: a resumed run comes to it again with the same values.
        """
        parts = ocp.args.Composite(params=ocp.args.StandardSave(params))  # pyright: ignore[reportCallIssue]
        if step not in self._best.all_steps():
            with _explained(self._folder):
                self._best.save(step, args=parts)

    def restore(self, state: Any, iterator: grain.DatasetIterator) -> tuple[Any, list[Any]] | None:
        """Restores the last intact state and moves `iterator` to where it stood.

        A damaged checkpoint is moved to `damaged/` with a warning, and the one before is taken.

        Args:
            state: a state of the same structure, arrays or shapes with shardings.
            iterator: moved in place.

        Returns:
            The state and the metrics since the last log, or None if nothing was saved yet.

        Raises:
            InputError: there are checkpoints, but none can be read.
        """
        damaged: dict[int, Exception] = {}
        for step in sorted(self._last.all_steps(), reverse=True):
            parts = ocp.args.Composite(
                params=ocp.args.StandardRestore(state.params),  # pyright: ignore[reportCallIssue]
                rest=ocp.args.StandardRestore(_without_params(state)),  # pyright: ignore[reportCallIssue]
                iterator=_RestoreIterator(iterator),
                window=ocp.args.JsonRestore(),
            )
            restored: Any = None
            error: Exception = ValueError("another process cannot read it")
            try:
                restored = self._last.restore(step, args=parts)
            except Exception as raised:  # what is broken decides which library's exception comes
                error = raised
            if not all_agree(restored is not None):
                damaged[step] = error
                continue
            self._set_aside(damaged)
            window = [{n: tuple(v) for n, v in metrics.items()} for metrics in restored["window"]]
            return restored["rest"].replace(params=restored["params"]), window
        if not damaged:
            return None
        newest = max(damaged)
        raise InputError(
            f"no checkpoint in {self._folder / 'checkpoints'} can be read; the newest ({newest}):"
            f" {str(damaged[newest])[:500]}",
            "They are damaged, or of another model or version. Give a new --run folder.",
        ) from damaged[newest]

    def _set_aside(self, damaged: Mapping[int, Exception]) -> None:
        for step, error in damaged.items():
            target = self._folder / "damaged" / str(step)
            warnings.warn(
                f"checkpoint {step} in {self._folder} is damaged and was moved to {target}:"
                f" {type(error).__name__}: {str(error)[:200]}",
                stacklevel=4,
            )

        def move() -> None:
            for step in damaged:
                target = self._folder / "damaged" / str(step)
                target.parent.mkdir(exist_ok=True)
                shutil.rmtree(target, ignore_errors=True)
                (self._folder / "checkpoints" / str(step)).rename(target)

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
            self._last.close()
            self._best.close()


def restore_params(folder: Path) -> Params:
    """Restores the parameters of a run folder: the best ones, else the last that are intact.

    They go to the first device of this process, whatever devices the run was trained on.

    Args:
        folder: run folder.

    Raises:
        InputError: the folder has no checkpoint, or none that can be read.
    """
    sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    damaged: Exception | None = None
    for name in ("best", "checkpoints"):
        if not (folder / name).is_dir():
            continue
        with _manager(folder / name, None) as manager:
            for step in sorted(manager.all_steps(), reverse=True):
                try:
                    tree = manager.item_metadata(step)["params"].tree
                    target = jax.tree.map(
                        lambda leaf: jax.ShapeDtypeStruct(
                            leaf.shape, leaf.dtype, sharding=sharding
                        ),
                        tree,
                    )
                    parts = ocp.args.Composite(params=ocp.args.StandardRestore(target))  # pyright: ignore[reportCallIssue]
                    return manager.restore(step, args=parts)["params"]
                except Exception as error:  # what is broken decides which exception comes
                    damaged = error
                    warnings.warn(
                        f"{folder / name / str(step)} is damaged, an older checkpoint is tried:"
                        f" {type(error).__name__}: {str(error)[:200]}",
                        stacklevel=2,
                    )
    if damaged is not None:
        raise InputError(
            f"no checkpoint in {folder} can be read: {str(damaged)[:500]}",
            "They are damaged, or of another version. Train again.",
        ) from damaged
    raise InputError(
        f"{folder} holds no checkpoint", "Training has not saved yet, or was stopped before it did."
    )


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


class _IteratorHandler(ocp.CheckpointHandler):
    """The state of an iterator over global batches: one for all processes, however many.

    (grain's own handler has a file for each process, and restores them to as many.)
    """

    FILE = "process_0-of-1.json"  # grain's name of the only file of one process

    def save(self, directory: epath.Path, args: "_SaveIterator") -> None:
        if is_main():
            (directory / self.FILE).write_text(json.dumps(args.item.get_state()))

    def restore(self, directory: epath.Path, args: "_RestoreIterator") -> grain.DatasetIterator:
        args.item.set_state(json.loads((directory / self.FILE).read_text()))
        args.item.start_prefetch()
        return args.item


@ocp.args.register_with_handler(_IteratorHandler, for_save=True)
@dataclasses.dataclass
class _SaveIterator(ocp.args.CheckpointArgs):
    item: grain.DatasetIterator


@ocp.args.register_with_handler(_IteratorHandler, for_restore=True)
@dataclasses.dataclass
class _RestoreIterator(ocp.args.CheckpointArgs):
    item: grain.DatasetIterator


def _manager(path: Path, keep: int | None) -> ocp.CheckpointManager:
    options = ocp.CheckpointManagerOptions(max_to_keep=keep, create=keep is not None)
    # Named beforehand, so that what was saved can be looked at before it is restored.
    handlers = {
        "params": ocp.StandardCheckpointHandler(),
        "rest": ocp.StandardCheckpointHandler(),
        "iterator": _IteratorHandler(),
        "window": ocp.JsonCheckpointHandler(),
    }
    return ocp.CheckpointManager(path.absolute(), options=options, item_handlers=handlers)
