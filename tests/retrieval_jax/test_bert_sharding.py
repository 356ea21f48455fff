"""BERT split over the model axis computes what one device does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from retrieval_jax.bert import Bert, stack_layers
from retrieval_jax.bert_sharding import bert_rules
from retrieval_jax.sharding import MeshConfig, make_mesh, shard_batch, shardings
from tests.bert_folders import tiny_config, tiny_params

PIECES = np.random.default_rng(0).integers(5, 200, (8, 12)).astype(np.int32)


@pytest.mark.parametrize("scan_layers", [False, True])
def test_loss_gradient_and_placement(scan_layers):
    config = tiny_config(num_heads=4, scan_layers=scan_layers)
    params = tiny_params(tiny_config(num_heads=4))
    params = {part: params[part] for part in ("embeddings", "encoder")}
    if scan_layers:
        params = stack_layers(params, config.num_layers)
    mesh = make_mesh(MeshConfig(data=2, model=4))
    placed = jax.device_put(params, shardings(params, mesh, bert_rules(config, 4)))

    def loss(params, pieces):
        hidden = Bert(config).apply({"params": params}, pieces, jnp.ones_like(pieces))
        return jnp.mean(jnp.sin(hidden))

    compute = jax.jit(jax.value_and_grad(loss))
    split, whole = compute(placed, shard_batch({"x": PIECES}, mesh)["x"]), compute(params, PIECES)
    for ours, theirs in zip(jax.tree.leaves(split), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)

    parts = {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf.sharding.shard_shape(
            leaf.shape
        )
        != leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(placed)
    }
    layer = "encoder/layers" if scan_layers else "encoder/layer_0"
    names = ("attention/qkv", "attention/output", "intermediate", "output")
    assert all(parts[f"{layer}/{name}/kernel"] for name in names)
    assert parts[f"{layer}/intermediate/bias"]
    assert not parts[f"{layer}/output/bias"]
    assert not parts["embeddings/word/embedding"]


def test_what_does_not_divide_stays_whole():
    rules = dict(bert_rules(tiny_config(), 4))  # 2 heads, 32 inner units
    assert rules["intermediate/kernel$"] == PartitionSpec(None, "model")
    assert not any("attention" in pattern for pattern in rules)
    assert bert_rules(tiny_config(), 1) == ()
