"""DocEnt as tasks: the loss does not depend on packing, order or devices."""

import itertools

import jax
import numpy as np
import pytest

from docent_jax.data import EncodedCorpus
from docent_jax.model import Dual
from docent_jax.task import DualTask, TableTask
from retrieval_jax.optimizers import OptimizerConfig, make_optimizer
from retrieval_jax.pipeline import TokenTable
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch, shardings
from retrieval_jax.train_step import memory_estimate, state_shapes
from tests.bert_folders import tiny_config
from tests.docent_jax.toy_documents import toy_corpus
from tests.retrieval_jax.test_packing import docstring_lengths, one_text_a_row, random_texts

CORPUS = toy_corpus()
LENGTHS = docstring_lengths(len(CORPUS.sentences))
TABLE = TokenTable(random_texts(LENGTHS), LENGTHS)


def dual_task(negatives):
    model = Dual(tiny_config(), len(CORPUS.entities), "mean", 0.05, True)
    return DualTask(model, EncodedCorpus(CORPUS, TABLE, {}), negatives, dict)


def loss_and_gradient(task, params, batch):
    def loss(params, batch):
        return task.loss(params, batch, jax.random.key(0), False)[0]

    return jax.jit(jax.value_and_grad(loss))(params, batch)


def unpacked(batch):
    """The texts of a batch as they stand in the mask's numbers, one a row."""
    numbers = range(1, len(batch["entity_ids"]) + 1)
    texts = [batch["input_ids"][batch["attention_mask"] == number] for number in numbers]
    lengths = np.array([len(text) for text in texts])
    ids = np.zeros((len(texts), lengths.max()), np.int32)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
    return one_text_a_row(ids, lengths) | {"entity_ids": batch["entity_ids"]}


def assert_equal(result, expected):
    (value, grad), (expected_value, expected_grad) = result, expected
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-3), grad, expected_grad
    )


@pytest.mark.parametrize("negatives", ["in_batch", "all"])
def test_loss_and_gradient_equal_those_of_one_sentence_a_row(negatives):
    task = dual_task(negatives)
    params = task.init(jax.random.key(1))
    batch = next(task.batches(16, seed=0))
    single = unpacked(batch)
    assert batch["input_ids"].size < single["input_ids"].size
    expected = loss_and_gradient(task, params, single)
    assert_equal(loss_and_gradient(task, params, batch), expected)
    table_gradient = expected[1]["entities"]["embedding"]
    in_batch = set(batch["entity_ids"].tolist()) if negatives == "in_batch" else set(range(8))
    assert set(np.flatnonzero(np.abs(table_gradient).max(axis=1))) == in_batch


@pytest.mark.parametrize("negatives", ["in_batch", "all"])
@pytest.mark.parametrize(
    "config", [MeshConfig(), MeshConfig(data=4, model=2), MeshConfig(data=2, model=4, fsdp_mib=0)]
)
def test_loss_and_gradient_on_eight_devices_equal_those_on_one(config, negatives):
    task = dual_task(negatives)
    params = task.init(jax.random.key(1))
    batch = next(task.batches(16, seed=0))
    mesh = make_mesh(config)
    placed = jax.device_put(params, shardings(params, mesh, task.rules, config.fsdp_mib))
    table = placed["entities"]["embedding"]
    assert table.sharding.shard_shape(table.shape)[0] == 64 // config.model
    split = loss_and_gradient(task, placed, shard_batch(batch, mesh))
    assert_equal(split, loss_and_gradient(task, params, batch))


def test_memory_estimate_counts_what_a_large_vocabulary_does_not_hide():
    task = dual_task("all")
    mesh = make_mesh(MeshConfig(data=1, model=8))
    optimizer = make_optimizer(OptimizerConfig(), 10)
    batch = shard_batch(next(task.batches(16, seed=0)), mesh)

    def saved(vocab_size):
        task.model = Dual(tiny_config(vocab_size=vocab_size), 8, "mean", 0.05, True)
        shapes = state_shapes(task, optimizer, 0, mesh)
        return memory_estimate(task, shapes, batch, mesh)["saved for backward"]

    pieces = batch["input_ids"].size
    assert saved(200) == saved(20_000) > 2 * pieces * 16 * 4  # both layers keep their inputs


def test_only_a_softmax_over_all_entities_has_parts():
    assert dual_task("all").inseparable is None
    assert "whole batch" in (dual_task("in_batch").inseparable or "")


def test_each_sentence_comes_once_an_epoch_with_its_entity():
    task = dual_task("all")
    seen = [
        (tuple(batch["input_ids"][batch["attention_mask"] == number]), entity)
        for batch in itertools.islice(task.batches(16, seed=0), 4)
        for number, entity in enumerate(batch["entity_ids"], 1)
    ]
    expected = zip(TABLE.input_ids, LENGTHS, CORPUS.sentence_entities, strict=True)
    assert sorted(seen) == sorted((tuple(ids[:n]), entity) for ids, n, entity in expected)


def test_table_task_gives_each_vector_once_an_epoch_with_its_entity():
    vectors = np.arange(64, dtype=np.float32)[:, None]
    entities = np.arange(64, dtype=np.int32) // 8
    task = TableTask(vectors, entities, np.zeros((8, 1), np.float32), 0.1)
    batches = list(itertools.islice(task.batches(16, seed=0), 4))
    seen = np.concatenate([batch["vectors"][:, 0] for batch in batches])
    np.testing.assert_array_equal(np.sort(seen), vectors[:, 0])
    for batch in batches:
        np.testing.assert_array_equal(batch["entity_ids"], batch["vectors"][:, 0] // 8)
