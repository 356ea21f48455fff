"""DocEnt as tasks: the loss does not depend on packing, order or devices."""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest

from docent_jax.config import ModelConfig
from docent_jax.data import EncodedCorpus
from docent_jax.model import Dual, Full, Hybrid
from docent_jax.task import DualTask, FullTask, HybridTask, TableTask
from retrieval_jax.chunking import Chunking
from retrieval_jax.contrastive_blocked import LOWEST_TEMPERATURE
from retrieval_jax.errors import InputError
from retrieval_jax.masking import Masking, mask_pieces
from retrieval_jax.optimizers import OptimizerConfig, make_optimizer
from retrieval_jax.pipeline import TokenTable
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch, shardings
from retrieval_jax.train_step import create_state, make_train_step, memory_estimate, state_shapes
from tests.bert_folders import tiny_config
from tests.docent_jax import plain_bert
from tests.docent_jax.toy_documents import toy_corpus
from tests.retrieval_jax.test_packing import docstring_lengths, one_text_a_row, random_texts

CORPUS = toy_corpus()
LENGTHS = docstring_lengths(len(CORPUS.sentences))
TABLE = TokenTable(random_texts(LENGTHS), LENGTHS)
CONFIG = tiny_config()
# [CLS] [MASK] [SEP] ... [SEP]
ENTITY_TABLE = TokenTable(TABLE.input_ids.copy(), LENGTHS)
ENTITY_TABLE.input_ids[:, :3] = [2, 4, 3]
ENTITY_TABLE.input_ids[np.arange(len(LENGTHS)), LENGTHS - 1] = 3
MASKING = Masking(0.15, 4, (0, 1, 2, 3, 4), CONFIG.vocab_size)


def dual_task(negatives, temperature=0.05):
    model = Dual(tiny_config(), len(CORPUS.entities), "mean", temperature, True)
    return DualTask(model, EncodedCorpus(CORPUS, TABLE, {}), negatives, dict)


def hybrid_task(rate=0.15, mlm_weight=0.7, one_pass=False):
    model = Hybrid(CONFIG, len(CORPUS.entities), "mean", 0.05, True, one_pass)
    masking = dataclasses.replace(MASKING, rate=rate)
    return HybridTask(model, EncodedCorpus(CORPUS, TABLE, {}), "all", masking, mlm_weight, dict)


def full_task(rate=0.15, mlm_weight=0.7):
    model = Full(CONFIG, len(CORPUS.entities))
    masking = dataclasses.replace(MASKING, rate=rate)
    data = EncodedCorpus(CORPUS, ENTITY_TABLE, {})
    return FullTask(model, data, masking, mlm_weight, 0.5, dict)


TASKS = {
    "dual, in-batch": functools.partial(dual_task, "in_batch"),
    "dual, all": functools.partial(dual_task, "all"),
    "full": full_task,
    "hybrid": hybrid_task,
    "hybrid, one pass": functools.partial(hybrid_task, one_pass=True),
}


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


@pytest.mark.parametrize("make", [pytest.param(full_task, marks=pytest.mark.long), hybrid_task])
def test_without_masked_words_the_loss_is_that_of_one_sentence_a_row(make):
    task = make(rate=0.0)
    params = task.init(jax.random.key(1))
    batch = next(task.batches(16, seed=0))
    expected = loss_and_gradient(task, params, unpacked(batch))
    assert_equal(loss_and_gradient(task, params, batch), expected)


MESHES = [
    pytest.param(MeshConfig(), marks=pytest.mark.long),
    MeshConfig(data=2, model=4, fsdp_mib=0),
]


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("config", MESHES)
def test_loss_and_gradient_on_eight_devices_equal_those_on_one(config, name):
    task = TASKS[name]()
    params = task.init(jax.random.key(1))
    batch = next(task.batches(16, seed=0))
    mesh = make_mesh(config)
    placed = jax.device_put(params, shardings(params, mesh, task.rules, config.fsdp_mib))
    for part in placed["entities"].values():
        assert part.sharding.shard_shape(part.shape)[0] == 64 // config.model
    split = loss_and_gradient(task, placed, shard_batch(batch, mesh))
    assert_equal(split, loss_and_gradient(task, params, batch))


