"""The contrastive task: views, batches, chunks and devices."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gcl_jax.augmentations import AugmentationConfig
from gcl_jax.config import Config, ContrastConfig, DataConfig, ModelConfig
from gcl_jax.encoding import index_formulas
from gcl_jax.graphs import make_vocabulary
from gcl_jax.model import make_encoder
from gcl_jax.task import ContrastTask
from retrieval_jax.losses import contrastive_loss_from_embeddings
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch
from tests.gcl_jax.toy_graphs import random_formulas

FORMULAS = random_formulas(80, 2, largest=9)
VOCABULARY = make_vocabulary([FORMULAS.slt, FORMULAS.opt])
MODEL = ModelConfig(hidden=8, dim=32, depth=1)
CONFIG = Config(
    data=DataConfig(end_marks=False),
    model=MODEL,
    augmentation=AugmentationConfig(("rename", "node_mask")),
    contrast=ContrastConfig(temperature=0.1, block_size=8),
)


def task_of(config=CONFIG, lanes=1):
    encoder = make_encoder(config.model, VOCABULARY, config.model.hidden)
    tables = index_formulas(FORMULAS, VOCABULARY, config.model.layout, config.data)
    return ContrastTask(encoder, tables, VOCABULARY, config, lanes=lanes)


def with_chunks(size, **model):
    return dataclasses.replace(
        CONFIG,
        contrast=dataclasses.replace(CONFIG.contrast, chunk_graphs=size),
        model=dataclasses.replace(MODEL, **model),
    )


PROGRAM = """
import hashlib, jax
from tests.gcl_jax.test_task import task_of
task = task_of()
batch, params = next(task.batches(8, 0)), task.init(jax.random.key(0))
lowered = jax.jit(task.views).lower(params, batch, jax.random.key(1)).as_text()
print(hashlib.md5(lowered.encode()).hexdigest())
"""


def test_processes_compile_one_program_whatever_their_hash_seed():
    root = Path(__file__).parent.parent.parent
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=root,
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    digests = {program.communicate(timeout=300)[0].strip() for program in programs}
    assert len(digests) == 1 and len(digests.pop()) == 32


def test_the_loss_is_the_plain_one_of_both_views_and_equal_formulas_are_no_negatives():
    task = task_of()
    batch = jax.tree.map(jnp.asarray, next(task.batches(80, 0)))
    assert len(set(batch["ids"].tolist())) < 80
    params, rng = task.init(jax.random.key(0)), jax.random.key(1)
    formulas, augmented = jax.jit(task.views)(params, batch, rng)
    ids = batch["ids"]
    expected = contrastive_loss_from_embeddings(
        formulas, augmented, 0.1, query_ids=ids, candidate_ids=ids, symmetric=True
    )
    loss, metrics = jax.jit(task.loss, static_argnums=3)(params, batch, rng, True)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    cosine = metrics["positive_cosine"][0] / metrics["positive_cosine"][1]
    np.testing.assert_allclose(cosine, jnp.mean(jnp.sum(formulas * augmented, 1)), rtol=1e-5)
    assert cosine < 0.999


def test_without_augmentation_the_views_are_equal():
    task = task_of(dataclasses.replace(CONFIG, augmentation=AugmentationConfig(("none",))))
    batch = jax.tree.map(jnp.asarray, next(task.batches(16, 0)))
    params = task.init(jax.random.key(0))
    formulas, augmented = jax.jit(task.views)(params, batch, jax.random.key(1))
    np.testing.assert_array_equal(formulas, augmented)


def test_batches_are_every_formula_once_an_epoch_with_little_padding():
    task = task_of(with_chunks(16))
    batches = task.batches(32, 0)
    seen, slots, nodes, shapes = [], 0, 0, set()
    for _ in range(16):
        batch = next(batches)
        seen += batch["ids"].tolist()
        graphs = batch["slt/graphs"]
        assert graphs.shape[0] == 2
        shapes.add(graphs.shape)
        slots, nodes = slots + graphs.size, nodes + int((graphs < 16).sum())
    assert len(set(seen)) == len(set(task.ids.tolist()))
    assert len(shapes) <= 5
    assert nodes / slots > 0.8  # of batches this small; see the budget's own test


def test_each_process_packs_its_chunks_of_the_batch(monkeypatch):
    task = task_of(with_chunks(4), lanes=4)
    whole = next(task.batches(32, 0))
    monkeypatch.setattr("jax.process_count", lambda: 2)
    parts = []
    for process in range(2):
        monkeypatch.setattr("jax.process_index", lambda process=process: process)
        parts.append(next(task.batches(32, 0)))
    assert parts[0]["slt/graphs"].shape[0] == 4
    for name, values in whole.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values)


def test_chunks_and_devices_compute_what_one_chunk_on_one_device_does():
    config = with_chunks(4, layout="slt")
    batch = next(task_of(config).batches(32, 0))
    assert batch["slt/graphs"].shape[0] == 8
    params, rng = task_of(config).init(jax.random.key(0)), jax.random.key(1)

    def value(lanes, placed):
        task = task_of(config, lanes)
        return jax.jit(jax.value_and_grad(lambda p, b: task.loss(p, b, rng, True)[0]))(
            params, placed
        )

    one = jax.tree.map(jnp.asarray, batch)
    expected = value(1, one)
    # Chunk by chunk, by hand: no scan and no checkpoint.
    loose, scanned = (jax.jit(task_of(config, lanes).views)(params, one, rng) for lanes in (8, 1))
    for ours, theirs in zip(scanned, loose, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    got = value(4, shard_batch(batch, make_mesh(MeshConfig(), jax.devices()[:4])))
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.long
def test_memory_does_not_grow_with_the_batch():
    task = task_of(with_chunks(8, encoder="gin", layout="slt"))
    params = task.init(jax.random.key(0))

    def temporary(chunks):
        batch = {
            f"slt/{name}": jax.ShapeDtypeStruct((chunks, 512), jnp.int32)
            for name in ("types", "labels", "edges", "parents", "subtree_sizes", "graphs")
        } | {"ids": jax.ShapeDtypeStruct((8 * chunks,), jnp.int32)}
        step = jax.jit(jax.grad(lambda p, b: task.loss(p, b, jax.random.key(0), True)[0]))
        return step.lower(params, batch).compile().memory_analysis().temp_size_in_bytes

    assert temporary(16) < 2 * temporary(2)
