"""From texts to batches: fixed-width token tables, length buckets, resumable shuffled batches."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grain
import jax
import numpy as np
from transformers import PreTrainedTokenizerBase

from retrieval_jax.errors import InputError

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class TokenTable:
    """Tokenised texts in fixed-width rows, read by slices.

    Attributes:
        input_ids: int32 `[texts, width]`, 0 beyond a text's end.
        lengths: int32 `[texts]`, word pieces of each text, [CLS] and [SEP] included.
    """

    input_ids: np.ndarray
    lengths: np.ndarray

    def rows(self, indices: np.ndarray, width: int) -> Batch:
        """Gives `input_ids` and `attention_mask` `[len(indices), width]` of some texts."""
        mask = np.arange(width, dtype=np.int32)[None] < self.lengths[indices][:, None]
        return {
            "input_ids": self.input_ids[indices, :width],
            "attention_mask": mask.astype(np.int32),
        }


def tokenize(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> TokenTable:
    """Tokenises texts, cut to `max_length` word pieces."""
    input_ids = np.zeros((len(texts), max_length), np.int32)
    lengths = np.zeros(len(texts), np.int32)
    chunk = 4096  # bounds the memory of Python lists
    for start in range(0, len(texts), chunk):
        pieces = tokenizer(
            list(texts[start : start + chunk]), truncation=True, max_length=max_length
        )["input_ids"]
        for row, ids in enumerate(pieces, start):  # pyright: ignore[reportArgumentType]
            input_ids[row, : len(ids)] = ids
            lengths[row] = len(ids)
    width = max(int(lengths.max(initial=1)), 1)
    return TokenTable(input_ids[:, :width].copy(), lengths)


def bucket_widths(table: TokenTable, multiple: int = 16, most: int = 4) -> tuple[int, ...]:
    """Chooses few row widths, so that few shapes are compiled and little is padding.

    Widths are multiples of `multiple`, at quantiles of the lengths; the last holds the longest
    text, and none is wider than the table.
    """
    quantiles = np.quantile(table.lengths, np.linspace(0, 1, most + 1)[1:], method="higher")
    limit = table.input_ids.shape[1]
    return tuple(sorted({min(int(-(-q // multiple) * multiple), limit) for q in quantiles}))


def bucket_width(widths: Sequence[int], length: int) -> int:
    """The smallest of the ascending `widths` that holds `length`."""
    return next(width for width in widths if width >= length)


class ShuffledBatches:
    """Random-access batches of endless epochs, for grain: batch `i` is a function of `i` and seed.

    Each epoch draws a permutation, leaves out the last incomplete batch, sorts what is left by
    length so that a batch holds texts of like length, and shuffles the batches.

    Args:
        lengths: `[examples]`, by which to sort.
        batch_size: global; each process gets its equal part.
        seed: of the permutations.
        make_batch: called with the indices of this process's examples and the greatest length in
            the global batch (so that every process chooses the same width).

    Raises:
        InputError: fewer examples than a batch, or a batch that processes cannot share.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_size: int,
        seed: int,
        make_batch: Callable[[np.ndarray, int], Batch],
    ) -> None:
        if len(lengths) < batch_size:
            raise InputError(
                f"{len(lengths)} examples do not fill one batch of {batch_size}",
                "Lower the batch size, or give more documents.",
            )
        if batch_size % jax.process_count():
            raise InputError(
                f"a batch of {batch_size} cannot be shared by {jax.process_count()} processes",
                "Make the batch size a multiple of the number of processes.",
            )
        self.batches_per_epoch = len(lengths) // batch_size
        self._lengths, self._batch_size, self._seed = lengths, batch_size, seed
        self._make_batch = make_batch
        self._epoch_order = functools.lru_cache(maxsize=2)(self._order)

    def __len__(self) -> int:
        """Number of batches: endless for practical purposes."""
        return self.batches_per_epoch * 1_000_000

    def __getitem__(self, index: int) -> Batch:
        """Builds this process's part of batch `index`."""
        epoch, position = divmod(int(index), self.batches_per_epoch)
        indices = self._epoch_order(epoch)[position]
        part = self._batch_size // jax.process_count()
        start = jax.process_index() * part
        return self._make_batch(indices[start : start + part], int(self._lengths[indices].max()))

    def _order(self, epoch: int) -> np.ndarray:
        """Example indices `[batches, batch_size]` of one epoch."""
        rng = np.random.default_rng((self._seed, epoch))
        order = rng.permutation(len(self._lengths))[: self.batches_per_epoch * self._batch_size]
        by_length = order[np.argsort(self._lengths[order], kind="stable")]
        return rng.permutation(by_length.reshape(-1, self._batch_size))


def text_batches(
    table: TokenTable, columns: Mapping[str, np.ndarray], batch_size: int, seed: int
) -> grain.DatasetIterator[Any]:
    """Endless shuffled batches of texts in length buckets, with exact resume by grain's state.

    Args:
        table: tokenised texts.
        columns: further arrays with one row a text, carried along.
        batch_size: global.
        seed: of the order.

    Returns:
        An iterator of dicts: `input_ids`, `attention_mask` `[batch, width]` int32, and `columns`.

    Raises:
        InputError: as `ShuffledBatches`.
    """
    widths = bucket_widths(table)

    def make_batch(indices: np.ndarray, longest: int) -> Batch:
        rows = table.rows(indices, bucket_width(widths, longest))
        return rows | {name: column[indices] for name, column in columns.items()}

    source = ShuffledBatches(table.lengths, batch_size, seed, make_batch)
    return iterate(source)


def iterate(source: ShuffledBatches) -> grain.DatasetIterator[Any]:
    """Reads batches in order on one background thread; grain's state makes resume exact."""
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)
    return iter(grain.MapDataset.source(source).to_iter_dataset(options))