@pytest.mark.parametrize(
    "name",
    ["full", *(pytest.param(name, marks=pytest.mark.long) for name in TASKS if name != "full")],
)
def test_an_optimizer_step_on_eight_devices_equals_one_on_one(name):
    task = TASKS[name]()
    # A large eps, so that a gradient of rounding errors makes no step of full length.
    config = OptimizerConfig(learning_rate=0.1, warmup=0.0, eps=1e-3)
    optimizer = make_optimizer(config, 10)
    batch = next(task.batches(16, seed=0))

    def step(mesh):
        shapes = state_shapes(task, optimizer, 0, mesh)
        state = create_state(task, optimizer, 0, shapes)
        before = jax.device_get(state.params)
        train_step = make_train_step(task, optimizer, config, shapes, mesh)
        state, metrics = train_step(state, [shard_batch(batch, mesh)])
        return before, jax.device_get(state.params), jax.device_get(metrics)

    one = step(make_mesh(MeshConfig(), jax.devices()[:1]))
    eight = step(make_mesh(MeshConfig(data=4, model=2)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4, rtol=1e-3), eight, one)
    moved = np.abs(one[1]["entities"]["embedding"] - one[0]["entities"]["embedding"])
    assert moved[:8].max() > 1e-3


def plain_sentences(params, batch, masked, vectors_of):
    """Hidden states of each text by plain NumPy, and the masked places in it.

    Yields the text's number, its hidden states `[length, dim]`, and [(column in it, piece)].
    """
    rows, columns = np.nonzero(np.asarray(masked.weights))
    at = np.asarray(masked.positions)[rows, columns]
    labels = np.asarray(masked.labels)[rows, columns]
    texts = batch["attention_mask"][rows, at] - 1
    within = batch["position_ids"][rows, at]
    for text in range(len(batch["entity_ids"])):
        pieces = np.asarray(masked.input_ids)[batch["attention_mask"] == text + 1]
        words, segments = vectors_of(text, pieces)
        hidden = plain_bert.hidden_states(params["encoder"], words, segments)
        places = [(w, p) for t, w, p in zip(texts, within, labels, strict=True) if t == text]
        yield text, hidden, places


def log_softmax(logits):
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def random_params(task):
    """Parameters away from zero, as float64 NumPy arrays and as JAX sees them."""
    keys = iter(jax.random.split(jax.random.key(5), 100))
    params = jax.tree.map(
        lambda a: a + 0.1 * jax.random.normal(next(keys), a.shape), task.init(jax.random.key(1))
    )
    return params, jax.tree.map(lambda a: np.asarray(a, np.float64), params)


def test_full_loss_is_that_of_plain_numpy():
    task = full_task(rate=0.3)
    params, plain = random_params(task)
    batch = next(task.batches(8, seed=0))
    rng = jax.random.key(2)
    masking_rng, entity_rng, _ = jax.random.split(rng, 3)
    masked = mask_pieces(masking_rng, batch["input_ids"], batch["attention_mask"], task.masking)
    is_hidden = np.asarray(jax.random.bernoulli(entity_rng, 0.5, (8,)))
    assert 0 < is_hidden.sum() < 8
    words, head = plain["encoder"]["embeddings"]["word"]["embedding"], plain["word_head"]
    table, bias = (plain["entities"][name][:8] for name in ("embedding", "bias"))

    def vectors_of(text, pieces):
        vectors = words[pieces]
        assert pieces[1] == 4
        if not is_hidden[text]:
            vectors[1] = table[batch["entity_ids"][text]]
        return vectors, np.array([0, 0, 0] + [1] * (len(pieces) - 3))

    of_entities, of_words = [], []
    for text, hidden, places in plain_sentences(plain, batch, masked, vectors_of):
        transformed = plain_bert.transformed(head, hidden)
        if is_hidden[text]:
            logits = table @ transformed[1] + bias
            of_entities.append(-log_softmax(logits)[batch["entity_ids"][text]])
        for column, piece in places:
            logits = words @ transformed[column] + head["bias"]
            of_words.append(-log_softmax(logits)[piece])
    assert len(of_words) > 10
    loss, metrics = jax.jit(lambda p: task.loss(p, batch, rng, False))(params)
    # Sums and numbers: means of several batches come out right.
    for name, values in (("entity_loss", of_entities), ("mlm_loss", of_words)):
        np.testing.assert_allclose(metrics[name], [np.sum(values), len(values)], rtol=1e-4)
    np.testing.assert_allclose(loss, np.mean(of_entities) + 0.7 * np.mean(of_words), rtol=1e-4)


