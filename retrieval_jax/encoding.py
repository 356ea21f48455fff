"""Encoding many texts into vectors: packed rows of one shape, results in input order."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.progress import Progress, track

from retrieval_jax.bert import Bert, BertConfig, Pooling, pool
from retrieval_jax.files import write_array_blocks
from retrieval_jax.packing import (
    WIDTH_MULTIPLE,
    Placement,
    place,
    power_of_two,
    round_up,
    row_width,
)
from retrieval_jax.pipeline import Batch, TokenTable

# (rows of packed texts (`packing.pack`), number of texts) -> `[texts, dim]`; jitted, parameters
# bound.
EncodeBatch = Callable[[Batch, int], jax.Array]

# Texts whose vectors `encode_to_file` holds: 192 MiB of BERT-base's.
SLICE = 2**16


def jit_encoder(config: BertConfig, pooling: Pooling) -> Callable[[Any, Batch, int], jax.Array]:
    """Jits (parameters of `Bert`, packed rows, number of texts) -> `[texts, dim]` float32."""

    def encode_batch(params: Any, rows: dict[str, jax.Array], num_texts: int) -> jax.Array:
        hidden: Any = Bert(config).apply(
            {"params": params},
            rows["input_ids"],
            rows["attention_mask"],
            position_ids=rows["position_ids"],
        )
        return pool(hidden, rows["attention_mask"], pooling, num_texts)

    return jax.jit(encode_batch, static_argnums=2)


def encode(
    encode_batch: EncodeBatch,
    table: TokenTable,
    batch_pieces: int | None = None,
    progress: str | None = None,
    advance: Callable[[int], object] | None = None,
) -> np.ndarray:
    """Encodes every text of `table`.

    Args:
        encode_batch: called with few shapes, so that little is compiled.
        table: tokenised texts, one or more.
        batch_pieces: word pieces a call; by default few on a CPU: its caches then hold them, and
            what a call takes in memory beside the weights is little.
        progress: title of a progress bar; None shows none.
        advance: told after each call how many texts it encoded, for a bar over several tables.

    Returns:
        float32 `[texts, dim]`, in the order of `table`.
    """
    if batch_pieces is None:
        batch_pieces = 512 if jax.default_backend() == "cpu" else 32768
    width = row_width(table.lengths)
    placement = place(table.lengths, width)
    # Powers of two where texts decide, so that other tables meet the same shapes.
    num_rows = min(max(batch_pieces // width, 1), power_of_two(placement.num_rows))
    if placement.num_rows == 1:
        width = min(power_of_two(width), round_up(width, WIDTH_MULTIPLE))
    call = placement.rows // num_rows
    texts_of_call = np.split(np.argsort(call, kind="stable"), np.cumsum(np.bincount(call))[:-1])
    # As many as texts of four pieces fill: then the rows alone decide the shape, mostly.
    num_texts = power_of_two(max(num_rows * width // 4, *map(len, texts_of_call)))
    vectors: np.ndarray | None = None
    for texts in track(texts_of_call, progress or "", disable=progress is None):
        within = Placement(placement.rows[texts] % num_rows, placement.starts[texts])
        encoded = encode_batch(table.pack(texts, within, (num_rows, width)), num_texts)
        if vectors is None:
            vectors = np.empty((len(call), encoded.shape[1]), np.float32)
        vectors[texts] = np.asarray(encoded)[: len(texts)]
        if advance is not None:
            advance(len(texts))
    assert vectors is not None
    return vectors


def encode_to_file(
    encode_batch: EncodeBatch, table: TokenTable, dim: int, path: Path, progress: str
) -> None:
    """Encodes every text of `table` into a NumPy file, `SLICE` texts at a time.

    Memory does not grow with the number of texts. A slice is encoded as `encode` does it.

    Args:
        encode_batch: as for `encode`.
        table: tokenised texts, one or more; memory-mapped if they are many.
        dim: of the vectors.
        path: gets float32 `[texts, dim]`, in the order of `table`; written in place.
        progress: title of a progress bar over all texts.

    Raises:
        OSError: the file cannot be written.
        ValueError: vectors of another `dim`.
    """
    texts = len(table.lengths)

    def slices(advance: Callable[[int], object]) -> Iterator[np.ndarray]:
        for start in range(0, texts, SLICE):
            rows = slice(start, start + SLICE)
            part = TokenTable(table.input_ids[rows], table.lengths[rows])
            yield encode(encode_batch, part, advance=advance)

    with Progress() as bar:
        task = bar.add_task(progress, total=texts)
        blocks = slices(functools.partial(bar.advance, task))
        write_array_blocks(path, (texts, dim), np.float32, blocks)


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """Vectors `[n, dim]` divided by their Euclidean length; zeros stay zeros."""
    # As torch.nn.functional.normalize.
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
