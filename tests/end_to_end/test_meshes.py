"""An optimizer step of every package's model on eight devices is that of one.

Of DocEnt's, see tests/docent_jax/test_task.py.
"""

import functools

import jax
import numpy as np
import pytest

from mathsim_jax.adaptation import load_encoder, with_mlm_head
from mathsim_jax.config import EncoderConfig
from mathsim_jax.fine_tuning import make_task as make_pair_task
from mathsim_jax.task import MaskedTask
from retrieval_jax.bert_sharding import bert_rules
from retrieval_jax.masking import make_masking
from retrieval_jax.optimizers import OptimizerConfig, make_optimizer
from retrieval_jax.pipeline import tokenize
from retrieval_jax.sharding import DATA, MODEL, MeshConfig, make_mesh, shard_batch
from retrieval_jax.train_step import create_state, make_train_step, state_shapes
from tests.bert_folders import write_tiny_bert
from tests.gcl_jax.test_task import task_of, with_chunks
from tests.ltr_jax.test_task import make_task as make_ranking_task
from tests.mathsim_jax.toy_pairs import FILLERS, SUBJECTS, fine_tuning_config, toy_pairs

# A large eps, so that a gradient of rounding errors makes no step of full length.
CONFIG = OptimizerConfig(learning_rate=0.05, warmup=0.0, eps=1e-3)
ONE, EIGHT, SPLIT = MeshConfig(data=1), MeshConfig(data=8), MeshConfig(data=4, model=2)


def graphs(mesh, _, **model):
    return task_of(with_chunks(4, layout="opt", **model), mesh.shape[DATA])


def ranker(mesh, _, **changes):
    return make_ranking_task(mesh.shape[DATA], **changes)


def pairs(mesh, folder, **changes):
    config = fine_tuning_config(folder, **changes)
    return make_pair_task(config, load_encoder(config.model), toy_pairs(), None, mesh)


def masked(mesh, folder):
    encoder = with_mlm_head(load_encoder(EncoderConfig(encoder=folder, dropout=0.0)))
    texts = tokenize(toy_pairs().texts, encoder.tokenizer, 16)
    masking = make_masking(encoder.tokenizer, 0.3)
    task = MaskedTask(encoder.config, encoder.params, texts, texts, masking)
    task.rules = bert_rules(encoder.config, mesh.shape[MODEL])
    return task


TASKS = {
    "graphs by paths": (graphs, EIGHT),
    "graphs by messages": (functools.partial(graphs, encoder="gin"), EIGHT),
    "ranker": (ranker, EIGHT),
    "ranker in chunks": (functools.partial(ranker, chunk_queries=1, objective="in_batch"), EIGHT),
    "pairs": (pairs, SPLIT),
    "pairs in chunks": (functools.partial(pairs, objective="contrastive", chunk_pairs=1), EIGHT),
    "masked pieces": (masked, SPLIT),
}
# Parts of these are tested on several devices in the packages' own tests.
LONG = {"graphs by messages", "ranker in chunks", "pairs", "pairs in chunks"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder")
    write_tiny_bert(path, words=(*SUBJECTS, *FILLERS))
    return str(path)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in TASKS]
)
def test_loss_gradient_and_parameters_after_a_step(name, folder):
    make, several = TASKS[name]
    batch = next(make(make_mesh(several), folder).batches(16, seed=0))

    def step(config):
        mesh = make_mesh(config, jax.devices()[: config.data * config.model])
        task = make(mesh, folder)
        optimizer = make_optimizer(CONFIG, 10)
        # Small parameters are split over the devices as well.
        shapes = state_shapes(task, optimizer, 0, mesh, None if config == ONE else 0.0)
        state = create_state(task, optimizer, 0, shapes)
        train_step = make_train_step(task, optimizer, CONFIG, shapes, mesh)
        state, metrics = train_step(state, [shard_batch(batch, mesh)])
        return metrics["loss"][0], metrics["grad_norm"][0], state.params

    for (path, ours), theirs in zip(
        jax.tree_util.tree_leaves_with_path(step(several)), jax.tree.leaves(step(ONE)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5, err_msg=str(path))
