"""From pairs to a folder that tells them apart: both objectives, cross-validation, refusals."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mathsim_jax
from mathsim_jax import fine_tuning
from mathsim_jax.data import tokenize_pairs
from mathsim_jax.datasets.pairs import Pairs
from mathsim_jax.evaluation import pair_measures
from mathsim_jax.fine_tuning import (
    cross_validate,
    fine_tune,
    load_encoder,
    make_task,
    score_pairs,
    training_pairs,
)
from mathsim_jax.sentence_transformers_format import SentenceModules, write_modules
from retrieval_jax.bert import Bert, pool
from retrieval_jax.errors import InputError
from retrieval_jax.losses import l2_normalize
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch
from retrieval_jax.training import train
from tests.bert_folders import write_tiny_bert
from tests.mathsim_jax.toy_pairs import FILLERS, SUBJECTS, fine_tuning_config, toy_pairs

PAIRS, DEV = toy_pairs(), toy_pairs(seed=50, per_subject=8)


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    write_tiny_bert(folder, words=(*SUBJECTS, *FILLERS))
    return str(folder)


@pytest.mark.parametrize(
    "objective", ["cosine", pytest.param("contrastive", marks=pytest.mark.long)]
)
def test_training_tells_pairs_apart_and_the_folder_does_so_too(encoder_folder, tmp_path, objective):
    config = fine_tuning_config(encoder_folder, objective=objective)
    untouched = score_pairs(config, load_encoder(config.model), DEV, 16)
    before = pair_measures(untouched, DEV.labels)
    run, trained, folder = fine_tune(config, PAIRS, DEV, tmp_path / "run")
    with pytest.raises(InputError, match="data fingerprint"):  # another dev set chose its best step
        fine_tune(config, PAIRS, PAIRS, tmp_path / "run")
    assert before["AP"] < 0.8
    assert trained.best["AP"] > 0.85
    assert trained.best["Spearman"] > before["Spearman"] + 0.1
    # What is exported is the best step.
    tuned = dataclasses.replace(config.model, encoder=str(folder))
    scores = score_pairs(config, load_encoder(tuned), DEV, 16)
    assert pair_measures(scores, DEV.labels) == pytest.approx(trained.best, abs=1e-5)
    encoder = mathsim_jax.SentenceEncoder.from_pretrained(folder)
    first, second = (encoder.encode(list(part)) for part in (DEV.first, DEV.second))
    np.testing.assert_allclose((first * second).sum(axis=1), scores, atol=1e-5)
    assert run.read_json("card.json") == {}


def test_what_lower_cases_texts_does_so_in_training_and_after(tmp_path):
    config = write_tiny_bert(tmp_path / "bert", words=(*SUBJECTS, *FILLERS))
    path = tmp_path / "bert" / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"do_lower_case": False}))
    start = SentenceModules(lower_case=True, prompts={"q": "curve "}, default_prompt="q")
    write_modules(tmp_path / "bert", start, config.hidden_size)
    tuning = fine_tuning_config(str(tmp_path / "bert"), steps=1)
    learned = load_encoder(tuning.model).tokenizer
    assert learned.tokenize("Every GRAPH") == ["every", "graph"]
    _, _, folder = fine_tune(tuning, PAIRS, None, tmp_path / "run")
    tuned = dataclasses.replace(tuning.model, encoder=str(folder))
    assert load_encoder(tuned).tokenizer.tokenize("GRAPH") == ["graph"]
    encoder = mathsim_jax.SentenceEncoder.from_pretrained(folder)
    assert (encoder.modules.lower_case, encoder.modules.prompts) == (True, {})
    upper, lower = encoder.encode(["Every GRAPH", "every graph"])
    np.testing.assert_allclose(upper, lower, atol=1e-6)


def test_the_cosine_objective_is_the_squared_error_of_each_pair(encoder_folder):
    config = fine_tuning_config(encoder_folder)
    encoder = load_encoder(config.model)
    task = make_task(config, encoder, PAIRS, None)
    params = task.warm_start()
    batch = {name: jnp.asarray(array) for name, array in next(task.batches(16, 0)).items()}
    loss, metrics = task.loss(params, batch, jax.random.key(0), True)
    hidden = jax.jit(Bert(encoder.config).apply)(
        {"params": params},
        batch["input_ids"],
        batch["attention_mask"],
        position_ids=batch["position_ids"],
    )
    unit = np.asarray(l2_normalize(pool(hidden, batch["attention_mask"], "mean", 32)))
    cosine = (unit[batch["first"]] * unit[batch["second"]]).sum(axis=1)
    expected = np.mean((cosine - np.asarray(batch["labels"])) ** 2)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert metrics == {}
    assert task.inseparable is None
    assert task.evaluate(params) == {}


def test_contrastive_takes_positives_and_masks_their_group(encoder_folder):
    config = fine_tuning_config(encoder_folder, objective="contrastive", temperature=1.0)
    encoder = load_encoder(config.model)
    task = make_task(config, encoder, PAIRS, None)
    assert "negatives" in str(task.inseparable)
    batch = {name: jnp.asarray(array) for name, array in next(task.batches(16, 0)).items()}
    assert np.asarray(batch["labels"]).all()
    # All of one group: nothing is a negative of anything.
    same = batch | {"groups": jnp.zeros_like(batch["groups"])}
    loss, _ = task.loss(task.warm_start(), same, jax.random.key(0), False)
    np.testing.assert_allclose(loss, 0, atol=1e-6)
    assert task.loss(task.warm_start(), batch, jax.random.key(0), False)[0] > 0.5


def gradients(task, batch):
    def loss(params):
        return task.loss(params, batch, jax.random.key(0), False)[0]

    return jax.jit(jax.value_and_grad(loss))(jax.tree.map(jnp.asarray, task.warm_start()))


@pytest.mark.parametrize(
    ("first", "second", "mask"),
    [
        # Pairs 0 and 1 have one second text: for either the third is the only negative.
        (
            ("graph the", "group of", "field proof"),
            ("new graph", "new graph", "every curve"),
            [[1, 0, 1], [0, 1, 1], [1, 1, 1]],
        ),
        # The first text of pair 1 is the second of pair 0: no negative of itself.
        (
            ("graph the", "new graph", "field proof"),
            ("new graph", "group of", "every curve"),
            [[1, 1, 1], [0, 1, 1], [1, 1, 1]],
        ),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_equal_texts_are_no_negatives_under_other_groups_either(
    encoder_folder, first, second, mask, chunked
):
    config = fine_tuning_config(encoder_folder, objective="contrastive", temperature=1.0)
    config = dataclasses.replace(config, chunk_pairs=3 if chunked else None)
    encoder = load_encoder(config.model)
    pairs = Pairs(first, second, np.ones(3, np.int32), ("a", "b", "c"))
    task = make_task(config, encoder, pairs, None, one_device())
    each = [(a, b) for a in first for b in second]
    every = Pairs(*map(tuple, zip(*each, strict=True)), np.ones(9, np.int32), ("x",) * 9)
    params = task.warm_start()
    logits = task.cosines(params, tokenize_pairs(every, encoder.tokenizer, 16)).reshape(3, 3)

    def loss_of(logits, mask):
        return np.mean(np.log(np.sum(mask * np.exp(logits), axis=1)) - np.diag(logits))

    loss, _ = task.loss(params, next(task.batches(3, 0)), jax.random.key(0), False)
    expected = (loss_of(logits, np.array(mask)) + loss_of(logits.T, np.array(mask).T)) / 2
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def one_device():
    return make_mesh(MeshConfig(), jax.devices()[:1])


def test_chunks_give_the_loss_and_gradient_of_the_batch_at_once(encoder_folder):
    config = fine_tuning_config(encoder_folder, objective="contrastive")
    encoder = load_encoder(config.model)
    mesh = make_mesh(MeshConfig(), jax.devices()[:2])
    chunked = dataclasses.replace(config, chunk_pairs=4)
    task = make_task(chunked, encoder, PAIRS, None, mesh)
    batch = next(task.batches(16, 0))
    # Rows of chunks are rows like others.
    at_once = make_task(config, encoder, PAIRS, None, one_device())
    value, gradient = gradients(task, shard_batch(batch, mesh))
    expected_value, expected = gradients(at_once, batch)
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), gradient, expected
    )


def test_chunks_are_refused_where_they_mean_nothing(encoder_folder):
    with pytest.raises(InputError, match="objective 'cosine'"):
        fine_tuning_config(encoder_folder, chunk_pairs=4)
    low = {"objective": "contrastive", "temperature": 0.01}
    with pytest.raises(InputError, match=r"temperature is 0\.01"):
        fine_tuning_config(encoder_folder, chunk_pairs=4, **low)


def test_one_device_and_a_mesh_train_alike(encoder_folder):
    config = fine_tuning_config(encoder_folder, steps=3)
    encoder = load_encoder(config.model)
    params = []
    for devices, mesh in ((1, MeshConfig()), (8, MeshConfig(data=4, model=2, fsdp_mib=0.001))):
        task = make_task(config, encoder, PAIRS, None)
        training = dataclasses.replace(config.training, mesh=mesh)
        on = make_mesh(mesh, jax.devices()[:devices])
        params.append(train(task, training, mesh=on, show_progress=False).params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), *params)


def test_cross_validation_scores_each_pair_by_a_stranger(encoder_folder, monkeypatch):
    config = fine_tuning_config(encoder_folder)
    tokenized: list[Pairs] = []

    def recorded(pairs, *args):
        tokenized.append(pairs)
        return tokenize_pairs(pairs, *args)

    monkeypatch.setattr(fine_tuning, "tokenize_pairs", recorded)
    scores = cross_validate(config, PAIRS, 2, None, test_length=16)
    assert pair_measures(scores, PAIRS.labels)["AP"] > 0.9
    # Of each fold the pairs that it learns from, then those that it scores.
    learned, held_out = tokenized[::2], tokenized[1::2]
    assert len(learned) == len(held_out) == 2
    for known, strange in zip(learned, held_out, strict=True):
        assert not set(known.groups) & set(strange.groups)
        assert set(known.groups) | set(strange.groups) == set(PAIRS.groups)
        assert len(known) + len(strange) == len(PAIRS)
    assert not set(held_out[0].groups) & set(held_out[1].groups)
    # The last fold's encoder has learned from its pairs alone, not from the fold before.
    task = make_task(config, load_encoder(config.model), learned[-1], None)
    trained = train(task, config.training, show_progress=False)
    tested = tokenize_pairs(held_out[-1], load_encoder(config.model).tokenizer, 16)
    expected = task.cosines(jax.device_get(trained.params), tested)
    of_fold = np.isin(PAIRS.groups, held_out[-1].groups)
    np.testing.assert_allclose(scores[of_fold], expected, atol=1e-5)


def test_german_is_left_out_and_extra_pairs_need_a_folder(encoder_folder):
    german = "In der Arbeit wird das Problem mit der Methode von Hilbert und auch nicht so gelöst"
    pairs = Pairs(
        ("a", "b", "c"), ("a text", "another", german), np.array([1, 0, 0], np.int32), ("x",) * 3
    )
    config = fine_tuning_config(encoder_folder)
    assert training_pairs(config, pairs, None).second == ("a text", "another")
    kept = dataclasses.replace(config, german=True)
    assert training_pairs(kept, pairs, None).second == pairs.second
    with pytest.raises(InputError, match="extra pairs"):
        training_pairs(dataclasses.replace(config, extra=("afp",)), pairs, None)
    with pytest.raises(InputError, match="no negative pair"):
        training_pairs(config, pairs.take(np.array([0, 2])), None)


@pytest.mark.parametrize("length", [2, 65])
def test_a_length_without_positions_is_refused(encoder_folder, length):
    config = dataclasses.replace(fine_tuning_config(encoder_folder), max_length=length)
    with pytest.raises(InputError, match="64 positions"):
        make_task(config, load_encoder(config.model), PAIRS, None)
