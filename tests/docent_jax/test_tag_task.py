"""Fine-tuning for tags: the loss's closed form, sampled candidates, and a tiny world learnt."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from docent_jax.tag_evaluation import TagSplit, measure
from docent_jax.tag_task import (
    SoftmaxTagTask,
    TagModel,
    TagTuningConfig,
    fine_tune,
    pair_weights,
    tag_loss,
)
from retrieval_jax.errors import InputError
from retrieval_jax.logs import read_metrics
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.pipeline import TokenTable
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch, shardings
from retrieval_jax.training import TrainingConfig
from tests.bert_folders import tiny_config, tiny_params

NUM_FILMS, NUM_TAGS = 24, 8


def world():
    """Films of eight kinds, whose vectors tell the kind; a film's tag is its kind."""
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(NUM_TAGS, 16))
    kind_of = np.arange(NUM_FILMS) % NUM_TAGS
    table = (kinds[kind_of] + 0.1 * rng.normal(size=(NUM_FILMS, 16))).astype(np.float32)
    votes = np.zeros((NUM_FILMS, NUM_TAGS), np.int32)
    votes[np.arange(NUM_FILMS), kind_of] = 3
    votes[np.arange(NUM_FILMS), (kind_of + 1) % NUM_TAGS] = kind_of % 2 == 0
    lengths = np.array([3, 4, 3, 5, 3, 4, 3, 3], np.int32)
    ids = np.zeros((NUM_TAGS, 5), np.int32)
    for tag, length in enumerate(lengths):
        ids[tag, :length] = 10 + 10 * tag + np.arange(length)
    params = tiny_params(tiny_config())
    encoder = {name: params[name] for name in ("embeddings", "encoder")}
    model = TagModel(tiny_config(), "mean", encoder, table, TokenTable(ids, lengths))
    films = np.arange(NUM_FILMS, dtype=np.int32)
    tags = [np.arange(NUM_TAGS, dtype=np.int32)] * 3
    return model, votes, TagSplit("closed", films[:8], films[8:16], films[16:], *tags)


MODEL, VOTES, SPLIT = world()


def config(**changes):
    training = TrainingConfig(
        steps=60,
        batch_size=8,
        log_every=10,
        evaluate_every=20,
        checkpoint_every=60,
        best_measure="MAP",
        mesh=MeshConfig(data=8),
        optimizer=OptimizerConfig(learning_rate=1e-2),
    )
    return dataclasses.replace(TagTuningConfig(training=training, temperature=0.1), **changes)


def dev_measures(scores):
    return measure(SPLIT.part("dev", VOTES), scores, 0).values


def make_task(**changes):
    return SoftmaxTagTask(MODEL, VOTES, SPLIT, config(**changes), dev_measures)


def test_weights_are_votes_or_their_logarithm():
    votes = np.array([1, 3, 7])
    np.testing.assert_array_equal(pair_weights(votes, "votes"), [1, 3, 7])
    np.testing.assert_allclose(pair_weights(votes, "log_votes") / math.log(2), [1, 2, 3], rtol=1e-6)


