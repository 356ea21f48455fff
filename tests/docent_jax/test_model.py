"""DocEnt-Dual: packed sentences, temperature, table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from docent_jax.model import Dual, entity_vectors
from retrieval_jax.packing import pack, place
from tests.bert_folders import tiny_config
from tests.retrieval_jax.test_packing import POOLINGS, one_text_a_row, random_texts

LENGTHS = np.array([9, 3, 20, 14, 6])


def make(pooling="mean", learn_temperature=True):
    model = Dual(tiny_config(), 7, pooling, 0.05, learn_temperature)
    pieces = jnp.zeros((1, 1), jnp.int32)
    return model, model.init(jax.random.key(0), pieces, pieces, pieces, 1)["params"]


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
    _, table, temperature = model.apply({"params": params}, **rows, num_texts=5)
    np.testing.assert_allclose(temperature, 0.05, rtol=1e-6)
    assert table.shape == (7, 16)
    assert params["entities"]["embedding"].shape == (64, 16)
    np.testing.assert_array_equal(table, entity_vectors(params, 7))
