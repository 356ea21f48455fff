"""Trains the toy task in a process of its own: `python -m tests.end_to_end.resume_worker FOLDER`.

Prints "ready" when training is about to start.
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np

from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.runs import create_run
from retrieval_jax.sharding import MeshConfig
from retrieval_jax.training import TrainingConfig, train
from tests.retrieval_jax.toy import ToyTask

CONFIG = TrainingConfig(
    steps=300,
    batch_size=16,
    log_every=7,
    evaluate_every=10,
    checkpoint_every=5,
    mesh=MeshConfig(data=2),
    optimizer=OptimizerConfig(learning_rate=1e-2),
)


class SlowTask(ToyTask):
    """Leaves time to be killed in each part of the loop."""

    def batches(self, batch_size, seed):
        iterator = super().batches(batch_size, seed)
        print("ready", flush=True)
        return iterator

    def evaluate(self, params):
        time.sleep(0.03)
        return super().evaluate(params)


@one_screen_errors
def main() -> None:
    """Trains, and saves the last parameters as NumPy arrays."""
    quiet_libraries()
    folder = Path(sys.argv[1])
    result = train(SlowTask(), CONFIG, create_run(folder, "toy", CONFIG, "x"), show_progress=False)
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(result.params))
    np.savez(folder / "params.npz", **{jax.tree_util.keystr(p): leaf for p, leaf in leaves})


if __name__ == "__main__":
    main()
