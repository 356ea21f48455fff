"""The models: packed sentences, temperature, table, the place of an entity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from docent_jax.model import (
    Dual,
    Full,
    Hybrid,
    entity_factors,
    entity_places,
    entity_vectors,
    init_params,
    jit_text_encoder,
    text_factors,
)
from retrieval_jax.packing import pack, place
from tests.bert_folders import tiny_config
from tests.retrieval_jax.test_packing import POOLINGS, one_text_a_row, random_texts

LENGTHS = np.array([9, 3, 20, 14, 6])


def make(pooling="mean", learn_temperature=True):
    model = Dual(tiny_config(), 7, pooling, 0.05, learn_temperature)
    pieces = jnp.zeros((1, 1), jnp.int32)
    init = jax.jit(model.init, static_argnums=4)
    return model, init(jax.random.key(0), pieces, pieces, pieces, 1)["params"]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_sentences_packed_and_one_a_row_have_the_same_vectors(pooling):
    model, params = make(pooling)
    input_ids = random_texts(LENGTHS)
    placement = place(LENGTHS, 32)
    assert placement.num_rows == 2
    packed = pack(input_ids, LENGTHS, placement, (2, 32))
    single = one_text_a_row(input_ids, LENGTHS)
    apply = jax.jit(lambda rows: model.apply({"params": params}, **rows, num_texts=5)[0])
    vectors = apply(packed)
    assert vectors.shape == (5, 16)
    assert vectors.dtype == jnp.float32
    np.testing.assert_allclose(vectors, apply(single), atol=1e-5)


@pytest.mark.parametrize("learned", [False, True])
def test_temperature_starts_where_it_is_told_and_is_a_parameter_only_if_learned(learned):
    model, params = make(learn_temperature=learned)
    assert ("log_temperature" in params) == learned
    rows = one_text_a_row(random_texts(LENGTHS), LENGTHS)
    apply = jax.jit(model.apply, static_argnames="num_texts")
    _, table, temperature = apply({"params": params}, **rows, num_texts=5)
    np.testing.assert_allclose(temperature, 0.05, rtol=1e-6)
    assert table.shape == (7, 16)
    assert params["entities"]["embedding"].shape == (64, 16)
    np.testing.assert_array_equal(table, entity_vectors(params, 7))


def full_texts():
    """Texts [CLS] [MASK] [SEP] ..., packed in two rows and one a row."""
    input_ids = random_texts(LENGTHS)
    input_ids[:, :3] = [2, 4, 3]
    packed = pack(input_ids, LENGTHS, place(LENGTHS, 32), (2, 32))
    return packed, one_text_a_row(input_ids, LENGTHS)


def test_places_of_entities_in_a_hand_made_batch():
    mask = np.array([[2, 2, 2, 1, 1, 1, 0, 0], [3, 3, 3, 3, 0, 0, 0, 0]], np.int32)
    np.testing.assert_array_equal(entity_places(mask, 3), [4, 1, 9])
    # A number without pieces stays within the rows.
    assert 0 <= entity_places(mask, 4)[3] < 16


def test_full_texts_packed_and_one_a_row_have_the_same_logits():
    model = Full(tiny_config(), 7)
    params = init_params(model, jax.random.key(0))
    entity_ids, hidden = np.array([3, 1, 6, 0, 3]), np.array([True, False, False, True, True])

    def logits(rows):
        shape = rows["input_ids"].shape
        every_column = np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape)
        entities, words = jax.jit(model.apply)(
            {"params": params},
            **rows,
            positions=every_column,
            entity_ids=entity_ids,
            entity_masked=hidden,
        )
        texts = [np.asarray(words)[rows["attention_mask"] == number] for number in range(1, 6)]
        return entities, np.concatenate(texts)

    packed, single = map(logits, full_texts())
    assert packed[0].shape == (5, 7)
    np.testing.assert_allclose(packed[0], single[0], atol=1e-5)
    np.testing.assert_allclose(packed[1], single[1], atol=1e-5)


def test_full_shows_an_entity_only_where_it_is_not_masked():
    model = Full(tiny_config(), 7)
    params = init_params(model, jax.random.key(0))
    rows = full_texts()[1]
    positions = np.full((5, 1), 2, np.int32)

    def words(entity_ids, masked):
        return jax.jit(model.apply)(
            {"params": params},
            **rows,
            positions=positions,
            entity_ids=np.array(entity_ids),
            entity_masked=np.array(masked),
        )[1][:, 0]

    masked = [True, False, True, False, False]
    change = np.abs(words([0, 1, 2, 3, 4], masked) - words([5, 6, 5, 6, 4], masked)).max(axis=1)
    np.testing.assert_array_equal(change > 1e-4, [False, True, False, True, False])


def test_full_encodes_with_all_entities_masked_packed_as_one_a_row():
    model = Full(tiny_config(), 7)
    params = init_params(model, jax.random.key(0))
    packed, single = full_texts()
    encode = jit_text_encoder(model)
    vectors = encode(params, packed, 8)  # more texts than there are, as batches of texts have
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[:5], encode(params, single, 5), atol=1e-5)
    # The logits of training are the products of the two sides.
    logits, _ = model.apply(
        {"params": params},
        **packed,
        positions=np.zeros((2, 1), np.int32),
        entity_ids=np.zeros(5, np.int32),
        entity_masked=np.ones(5, bool),
    )
    bias = np.arange(7, dtype=np.float32)
    factors = entity_factors(entity_vectors(params, 7), jnp.asarray(bias))
    np.testing.assert_allclose(
        text_factors(vectors[:5], True) @ factors.T, logits + bias[None], atol=1e-4
    )


@pytest.mark.parametrize("one_pass", [False, True])
def test_hybrid_gives_what_dual_gives_of_the_whole_or_the_masked_rows(one_pass):
    model = Hybrid(tiny_config(), 7, "mean", 0.05, True, one_pass)
    params = init_params(model, jax.random.key(0))
    whole = one_text_a_row(random_texts(LENGTHS), LENGTHS)
    masked = whole | {"input_ids": np.where(whole["input_ids"] % 3 == 0, 4, whole["input_ids"])}
    positions, entity_ids = np.ones((5, 2), np.int32), np.array([6, 0, 1, 2, 3])

    def joint(rows, masked_ids):
        return model.apply(
            {"params": params},
            **rows,
            masked_ids=masked_ids,
            positions=positions,
            entity_ids=entity_ids,
            method=Hybrid.joint,
        )

    *pair, logits = joint(whole, masked["input_ids"])
    expected = model.apply({"params": params}, **(masked if one_pass else whole), num_texts=5)
    jax.tree.map(np.testing.assert_array_equal, tuple(pair), expected)
    # Words see the masked rows only.
    np.testing.assert_array_equal(logits, joint(masked, masked["input_ids"])[3])
    assert np.abs(logits - joint(whole, whole["input_ids"])[3]).max() > 1e-3
    assert logits.shape == (5, 2, 200)
    assert params["word_head"]["transform"]["kernel"].shape == (32, 16)
