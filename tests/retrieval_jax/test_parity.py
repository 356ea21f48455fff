"""Parity with the reference implementations on real weights (extra `parity`)."""

import dataclasses

import jax
import numpy as np
import pytest

from retrieval_jax.bert import Bert
from retrieval_jax.errors import InputError
from retrieval_jax.huggingface import load_bert, save_bert
from retrieval_jax.pretrained import DEFAULT_ENCODER, find_encoder, load_pretrained
from tests.bert_folders import tiny_params, write_tiny_bert

TEXTS = [
    "Compute the one-dimensional discrete Fourier Transform for real input.",
    "Singular value decomposition.",
    "A much longer sentence, with (unusual) symbols: ∀ ε ≤ δ, f(x)=x², and the word "
    + "antidisestablishmentarianism " * 10,
]


@pytest.fixture(scope="module")
def torch_bert():
    pytest.importorskip("torch")
    import transformers

    return transformers


@pytest.fixture(scope="module")
def minilm():
    try:
        return find_encoder(DEFAULT_ENCODER)
    except InputError as error:
        pytest.skip(str(error))


def test_real_weights_give_the_reference_hidden_states(torch_bert, minilm):
    import torch

    encoder = load_pretrained(str(minilm))
    batch = encoder.tokenizer(TEXTS, padding=True, return_tensors="np")
    config, params = load_bert(minilm)
    model = Bert(config, with_pooler=True)
    apply = jax.jit(lambda p, i, m, s: model.apply({"params": p}, i, m, s))
    hidden = apply(params, batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
    pooled = model.apply({"params": params}, hidden, method=Bert.pool_first)
    with torch.no_grad():
        reference = torch_bert.BertModel.from_pretrained(minilm).eval()(
            **{name: torch.tensor(value) for name, value in batch.items()}
        )
    present = batch["attention_mask"] > 0
    np.testing.assert_allclose(
        np.asarray(hidden)[present], reference.last_hidden_state.numpy()[present], atol=1e-4
    )
    np.testing.assert_allclose(pooled, reference.pooler_output.numpy(), atol=1e-4)


def test_masked_language_model_head_gives_the_reference_logits(torch_bert, tmp_path):
    import torch

    config = write_tiny_bert(tmp_path, mlm_head=True)
    params = tiny_params(config, mlm_head=True)
    reference = torch_bert.BertForMaskedLM.from_pretrained(tmp_path).eval()
    ids = np.random.default_rng(0).integers(5, config.vocab_size, (2, 9)).astype(np.int32)
    positions = np.array([[1, 3, 8], [0, 2, 5]], np.int32)
    model = Bert(config, with_pooler=True, with_mlm_head=True)
    hidden = model.apply({"params": params}, ids, np.ones_like(ids))
    logits = model.apply({"params": params}, hidden, positions, method=Bert.mlm_logits)
    with torch.no_grad():
        expected = reference(torch.tensor(ids.astype(np.int64))).logits.numpy()
    np.testing.assert_allclose(
        logits, np.take_along_axis(expected, positions[:, :, None], 1), atol=1e-4
    )


def test_a_folder_that_we_write_is_read_by_the_reference(torch_bert, tmp_path):
    import torch

    config = write_tiny_bert(tmp_path / "first")
    changed = dataclasses.replace(config, layer_norm_eps=1e-6, activation="gelu_new")
    params = tiny_params(config, seed=3)
    save_bert(tmp_path / "second", changed, params)
    reference = torch_bert.BertModel.from_pretrained(tmp_path / "second").eval()
    ids = np.random.default_rng(0).integers(5, config.vocab_size, (2, 9)).astype(np.int32)
    model = Bert(changed)
    hidden = model.apply({"params": params}, ids, np.ones_like(ids))
    with torch.no_grad():
        expected = reference(torch.tensor(ids.astype(np.int64))).last_hidden_state.numpy()
    np.testing.assert_allclose(hidden, expected, atol=1e-4)
