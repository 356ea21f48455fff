"""Encoding keeps order and few shapes."""

import jax
import numpy as np

from retrieval_jax.encoding import encode, jit_encoder
from tests.bert_folders import tiny_config, tiny_params
from tests.retrieval_jax.test_pipeline import table_of


def test_vectors_come_in_input_order_with_few_shapes():
    lengths = [int(x) for x in np.random.default_rng(0).integers(2, 60, 37)]
    shapes = set()

    def encode_batch(input_ids, attention_mask):
        shapes.add(input_ids.shape)
        return np.stack([input_ids[:, 0], attention_mask.sum(axis=1)], axis=1).astype(np.float32)

    vectors = encode(encode_batch, table_of(lengths), batch_size=8)
    np.testing.assert_array_equal(vectors, np.stack([np.arange(1, 38), lengths], axis=1))
    assert {shape[0] for shape in shapes} == {8}
    assert len(shapes) <= 4


def test_one_text_gives_the_vector_it_has_among_others():
    config = tiny_config()
    params = tiny_params(config)
    run = jit_encoder(config, "mean")
    body = {"embeddings": params["embeddings"], "encoder": params["encoder"]}
    table = table_of([5, 20, 9])

    def encode_batch(*batch):
        return run(body, *batch)

    together = encode(encode_batch, table, batch_size=2)
    assert together.shape == (3, config.hidden_size)
    alone = run(body, **table.rows(np.array([1]), 20))
    np.testing.assert_allclose(together[1], jax.device_get(alone)[0], atol=1e-5)
