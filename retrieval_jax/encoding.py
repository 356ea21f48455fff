"""Encoding many texts into vectors: rows of like length together, results in input order."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from rich.progress import track

from retrieval_jax.bert import Bert, BertConfig, Pooling, pool
from retrieval_jax.pipeline import TokenTable, bucket_width, bucket_widths

# (input_ids, attention_mask), int32 `[batch, width]` -> `[batch, dim]`; jitted, parameters bound.
EncodeBatch = Callable[[jax.Array, jax.Array], jax.Array]


def jit_encoder(config: BertConfig, pooling: Pooling) -> Callable[[Any, Any, Any], jax.Array]:
    """Jits (parameters of `Bert`, input_ids, attention_mask) -> `[batch, dim]` float32."""

    def encode_batch(params: Any, input_ids: jax.Array, attention_mask: jax.Array) -> jax.Array:
        hidden = Bert(config).apply({"params": params}, input_ids, attention_mask)
        return pool(hidden, attention_mask, pooling)

    return jax.jit(encode_batch)


def encode(
    encode_batch: EncodeBatch, table: TokenTable, batch_size: int = 64, progress: str | None = None
) -> np.ndarray:
    """Encodes every text of `table`.

    Args:
        encode_batch: called with equal batch sizes and few widths, so that little is compiled.
        table: tokenised texts.
        batch_size: texts a call.
        progress: title of a progress bar; None shows none.

    Returns:
        float32 `[texts, dim]`, in the order of `table`.
    """
    order = np.argsort(table.lengths, kind="stable")
    starts = range(0, len(order), batch_size)
    widths = bucket_widths(table)
    encoded = []
    for start in track(starts, progress or "", disable=progress is None):
        rows = order[start : start + batch_size]
        padded = np.resize(rows, batch_size)  # the last batch repeats rows, so its shape is known
        batch = table.rows(padded, bucket_width(widths, int(table.lengths[rows].max())))
        encoded.append(encode_batch(batch["input_ids"], batch["attention_mask"]))
    stacked = np.concatenate([np.asarray(vectors, np.float32) for vectors in encoded])
    vectors = np.empty((len(order), stacked.shape[1]), np.float32)
    vectors[order] = stacked[: len(order)]
    return vectors
