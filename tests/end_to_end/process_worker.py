"""Trains the toy task as one of several processes, without dropout: each makes its own rows.

`python -m retrieval_jax.distributed ... tests.end_to_end.process_worker FOLDER SECONDS`, SECONDS
an evaluation lasts at least. Process 0 saves the last parameters.
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np

from retrieval_jax.checkpoints import restore_params
from retrieval_jax.distributed import is_main, local_copy
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.runs import create_run
from retrieval_jax.sharding import MeshConfig, make_mesh
from retrieval_jax.training import TrainingConfig, train
from tests.retrieval_jax.toy import ToyTask

CONFIG = TrainingConfig(
    steps=60,
    batch_size=16,
    log_every=7,
    evaluate_every=5,
    checkpoint_every=5,
    mesh=MeshConfig(data=-1, fsdp_mib=0.0),
    optimizer=OptimizerConfig(learning_rate=1e-2),
)


class SlowTask(ToyTask):
    """Leaves time to be stopped."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(dropout=0.0)
        self._seconds = seconds

    def evaluate(self, params):
        """Waits first."""
        time.sleep(self._seconds)
        return super().evaluate(params)


@one_screen_errors
def main() -> None:
    """Trains, and saves the last parameters as NumPy arrays."""
    quiet_libraries()
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    print("training", folder.name)
    run = create_run(folder, "toy", CONFIG, "x")
    result = train(SlowTask(seconds), CONFIG, run)
    params = local_copy(result.params, make_mesh(CONFIG.mesh))
    leaves = jax.tree_util.tree_leaves_with_path(params)
    # Each process can restore what all have written.
    best = SlowTask().evaluate(restore_params(folder))
    assert best["RR"] == result.best["RR"], (best, result.best)
    if is_main():
        np.savez(folder / "params.npz", **{jax.tree_util.keystr(p): leaf for p, leaf in leaves})


if __name__ == "__main__":
    main()
