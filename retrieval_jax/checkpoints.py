"""Checkpoints by orbax: all of a training run's state, and parameters alone for inference.

A run folder has `checkpoints/` (the last states: parameters, optimizer, step, rng, data iterator)
and `best/` (parameters only, at the best evaluation).
"""

from pathlib import Path
from typing import Any

import grain
import jax
import orbax.checkpoint as ocp

from retrieval_jax.errors import InputError
from retrieval_jax.params import Params


class Checkpoints:
    """The checkpoints of one run folder; a context manager that waits for pending writes.

    Args:
        folder: run folder.
        keep: number of last states that are kept.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self._last = _manager(folder / "checkpoints", keep)
        self._best = _manager(folder / "best", 1)

    def save(self, step: int, state: Any, iterator: grain.DatasetIterator) -> None:
        """Saves everything at `step`, writing in the background.

        Args:
            step: number of steps done.
            state: a `training.TrainState`.
            iterator: the data iterator, standing after the batch of this step.
        """
        parts = ocp.args.Composite(
            params=ocp.args.StandardSave(state.params),  # pyright: ignore[reportCallIssue]
            rest=ocp.args.StandardSave(_without_params(state)),  # pyright: ignore[reportCallIssue]
            iterator=grain.checkpoint.CheckpointSave(iterator),  # pyright: ignore[reportCallIssue]
        )
        if step not in self._last.all_steps():
            self._last.save(step, args=parts)

    def save_best(self, step: int, params: Params) -> None:
        """Saves the parameters as the best so far, replacing the earlier best.

        A step saved before is left alone: a resumed run comes to it again with the same values.
        """
        parts = ocp.args.Composite(params=ocp.args.StandardSave(params))  # pyright: ignore[reportCallIssue]
        if step not in self._best.all_steps():
            self._best.save(step, args=parts)

    def restore(self, state: Any, iterator: grain.DatasetIterator) -> Any | None:
        """Restores the last state and moves `iterator` to where it stood.

        Args:
            state: a state of the same structure, arrays or shapes with shardings.
            iterator: moved in place.

        Returns:
            The state, or None if nothing was saved yet.
        """
        step = self._last.latest_step()
        if step is None:
            return None
        parts = ocp.args.Composite(
            params=ocp.args.StandardRestore(state.params),  # pyright: ignore[reportCallIssue]
            rest=ocp.args.StandardRestore(_without_params(state)),  # pyright: ignore[reportCallIssue]
            iterator=grain.checkpoint.CheckpointRestore(iterator),  # pyright: ignore[reportCallIssue]
        )
        restored = self._last.restore(step, args=parts)
        return restored["rest"].replace(params=restored["params"])

    def wait(self) -> None:
        """Waits until what was saved is on disk."""
        self._last.wait_until_finished()
        self._best.wait_until_finished()

    def __enter__(self) -> "Checkpoints":
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Finishes pending writes and closes."""
        self._last.close()
        self._best.close()


def restore_params(folder: Path, sharding: jax.sharding.Sharding | None = None) -> Params:
    """Restores the parameters of a run folder: the best ones, else the last.

    Works on any number of devices, whatever the run was trained on.

    Args:
        folder: run folder.
        sharding: where each array goes; the first device by default.

    Raises:
        InputError: the folder has no checkpoint.
    """
    sharding = sharding or jax.sharding.SingleDeviceSharding(jax.devices()[0])
    for name in ("best", "checkpoints"):
        if not (folder / name).is_dir():
            continue
        with _manager(folder / name, None) as manager:
            step = manager.latest_step()
            if step is None:
                continue
            tree = manager.item_metadata(step)["params"].tree
            target = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree
            )
            parts = ocp.args.Composite(params=ocp.args.StandardRestore(target))
            return manager.restore(step, args=parts)["params"]
    raise InputError(
        f"{folder} holds no checkpoint", "Training has not saved yet, or was stopped before it did."
    )


def _without_params(state: Any) -> Any:
    return state.replace(params={})


def _manager(path: Path, keep: int | None) -> ocp.CheckpointManager:
    options = ocp.CheckpointManagerOptions(max_to_keep=keep, create=keep is not None)
    # Named beforehand, so that what was saved can be looked at before it is restored.
    handlers = {
        "params": ocp.StandardCheckpointHandler(),
        "rest": ocp.StandardCheckpointHandler(),
        "iterator": grain.checkpoint.CheckpointHandler(),
    }
    return ocp.CheckpointManager(path.absolute(), options=options, item_handlers=handlers)