def test_loss_has_its_closed_form():
    films, tags = jnp.array([[2.0, 0], [0, 3]]), jnp.array([[1.0, 0], [0, 5], [3, 4]])
    negatives = jnp.array([[False, False, True], [True, False, True]])
    loss = tag_loss(films, tags, jnp.array([0, 1]), negatives, jnp.array([3.0, 1.0]), 0.5)
    # Cosines over 0.5: first film 2, 0, 1.2; second 0, 2, 1.6.
    first = math.log(math.exp(2) + math.exp(1.2)) - 2
    second = math.log(1 + math.exp(2) + math.exp(1.6)) - 2
    np.testing.assert_allclose(loss, (3 * first + second) / 4, rtol=1e-6)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_batches_hold_pairs_with_their_tags_and_no_false_negative(share):
    task = make_task(negative_share=share)
    batches = list(itertools.islice(task.batches(4, seed=0), 9))
    assert len({batch["negatives"].shape for batch in batches}) == 1
    sampled = 0
    for batch in batches:
        texts = [
            tuple(batch["input_ids"][batch["attention_mask"] == number + 1])
            for number in range(batch["negatives"].shape[1])
        ]
        tags = np.array([(text[0] - 10) // 10 for text in texts])
        assert texts == [tuple(10 + 10 * t + np.arange(MODEL.tags.lengths[t])) for t in tags]
        positives = tags[batch["positives"]]
        expected = pair_weights(VOTES[batch["films"], positives], "log_votes")
        np.testing.assert_array_equal(batch["weights"], expected)
        assert (batch["weights"] > 0).all()
        assert np.isin(batch["films"], SPLIT.train_films).all()
        is_positive = VOTES[batch["films"]][:, tags] > 0
        assert not (batch["negatives"] & is_positive).any()
        # Each tag is a negative once at most, and only sampled ones are.
        for row in batch["negatives"]:
            assert len(set(tags[row])) == row.sum() <= share * NUM_TAGS
        if share == 1:
            np.testing.assert_array_equal(
                batch["negatives"].sum(1), (VOTES[batch["films"]] == 0).sum(1)
            )
        sampled += batch["negatives"].sum()
    assert sampled > 0


def test_an_epoch_has_every_training_pair_once():
    task = make_task()
    pairs = np.count_nonzero(SPLIT.part("train", VOTES))
    batches = itertools.islice(task.batches(1, seed=0), pairs)
    films = np.concatenate([batch["films"] for batch in batches])
    expected = np.count_nonzero(VOTES[:8], axis=1)
    np.testing.assert_array_equal(np.bincount(films, minlength=8), expected)


def test_batches_are_a_function_of_the_seed():
    def some(seed):
        return list(itertools.islice(make_task(negative_share=0.5).batches(4, seed), 5))

    jax.tree.map(np.testing.assert_array_equal, some(3), some(3))
    assert any((a["films"] != b["films"]).any() for a, b in zip(some(3), some(4), strict=True))


def loss_and_gradient(task, params, batch):
    def loss(params, batch):
        return task.loss(params, batch, jax.random.key(0), False)[0]

    return jax.jit(jax.value_and_grad(loss))(params, batch)


def test_the_loss_is_that_of_tags_encoded_one_by_one():
    task = make_task(negative_share=1.0)
    params = jax.tree.map(jnp.asarray, task.warm_start())
    batch = next(task.batches(8, seed=0))
    value, _ = loss_and_gradient(task, params, batch)
    cosines = MODEL.scores()[batch["films"]] / 0.1
    expected = []
    for row, film, position in zip(cosines, batch["films"], batch["positives"], strict=True):
        text = batch["input_ids"][batch["attention_mask"] == position + 1]
        tag = (text[0] - 10) // 10
        kept = row[(VOTES[film] == 0) | (np.arange(NUM_TAGS) == tag)]
        expected.append(np.log(np.exp(kept).sum()) - row[tag])
    np.testing.assert_allclose(value, np.average(expected, weights=batch["weights"]), rtol=1e-5)


@pytest.mark.parametrize("mesh_config", [MeshConfig(data=8), MeshConfig(data=2, model=4)])
def test_loss_and_gradient_on_eight_devices_equal_those_on_one(mesh_config):
    task = make_task()
    params = jax.tree.map(jnp.asarray, task.warm_start())
    batch = next(task.batches(8, seed=0))
    mesh = make_mesh(mesh_config)
    placed = jax.device_put(params, shardings(params, mesh, task.rules, None))
    split = loss_and_gradient(task, placed, shard_batch(batch, mesh))
    whole = loss_and_gradient(task, params, batch)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-3), split, whole)


def test_fine_tuning_ranks_the_tags_of_unseen_films_first(tmp_path):
    before = measure(SPLIT.part("test", VOTES), SPLIT.part("test", MODEL.scores()), 0)
    task = make_task()
    params, trained = fine_tune(task, tmp_path / "run")
    test_scores = task.scores(params, "test")
    assert test_scores.dtype == np.float32
    losses = [e["loss"] for e in read_metrics(tmp_path / "run") if e["kind"] == "train"]
    assert losses[-1] < 0.5 * losses[0]
    after = measure(SPLIT.part("test", VOTES), test_scores, 0)
    assert after.values["MAP"] > max(0.9, before.values["MAP"])
    kinds = np.argmax(VOTES, axis=1)[SPLIT.test_films]
    assert np.mean(test_scores.argmax(axis=1) == kinds) > 0.8
    table = np.asarray(trained.params["entities"]["embedding"])
    np.testing.assert_array_equal(table[:NUM_FILMS], MODEL.table)
    assert task.evaluate(params) == pytest.approx(trained.best, abs=1e-6)
    # A finished run is taken up, not trained again; other votes do not go into its folder.
    again, _ = fine_tune(make_task(), tmp_path / "run")
    np.testing.assert_array_equal(task.scores(again, "test"), test_scores)
    other = SoftmaxTagTask(MODEL, 2 * VOTES, SPLIT, config(), dev_measures)
    with pytest.raises(InputError, match="data fingerprint"):
        fine_tune(other, tmp_path / "run")


def test_open_vocabulary_tags_are_never_seen_in_training():
    films = np.arange(NUM_FILMS, dtype=np.int32)
    tags = np.arange(NUM_TAGS, dtype=np.int32)
    split = TagSplit("open", films, films, films, tags[[5, 0, 3, 1]], tags[[2]], tags[[4, 6, 7]])
    task = SoftmaxTagTask(MODEL, VOTES, split, config(), dev_measures)
    for batch in itertools.islice(task.batches(8, seed=0), 6):
        seen = set((batch["input_ids"][batch["position_ids"] == 0] // 10 - 1).tolist()) - {-1}
        assert seen <= {5, 0, 3, 1}


@pytest.mark.parametrize(
    "changes", [{"negative_share": 0.0}, {"negative_share": 1.5}, {"temperature": 0.0}]
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        config(**changes)


def test_training_films_without_votes_are_refused():
    with pytest.raises(InputError, match="no training film has a vote"):
        SoftmaxTagTask(MODEL, 0 * VOTES, SPLIT, config(), dev_measures)
