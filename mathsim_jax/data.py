"""From pairs of texts to batches: each distinct text of a batch once, in packed rows."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import grain
import jax
import numpy as np
from sklearn.model_selection import GroupKFold
from transformers import PreTrainedTokenizerBase

from mathsim_jax.datasets.pairs import Pairs
from retrieval_jax.errors import InputError
from retrieval_jax.packing import padded_rows, place, row_width
from retrieval_jax.pipeline import (
    Batch,
    ShuffledBatches,
    TokenTable,
    iterate,
    joined_rows,
    tokenize,
)

# Rows of a batch come in steps of this many, so that similar sets of pairs meet one program.
ROW_STEP = 4


@dataclasses.dataclass(frozen=True)
class TokenPairs:
    """Pairs as word pieces.

    Attributes:
        table: the distinct texts.
        texts: int32 `[pairs, 2]`, rows of `table`.
        labels: float32 `[pairs]`.
        groups: int32 `[pairs]`, a number for each group.
    """

    table: TokenTable
    texts: np.ndarray
    labels: np.ndarray
    groups: np.ndarray

    def take(self, indices: np.ndarray) -> "TokenPairs":
        """The pairs of `indices`, integers or a mask, on the same table."""
        return TokenPairs(
            self.table, self.texts[indices], self.labels[indices], self.groups[indices]
        )


def tokenize_pairs(pairs: Pairs, tokenizer: PreTrainedTokenizerBase, max_length: int) -> TokenPairs:
    """Tokenises the distinct texts of pairs, cut to `max_length` word pieces."""
    texts = pairs.texts
    number = {text: index for index, text in enumerate(texts)}
    rows = [
        [number[first], number[second]]
        for first, second in zip(pairs.first, pairs.second, strict=True)
    ]
    group = {name: index for index, name in enumerate(dict.fromkeys(pairs.groups))}
    return TokenPairs(
        tokenize(texts, tokenizer, max_length),
        np.array(rows, np.int32),
        pairs.labels.astype(np.float32),
        np.array([group[name] for name in pairs.groups], np.int32),
    )


def pair_batches(
    pairs: TokenPairs, batch_size: int, seed: int, chunks: int = 1
) -> grain.DatasetIterator[Any]:
    """Endless shuffled batches of pairs.

    Args:
        pairs: tokenised.
        batch_size: pairs, global.
        seed: of the order.
        chunks: equal parts of each process's pairs, whose rows are their own and as many as those
            of the others (`chunking.encode_text_chunks`).

    Returns:
        An iterator of dicts: `input_ids`, `attention_mask`, `position_ids` int32 `[rows, width]`
        (`packing.pack`) of at most `2 * batch_size` texts, distinct within a chunk, and of each
        pair `[batch]` the numbers of its texts among them, `first` and `second` int32; `labels`
        float32; `groups` int32; `texts` int32 `[batch, 2]`, as in `TokenPairs`.

    Raises:
        InputError: as `pipeline.ShuffledBatches`.
    """
    lengths = pairs.table.lengths
    source = ShuffledBatches(lengths[pairs.texts].sum(axis=1), batch_size, seed)
    width = row_width(lengths[np.unique(pairs.texts)])
    # Whole chunks are split over devices, not their rows.
    multiple = math.lcm(ROW_STEP, jax.local_device_count()) if chunks == 1 else ROW_STEP

    def cut(part: np.ndarray) -> np.ndarray:
        return part.reshape(-1, chunks).T  # [chunks, pairs], of all lengths each

    def rows_needed(parts: np.ndarray) -> int:
        distinct = [np.unique(pairs.texts[chunk]) for part in parts for chunk in cut(part)]
        return max(place(lengths[texts], width).num_rows for texts in distinct)

    usual = max(rows_needed(source[index]) for index in range(64))

    def make_batch(parts: np.ndarray) -> Batch:
        shape = padded_rows(rows_needed(parts), usual, multiple), width
        chosen = cut(parts[jax.process_index()])
        first = jax.process_index() * 2 * chosen.size
        rows, numbers = [], []
        for chunk in chosen:
            texts, of_pairs = np.unique(pairs.texts[chunk], return_inverse=True)
            rows.append(pairs.table.pack(texts, place(lengths[texts], width), shape, first))
            numbers.append(of_pairs.reshape(-1, 2).astype(np.int32) + first)
            first += 2 * len(chunk)
        numbers, chosen = np.concatenate(numbers), chosen.reshape(-1)
        return joined_rows(rows) | {
            "first": numbers[:, 0],
            "second": numbers[:, 1],
            "labels": pairs.labels[chosen],
            "groups": pairs.groups[chosen],
            "texts": pairs.texts[chosen],
        }

    return iterate(source, make_batch)


def grouped_folds(groups: Sequence[str], folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Splits into folds of like size that share no group.

    Args:
        groups: of each pair.
        folds: two or more.

    Yields:
        Indices of the pairs to train on, and of those held out.

    Raises:
        InputError: fewer groups than folds, or fewer than two folds.
    """
    if not 2 <= folds <= len(set(groups)):
        raise InputError(
            f"{folds} folds of {len(set(groups))} groups",
            "Give 2 folds or more, and no more than there are groups.",
        )
    yield from GroupKFold(folds).split(np.zeros(len(groups)), groups=list(groups))
