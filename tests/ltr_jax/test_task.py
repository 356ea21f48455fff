"""The losses by hand, the task's loss pair by pair, evaluation on dev."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ltr_jax.data import make_data
from ltr_jax.model import SIDES, Ranker
from ltr_jax.task import RankingTask, hinge_loss, in_batch_loss
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch
from tests.ltr_jax.toy_collection import toy_collection, toy_config, toy_vectors

COLLECTION = toy_collection()
KEY = jax.random.key(1)


def test_hinge_of_the_three_level_pairs_by_hand():
    # One slot of relevance 2, one of 1, two irrelevant documents each; the last is absent.
    scores = np.array([[[3.0, 2.5, 1.0], [2.75, 3.5, 9.0]]])
    weights = jnp.array([[[1.0, 1, 1], [1, 1, 0]]])
    loss, metrics = hinge_loss(scores, weights, margin=1.0)
    # (2,1): 1 - .25; (2,0): 1 - .5 and max(0, 1 - 2); (1,0): 1 + .75.
    assert float(loss) == pytest.approx((0.75 + 0.5 + 0.0 + 1.75) / 4)
    assert [float(value) for value in metrics["in_order"]] == [3.0, 4.0]


def test_hinge_without_a_partly_relevant_document():
    scores = jnp.array([[[1.0, 0.0], [7.0, 9.0]]])
    weights = jnp.array([[[1.0, 1.0], [0.0, 0.0]]])
    loss, _ = hinge_loss(scores, weights, margin=2.0)
    assert float(loss) == pytest.approx(1.0)


def test_in_batch_loss_by_hand():
    logits = jnp.array([[1.0, 2.0, 3.0, 0.5]])
    relevance = jnp.array([[2, 1, 0, 1]], jnp.int8)
    loss, metrics = in_batch_loss(
        logits, relevance, jnp.array([[0, 1, 0]]), jnp.array([[1.0, 1.0, 0.0]])
    )
    best = math.log(sum(map(math.exp, (1.0, 2.0, 3.0, 0.5)))) - 1.0
    partly = math.log(math.exp(2.0) + math.exp(3.0)) - 2.0  # neither the best nor its equals
    assert float(loss) == pytest.approx((best + partly) / 2, rel=1e-6)
    assert [float(value) for value in metrics["first"]] == [0.0, 2.0]


def make_task(lanes=1, chunk_queries=None, dropout=0.0, **changes):
    config = toy_config(dropout=dropout, **changes)
    sampling = dataclasses.replace(config.sampling, chunk_queries=chunk_queries)
    data = make_data(COLLECTION, toy_vectors(), config)
    return RankingTask(Ranker(config.model), data, sampling, config.dev_difficulty, lanes)


def test_the_loss_equals_that_of_pairs_one_by_one():
    task = make_task()
    params = jax.jit(task.init)(jax.random.key(0))
    batch = next(task.batches(4, 0))
    loss, _ = jax.jit(task.loss, static_argnums=3)(params, batch, jax.random.key(1), True)
    encode = jax.jit(task._encode, static_argnums=(1, 3))
    halves = [
        np.asarray(encode(params, side, batch, n))
        for side, n in zip(SIDES, batch["relevance"].shape, strict=True)
    ]
    apply = jax.jit(functools.partial(task.model.apply, method=Ranker.score))

    def score(query, document):
        pair = halves[0][[query]], halves[1][[document]]
        return float(apply({"params": params}, *pair)[0])

    values = []
    for query, (slots, present) in enumerate(
        zip(batch["candidates"], batch["weights"], strict=True)
    ):
        scores = [[score(query, d) for d in slot] for slot in slots]
        if present[0, 0] and present[1, 0]:
            values.append(max(0.0, 1 - scores[0][0] + scores[1][0]))
        for slot in range(2):
            for other in range(1, 5):
                if present[slot, other]:
                    values.append(max(0.0, 1 - scores[slot][0] + scores[slot][other]))
    assert float(loss) == pytest.approx(np.mean(values), abs=1e-5)


@pytest.mark.parametrize(
    ("features", "objective"), [("text", "in_batch"), ("meta", "hinge"), ("text+meta", "hinge")]
)
def test_every_parameter_has_a_gradient(features, objective):
    task = make_task(features=features, objective=objective)
    params = jax.jit(task.init)(jax.random.key(0))
    batch = next(task.batches(16, 0))
    grads = jax.jit(jax.grad(lambda p: task.loss(p, batch, jax.random.key(1), True)[0]))(params)
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        assert np.isfinite(grad).all(), path
        if "output" not in str(path) or "bias" not in str(path):  # it moves all scores alike
            assert np.abs(grad).max() > 0, path


def loss_and_gradient(task, params, batch):
    compute = jax.value_and_grad(lambda p, b: task.loss(p, b, KEY, True), has_aux=True)
    return jax.jit(compute)(params, batch)


@pytest.mark.parametrize(
    ("lanes", "changes"),
    [
        (1, {"objective": "in_batch", "interaction": "cosine", "layers": 1}),
        (4, {"objective": "in_batch"}),
        (2, {"objective": "hinge", "features": "text"}),
    ],
)
def test_chunks_give_the_loss_and_gradient_of_the_batch_at_once(lanes, changes):
    at_once, in_chunks = make_task(**changes), make_task(lanes, 2, **changes)
    assert in_chunks.chunking.count(16) == 8
    params = jax.jit(at_once.init)(jax.random.key(0))
    batch = next(at_once.batches(16, 0))
    mesh = make_mesh(MeshConfig(), jax.devices()[:lanes])
    (loss, metrics), gradient = loss_and_gradient(in_chunks, params, shard_batch(batch, mesh))
    (expected, counted), expected_gradient = loss_and_gradient(at_once, params, batch)
    assert float(loss) == pytest.approx(float(expected), abs=1e-6)
    for ours, theirs in zip(*map(jax.tree.leaves, (gradient, expected_gradient)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    assert [float(of[1]) for of in metrics.values()] == [float(of[1]) for of in counted.values()]


def test_each_chunk_has_a_key_for_dropout():
    task = make_task(1, 8, dropout=0.5, objective="in_batch", interaction="cosine", layers=1)
    params = jax.jit(task.init)(jax.random.key(0))
    batch = next(task.batches(16, 0))

    def by_hand(params, batch):
        queries, documents = (
            task._encode(params, side, batch, n)
            for side, n in zip(SIDES, batch["relevance"].shape, strict=True)
        )
        losses, counts = [], []
        for chunk, rows in enumerate((slice(8), slice(8, 16))):
            key = {"dropout": jax.random.fold_in(KEY, chunk)}
            halves = {"params": params}, queries[rows], documents
            logits = task.model.apply(*halves, False, rngs=key, method=Ranker.score_all)
            relevant = batch["candidates"][rows, :, 0], batch["weights"][rows, :, 0]
            loss, metrics = in_batch_loss(logits, batch["relevance"][rows], *relevant)
            losses.append(loss)
            counts.append(metrics["first"][1])
        return losses, counts

    losses, counts = jax.jit(by_hand)(params, batch)
    loss, _ = jax.jit(task.loss, static_argnums=3)(params, batch, KEY, True)
    assert float(loss) == pytest.approx(float(np.average(losses, weights=counts)), abs=1e-6)
    without, _ = jax.jit(task.loss, static_argnums=3)(params, batch, KEY, False)
    assert abs(float(loss - without)) > 1e-3


@pytest.mark.long
def test_memory_of_scores_is_that_of_a_chunk():
    shapes = {
        "candidates": ((128, 2, 5), jnp.int32),
        "weights": ((128, 2, 5), jnp.float32),
        "relevance": ((128, 384), jnp.int8),
        "query_words": ((16, 64, 13), jnp.float32),
        "query_words_windows": ((16, 64), jnp.int32),
        "document_words": ((48, 64, 13), jnp.float32),
        "document_words_windows": ((48, 64), jnp.int32),
    }
    batch = {name: jax.ShapeDtypeStruct(*of) for name, of in shapes.items()}

    def temporary(chunk_queries):
        task = make_task(1, chunk_queries, features="text", objective="in_batch", layers=1)
        params = jax.eval_shape(task.init, KEY)
        step = jax.jit(jax.grad(lambda p, b: task.loss(p, b, KEY, True)[0]))
        return step.lower(params, batch).compile().memory_analysis().temp_size_in_bytes

    assert temporary(8) < temporary(None) / 4


def test_no_frozen_vector_is_a_parameter():
    task = make_task()
    leaves = jax.tree.leaves(jax.eval_shape(task.init, jax.random.key(0)))
    vocabulary = {len(table.vectors) for of in task.data.features.values() for table in of.values()}
    assert not vocabulary & {size for leaf in leaves for size in leaf.shape}


def test_evaluation_is_on_dev_and_bounded_by_what_there_is():
    task = make_task()
    measures = task.evaluate(jax.jit(task.init)(jax.random.key(0)))
    assert list(measures) == ["nDCG"]
    assert 0 < measures["nDCG"] < 1
    splits = {"train": COLLECTION.splits["train"]}
    collection = dataclasses.replace(COLLECTION, splits=splits)
    config = toy_config()
    data = make_data(collection, toy_vectors(), config)
    task = RankingTask(Ranker(config.model), data, config.sampling, 40)
    assert task.evaluate({}) == {}
