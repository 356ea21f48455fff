"""An optimizer step of graphs and ranker on eight devices is that of one.

Of the encoders, see tests/docent_jax/test_task.py and tests/mathsim_jax/test_fine_tuning.py.
"""

import dataclasses

import jax
import numpy as np
import pytest

from retrieval_jax.optimizers import OptimizerConfig, make_optimizer
from retrieval_jax.sharding import DATA, MeshConfig, make_mesh, shard_batch
from retrieval_jax.train_step import create_state, make_train_step, state_shapes
from tests.gcl_jax.test_task import task_of, with_chunks
from tests.ltr_jax.test_task import make_task

# A large eps, so that a gradient of rounding errors makes no step of full length.
CONFIG = OptimizerConfig(learning_rate=0.05, warmup=0.0, eps=1e-3)
GRAPHS = dataclasses.replace(
    with_chunks(4), model=dataclasses.replace(with_chunks(4).model, layout="opt")
)
TASKS = {
    "graphs": lambda lanes: task_of(GRAPHS, lanes),
    "ranker": lambda _: make_task(),
}


@pytest.mark.parametrize("name", TASKS)
def test_loss_gradient_and_parameters_after_a_step(name):
    batch = next(TASKS[name](8).batches(16, seed=0))

    def step(devices):
        mesh = make_mesh(MeshConfig(), jax.devices()[:devices])
        task = TASKS[name](mesh.shape[DATA])
        optimizer = make_optimizer(CONFIG, 10)
        # Small parameters are split over the devices as well.
        shapes = state_shapes(task, optimizer, 0, mesh, 0.0 if devices > 1 else None)
        state = create_state(task, optimizer, 0, shapes)
        train_step = make_train_step(task, optimizer, CONFIG, shapes, mesh)
        state, metrics = train_step(state, [shard_batch(batch, mesh)])
        return metrics["loss"][0], metrics["grad_norm"][0], state.params

    one, eight = step(1), step(8)
    for (path, ours), theirs in zip(
        jax.tree_util.tree_leaves_with_path(eight), jax.tree.leaves(one), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5, err_msg=str(path))