@pytest.mark.parametrize("one_pass", [False, True])
def test_hybrid_loss_is_that_of_plain_numpy(one_pass):
    task = hybrid_task(rate=0.3, one_pass=one_pass)
    params, plain = random_params(task)
    batch = next(task.batches(8, seed=0))
    rng = jax.random.key(2)
    masking_rng, _ = jax.random.split(rng)
    masked = mask_pieces(masking_rng, batch["input_ids"], batch["attention_mask"], task.masking)
    words, head = plain["encoder"]["embeddings"]["word"]["embedding"], plain["word_head"]
    table = plain["entities"]["embedding"][:8]
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)

    def vectors_of(_, pieces):
        return words[pieces], np.zeros(len(pieces), int)

    # What f(s) of the entity's loss is read from.
    read = masked if one_pass else masked._replace(input_ids=batch["input_ids"])
    of_entities, of_words = [], []
    sides = (plain_sentences(plain, batch, rows, vectors_of) for rows in (masked, read))
    for (text, hidden, places), (_, read_hidden, _) in zip(*sides, strict=True):
        entity = batch["entity_ids"][text]
        sentence = read_hidden.mean(axis=0)
        cosines = unit @ sentence / np.linalg.norm(sentence)
        of_entities.append(-log_softmax(cosines / np.exp(plain["log_temperature"]))[entity])
        for column, piece in places:
            context = np.concatenate([hidden[column], table[entity]])
            logits = words @ plain_bert.transformed(head, context) + head["bias"]
            of_words.append(-log_softmax(logits)[piece])
    assert len(of_words) > 10
    loss, metrics = jax.jit(lambda p: task.loss(p, batch, rng, False))(params)
    # Sums and numbers: means of several batches come out right.
    for name, values in (("entity_loss", of_entities), ("mlm_loss", of_words)):
        np.testing.assert_allclose(metrics[name], [np.sum(values), len(values)], rtol=1e-4)
    np.testing.assert_allclose(loss, np.mean(of_entities) + 0.7 * np.mean(of_words), rtol=1e-4)


@pytest.mark.parametrize("make", [full_task, hybrid_task])
def test_predicting_words_teaches_the_entities_of_the_batch(make):
    # Of a loss of words alone: only the rows of the batch's entities stand beside words.
    task = make(mlm_weight=1.0)
    params = task.init(jax.random.key(1))
    batch = next(task.batches(8, seed=0))

    def word_loss(params):
        return task.loss(params, batch, jax.random.key(3), False)[1]["mlm_loss"][0]

    gradient = np.abs(jax.jit(jax.grad(word_loss))(params)["entities"]["embedding"]).max(axis=1)
    taught = set(np.flatnonzero(gradient))
    assert taught
    assert taught <= set(batch["entity_ids"].tolist())


@pytest.mark.parametrize("make", [full_task, hybrid_task])
def test_a_key_decides_what_is_masked_also_out_of_training(make):
    task = make()
    params = task.init(jax.random.key(1))
    batch = next(task.batches(16, seed=0))
    loss = jax.jit(lambda key: task.loss(params, batch, key, False)[0])
    first, again, other = (float(loss(jax.random.key(key))) for key in (0, 0, 1))
    assert first == again != other


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


# The loss by rows takes any temperature, a learned one too, below what the symmetric one takes.
@pytest.mark.parametrize(
    ("negatives", "lanes", "temperature"),
    [("in_batch", 4, 0.05), ("all", 1, LOWEST_TEMPERATURE / 5)],
)
def test_chunks_give_the_loss_and_gradient_of_the_batch_at_once(negatives, lanes, temperature):
    at_once = dual_task(negatives, temperature)
    chunking = Chunking(4, lanes)
    task = DualTask(at_once.model, at_once.data, negatives, dict, chunking)
    params = task.init(jax.random.key(1))
    batch = next(task.batches(16, seed=0))
    assert len(batch["input_ids"]) % 4 == 0
    # Rows of chunks are rows like others.
    expected = loss_and_gradient(at_once, params, batch)
    mesh = make_mesh(MeshConfig(data=lanes), jax.devices()[:lanes])
    assert_equal(loss_and_gradient(task, params, shard_batch(batch, mesh)), expected)


def test_chunks_are_for_texts_without_masked_words():
    with pytest.raises(InputError, match="Only dual"):
        ModelConfig(kind="hybrid", chunk_texts=8)
    with pytest.raises(InputError, match="chunk_texts is 0"):
        ModelConfig(chunk_texts=0)


def test_only_a_softmax_over_all_entities_has_parts():
    assert dual_task("all").inseparable is None
    assert "whole batch" in (dual_task("in_batch").inseparable or "")
    for task in (full_task(), hybrid_task()):
        assert task.inseparable


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
