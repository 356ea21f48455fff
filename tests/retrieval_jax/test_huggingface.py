"""BERT folders: round trips, name variants, and errors that name what is wrong."""

import dataclasses
import json

import jax
import numpy as np
import pytest
import safetensors.numpy

from retrieval_jax.bert import stack_layers
from retrieval_jax.errors import InputError
from retrieval_jax.huggingface import load_bert, load_bert_config, save_bert
from tests.bert_folders import tiny_config, tiny_params, write_tiny_bert


def equal(a, b):
    return jax.tree.structure(a) == jax.tree.structure(b) and jax.tree.all(
        jax.tree.map(np.array_equal, a, b)
    )


def rewrite_weights(folder, change):
    path = folder / "model.safetensors"
    safetensors.numpy.save_file(change(safetensors.numpy.load_file(path)), path)


def rewrite_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize("mlm_head", [True, False])
def test_round_trip(tmp_path, mlm_head):
    config = tiny_config()
    params = tiny_params(config, mlm_head=mlm_head)
    save_bert(tmp_path, config, params)
    loaded_config, loaded = load_bert(tmp_path)
    assert loaded_config == config
    assert equal(loaded, params)
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(loaded))


def test_prefix_and_old_layer_norm_names_are_understood(tmp_path):
    config = tiny_config()
    params = tiny_params(config)
    save_bert(tmp_path, config, params)

    def rename(tensors):
        return {
            "bert."
            + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): tensor
            for name, tensor in tensors.items()
        }

    rewrite_weights(tmp_path, rename)
    assert equal(load_bert(tmp_path)[1], params)


def test_shards_are_read_together(tmp_path):
    config = tiny_config()
    params = tiny_params(config)
    save_bert(tmp_path, config, params)
    tensors = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in halves.items():
        safetensors.numpy.save_file({n: tensors[n] for n in part}, tmp_path / file)
    weight_map = {n: file for file, part in halves.items() for n in part}
    index = json.dumps({"weight_map": weight_map})
    (tmp_path / "model.safetensors.index.json").write_text(index)
    assert equal(load_bert(tmp_path)[1], params)


def test_stacked_layers_are_written_like_single_ones(tmp_path):
    config = dataclasses.replace(tiny_config(), scan_layers=True)
    params = tiny_params(tiny_config())
    save_bert(tmp_path, config, stack_layers(params, 2))
    assert equal(load_bert(tmp_path)[1], params)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", "[]", "holds no object"),
        ("model.safetensors.index.json", "{", "no index of shards"),
    ],
)
def test_json_files_of_another_form_are_named(tmp_path, name, content, words):
    write_tiny_bert(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=words):
        load_bert(tmp_path)


def test_heads_that_do_not_divide_the_width_are_refused(tmp_path):
    write_tiny_bert(tmp_path)
    rewrite_config(tmp_path, num_attention_heads=3)
    with pytest.raises(InputError, match="num_heads"):
        load_bert(tmp_path)


def test_half_precision_weights_become_float32(tmp_path):
    config = tiny_config()
    params = tiny_params(config)
    save_bert(tmp_path, config, params)
    rewrite_weights(tmp_path, lambda ts: {n: t.astype(np.float16) for n, t in ts.items()})
    _, loaded = load_bert(tmp_path)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-3), loaded, params)
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(loaded))


def test_weights_without_pooler_load_without_pooler(tmp_path):
    config = tiny_config()
    save_bert(tmp_path, config, tiny_params(config))
    rewrite_weights(tmp_path, lambda ts: {n: t for n, t in ts.items() if "pooler" not in n})
    assert set(load_bert(tmp_path)[1]) == {"embeddings", "encoder"}


def test_missing_tensors_are_named(tmp_path):
    write_tiny_bert(tmp_path)
    gone = "encoder.layer.1.attention.self.key.weight"
    rewrite_weights(tmp_path, lambda ts: {n: t for n, t in ts.items() if n != gone})
    with pytest.raises(InputError, match=gone.replace(".", r"\.")):
        load_bert(tmp_path)


def test_weights_of_another_architecture_are_refused(tmp_path):
    write_tiny_bert(tmp_path)
    rewrite_weights(tmp_path, lambda ts: {"transformer.h.0.attn.weight": np.ones((2, 2))})
    with pytest.raises(InputError, match="another architecture"):
        load_bert(tmp_path)


def test_configuration_of_another_architecture_is_refused(tmp_path):
    write_tiny_bert(tmp_path)
    rewrite_config(tmp_path, model_type="gpt2")
    with pytest.raises(InputError, match="'gpt2'"):
        load_bert(tmp_path)
    rewrite_config(tmp_path, model_type="bert", position_embedding_type="relative_key")
    with pytest.raises(InputError, match="relative_key"):
        load_bert(tmp_path)
    rewrite_config(tmp_path, position_embedding_type="absolute", hidden_act="swish")
    with pytest.raises(InputError, match="swish"):
        load_bert(tmp_path)


def test_shape_that_does_not_fit_the_configuration_is_named(tmp_path):
    write_tiny_bert(tmp_path)
    rewrite_config(tmp_path, intermediate_size=64)
    with pytest.raises(InputError, match=r"intermediate\.dense"):
        load_bert(tmp_path)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff" * 100])
def test_corrupt_weights_are_named(tmp_path, content):
    write_tiny_bert(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="no intact safetensors"):
        load_bert(tmp_path)


def test_truncated_weights_are_named(tmp_path):
    write_tiny_bert(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="no intact safetensors"):
        load_bert(tmp_path)


def test_pickled_weights_are_not_opened(tmp_path):
    write_tiny_bert(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickle can run code"):
        load_bert(tmp_path)


def test_absent_folder_and_absent_or_broken_config(tmp_path):
    with pytest.raises(InputError, match="no such encoder folder"):
        load_bert_config(tmp_path / "none")
    with pytest.raises(InputError, match=r"no config\.json"):
        load_bert_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="no JSON"):
        load_bert_config(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 3}')
    with pytest.raises(InputError, match="lacks vocab_size"):
        load_bert_config(tmp_path)
