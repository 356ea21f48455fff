"""Encoding a large batch in chunks: what a chunk's gradient needs is computed again, not kept.

So memory does not grow with the batch (Gao et al., 2021, "Scaling deep contrastive learning batch
size under memory limited setup"), and under any loss on all of its vectors the step is that of the
batch encoded at once.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from retrieval_jax.errors import check_range

# (packed rows of some texts, numbered from 1, and a key for dropout) -> `[texts, dim]`.
EncodeRows = Callable[[dict[str, jax.Array], jax.Array], jax.Array]
ROWS = ("input_ids", "attention_mask", "position_ids")


@dataclasses.dataclass(frozen=True)
class Chunking:
    """How batches are cut into chunks.

    Attributes:
        size: examples of a chunk, at most; None = a batch is one.
        lanes: devices that share the chunks of a batch equally, if there are several.
    """

    size: int | None = None
    lanes: int = 1

    def __post_init__(self) -> None:
        """Refuses an empty chunk, by an `InputError`."""
        check_range("size of a chunk", self.size, at_least=1)

    def count(self, batch_size: int, processes: int = 1) -> int:
        """Number of chunks of a batch, or of the part that each of several processes has.

        Args:
            batch_size: examples, global; a multiple of `lanes`.
            processes: a divisor of `lanes`.
        """
        if self.size is None:
            return 1
        # No chunk is smaller than one example: then each is one.
        counts = range(self.lanes, batch_size + 1, self.lanes)
        return next(
            chunks // processes
            for chunks in counts
            if batch_size % chunks == 0 and batch_size <= chunks * self.size
        )


def map_chunks(function: Callable[..., Any], arrays: Any, lanes: int) -> Any:
    """Applies a function to each chunk, so many at a time.

    Args:
        function: (one chunk of each of `arrays`) -> a tree of arrays; pure.
        arrays: a tuple of trees of `[chunks, ...]`.
        lanes: chunks side by side, a divisor of their number: the devices over which the first axis
            is split, each of which has a run of chunks.

    Returns:
        The results, `[chunks, ...]` each.
    """
    of_lanes = jax.vmap(function)
    chunks = len(jax.tree.leaves(arrays)[0])
    if chunks == lanes:
        return of_lanes(*arrays)

    def turns(values: jax.Array) -> jax.Array:
        by_lane = values.reshape(lanes, -1, *values.shape[1:])
        return jnp.moveaxis(by_lane, 1, 0)  # [turns, lanes, ...]

    def chunks_again(values: jax.Array) -> jax.Array:
        return jnp.moveaxis(values, 1, 0).reshape(chunks, *values.shape[2:])

    _, results = jax.lax.scan(
        lambda carry, turn: (carry, jax.checkpoint(of_lanes)(*turn)),
        None,
        jax.tree.map(turns, arrays),
    )
    return jax.tree.map(chunks_again, results)


def encode_text_chunks(
    encode: EncodeRows,
    batch: Mapping[str, jax.Array],
    num_texts: int,
    chunks: int,
    rng: jax.Array,
    lanes: int = 1,
) -> jax.Array:
    """Encodes the packed texts of a batch chunk by chunk.

    Args:
        encode: encodes one chunk; its key is `rng` folded with the chunk's number.
        batch: `ROWS` `[rows, width]`, in which each chunk has its own, as many as the others
            (`pipeline.text_batches`).
        num_texts: of the batch, static.
        chunks: how many; 1 = all at once, by `rng` itself.
        rng: key.
        lanes: as in `map_chunks`.

    Returns:
        `[num_texts, dim]`.
    """
    rows = {name: batch[name] for name in ROWS}
    if chunks == 1:
        return encode(rows, rng)
    of_chunk = num_texts // chunks

    def encode_chunk(index: jax.Array, rows: dict[str, jax.Array]) -> jax.Array:
        numbers = rows["attention_mask"]
        own = jnp.where(numbers > 0, numbers - index * of_chunk, 0)
        return encode(rows | {"attention_mask": own}, jax.random.fold_in(rng, index))

    cut = {name: value.reshape(chunks, -1, value.shape[1]) for name, value in rows.items()}
    vectors = map_chunks(encode_chunk, (jnp.arange(chunks), cut), lanes)  # [chunks, texts, dim]
    return vectors.reshape(num_texts, -1)
