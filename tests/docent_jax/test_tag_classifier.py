"""DocEnt-Full as a classifier of (entity, tag): loss, negatives, a tiny world learnt."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from docent_jax.tag_classifier import ClassifierTagTask, TagClassifier, binary_loss
from docent_jax.tag_evaluation import measure
from docent_jax.tag_task import fine_tune
from retrieval_jax.logs import read_metrics
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.packing import place
from retrieval_jax.pipeline import TokenTable
from tests.bert_folders import tiny_config
from tests.docent_jax.test_tag_task import MODEL, NUM_TAGS, SPLIT, VOTES, config, dev_measures

MASK = 4


def full_tags():
    """[CLS] [MASK] [SEP] before each tag, whose first piece is told from all others."""
    table = MODEL.tags
    before = np.tile(np.array([2, MASK, 3], np.int32), (NUM_TAGS, 1))
    return TokenTable(np.concatenate([before, table.input_ids], axis=1), table.lengths + 3)


TAGS = full_tags()


def make_task(negative_share=0.5):
    start = dataclasses.replace(MODEL, tags=TAGS)
    settings = config(negative_share=negative_share)
    return ClassifierTagTask(start, VOTES, SPLIT, settings, dev_measures)


def start(task):
    """Fresh parameters, but the pre-trained ones and a classifier that is not zero."""
    params = task.init(jax.random.key(0)) | {"encoder": task.warm_start()["encoder"]}
    params["entities"] = params["entities"] | task.warm_start()["entities"]
    kernel = jax.random.normal(jax.random.key(1), params["classifier"]["kernel"].shape)
    params["classifier"] = {"kernel": kernel, "bias": jnp.array([0.5])}
    return jax.tree.map(jnp.asarray, params)


def test_loss_has_its_closed_form():
    loss = binary_loss(jnp.array([1.0, -2.0, 9.0]), jnp.array([1.0, 0, 0]), jnp.array([3.0, 1, 0]))
    expected = (3 * math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-2))) / 4
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_the_classifier_starts_at_zero():
    task = make_task()
    params = task.init(jax.random.key(0))
    assert set(params) == {"encoder", "entities", "classifier"}
    np.testing.assert_array_equal(params["classifier"]["kernel"], 0)


def test_each_text_has_its_own_entity_in_packed_rows():
    task = make_task()
    params = start(task)
    films = np.array([5, 0, 3, 3, 7], np.int32)
    tags = np.array([0, 1, 2, 3, 0])

    def logits(placement, shape):
        rows = TAGS.pack(tags, placement, shape)
        arrays = (rows["input_ids"], rows["attention_mask"], rows["position_ids"], films)
        model = TagClassifier(tiny_config(), len(MODEL.table))
        classify = functools.partial(model.apply, method=TagClassifier.classify)
        return jax.jit(classify)({"params": params}, *arrays)

    placement = place(TAGS.lengths[tags], 20)
    packed = logits(placement, (placement.num_rows, 20))
    alone = place(TAGS.lengths[tags], 8)
    single = logits(alone, (alone.num_rows, 8))
    assert alone.num_rows == 5 > placement.num_rows
    assert packed.dtype == jnp.float32
    np.testing.assert_allclose(packed, single, atol=1e-5)
    assert abs(packed[0] - packed[4]) > 1e-4  # one tag of two films


def test_scores_are_those_of_single_pairs():
    task = make_task()
    params = start(task)
    scores = task.scores(params, "test")
    assert scores.shape == (len(SPLIT.test_films), NUM_TAGS)
    tag = np.array([6])
    rows = TAGS.pack(tag, place(TAGS.lengths[tag], 8), (1, 8))
    arrays = (rows["input_ids"], rows["attention_mask"], rows["position_ids"])
    film = SPLIT.test_films[2:3]
    logit = task.model.apply({"params": params}, *arrays, film, method=TagClassifier.classify)
    np.testing.assert_allclose(scores[2, 6], logit[0], atol=1e-5)


def test_batches_hold_pairs_and_then_their_films_negatives():
    task = make_task(negative_share=0.5)
    for batch in itertools.islice(task.batches(4, seed=0), 6):
        assert len(batch["films"]) == 4 * (1 + 4)
        texts = [batch["input_ids"][batch["attention_mask"] == n + 1] for n in range(20)]
        tags = np.array([(text[3] - 10) // 10 for text in texts])
        np.testing.assert_array_equal(batch["films"][4:], np.repeat(batch["films"][:4], 4))
        np.testing.assert_array_equal(batch["labels"], np.arange(20) < 4)
        votes = VOTES[batch["films"], tags]
        np.testing.assert_allclose(batch["weights"][:4], np.log1p(votes[:4]), rtol=1e-6)
        np.testing.assert_array_equal(votes[4:], 0)
        np.testing.assert_array_equal(batch["weights"][4:], 1)
        assert all(len(set(row)) == 4 for row in tags[4:].reshape(4, 4))


def test_where_negatives_run_out_positives_do_not_count_as_such():
    batch = next(make_task(negative_share=1.0).batches(4, seed=0))
    positives = (VOTES[batch["films"][:4]] > 0).sum(axis=1)
    counted = batch["weights"][4:].reshape(4, NUM_TAGS).sum(axis=1)
    np.testing.assert_array_equal(counted, NUM_TAGS - positives)


@pytest.mark.long
def test_fine_tuning_ranks_the_tags_of_unseen_films_first(tmp_path):
    task = make_task()
    optimizer = OptimizerConfig(learning_rate=5e-3)
    training = dataclasses.replace(task.config.training, steps=300, optimizer=optimizer)
    task.config = dataclasses.replace(task.config, training=training)
    params, trained = fine_tune(task, tmp_path / "run", show_progress=False)
    table = np.asarray(trained.params["entities"]["embedding"])
    np.testing.assert_array_equal(table[: len(MODEL.table)], MODEL.table)
    losses = [entry["loss"] for entry in read_metrics(tmp_path / "run") if entry["kind"] == "train"]
    assert losses[-1] < 0.5 * losses[0]
    test = measure(SPLIT.part("test", VOTES), task.scores(params, "test"), 0)
    assert test.values["MAP"] > 0.85
    assert trained.best["MAP"] == pytest.approx(task.evaluate(params)["MAP"], abs=1e-6)
