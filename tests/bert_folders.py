"""Small BERT folders for tests, of the same format as real ones."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp

from retrieval_jax.bert import Bert, BertConfig
from retrieval_jax.huggingface import save_bert

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,()-_"


def tiny_config(**changes) -> BertConfig:
    """Two layers of width 16 over letters and the given words."""
    fields = {
        "vocab_size": 200,
        "hidden_size": 16,
        "num_layers": 2,
        "num_heads": 2,
        "intermediate_size": 32,
        "max_positions": 64,
    }
    return BertConfig(**(fields | changes))


def tiny_params(config: BertConfig, seed: int = 0, mlm_head: bool = False) -> dict:
    """Random parameters, with pooler, and MLM head if asked for."""
    model = Bert(config, with_pooler=True, with_mlm_head=mlm_head)

    def initialise(module):
        pieces = jnp.zeros((1, 1), jnp.int32)
        hidden = module(pieces, pieces)
        module.pool_first(hidden)
        if mlm_head:
            module.mlm_logits(hidden, pieces)

    params = model.init(jax.random.key(seed), method=initialise)["params"]
    # Biases and norms away from 0 and 1, so that a mix-up shows.
    keys = iter(jax.random.split(jax.random.key(seed + 1), 200))
    return jax.tree.map(lambda a: a + 0.05 * jax.random.normal(next(keys), a.shape), params)


def write_tiny_bert(
    folder: Path, words=(), seed: int = 0, mlm_head: bool = False, **changes
) -> BertConfig:
    """Writes a complete folder: configuration, weights, WordPiece tokenizer."""
    pieces = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), *words]
    config = tiny_config(vocab_size=len(pieces), **changes)
    save_bert(folder, config, tiny_params(config, seed, mlm_head))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}), encoding="utf-8"
    )
    return config
