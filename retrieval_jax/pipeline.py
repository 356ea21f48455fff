"""From texts to batches: fixed-width token tables, resumable shuffled batches of packed rows."""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grain
import jax
import numpy as np
from transformers import PreTrainedTokenizerBase

from retrieval_jax.errors import InputError
from retrieval_jax.files import write_array_blocks
from retrieval_jax.kept import content_name, keep
from retrieval_jax.packing import Placement, pack, padded_rows, place, row_width

Batch = dict[str, np.ndarray]
Item = TypeVar("Item")
CALL_SETTINGS = ("truncation", "padding")  # of a tokenizer's JSON
IDS_FILE, LENGTHS_FILE = "input_ids.npy", "lengths.npy"


@dataclasses.dataclass(frozen=True)
class TokenTable:
    """Tokenised texts in fixed-width rows, read by slices.

    Attributes:
        input_ids: int32 `[texts, width]`, 0 beyond a text's end.
        lengths: int32 `[texts]`, word pieces of each text, [CLS] and [SEP] included.
    """

    input_ids: np.ndarray
    lengths: np.ndarray

    def pack(
        self, texts: np.ndarray, placement: Placement, shape: tuple[int, int], first: int = 0
    ) -> Batch:
        """Packs the texts of indices `[n]`, placed by `placement`, as `packing.pack` does."""
        return pack(self.input_ids[texts], self.lengths[texts], placement, shape, first)


def tokenize(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    folder: Path | None = None,
) -> TokenTable:
    """Tokenises texts, cut to `max_length` word pieces.

    Args:
        texts: the texts.
        tokenizer: adds [CLS] and [SEP].
        max_length: word pieces.
        folder: where to keep tables on disk, each in a folder named by what it was made of. Then
            the result is memory-mapped, so that only the rows in use take memory, and the same
            texts are tokenised once.

    Raises:
        InputError: the folder cannot be written.
    """
    if folder is None:
        input_ids = np.zeros((len(texts), max_length), np.int32)
        lengths = np.zeros(len(texts), np.int32)
        for start, ids, of_chunk in _tokenized_chunks(texts, tokenizer, max_length):
            input_ids[start : start + len(ids)] = ids
            lengths[start : start + len(ids)] = of_chunk
        width = max(int(lengths.max(initial=1)), 1)
        return TokenTable(input_ids[:, :width].copy(), lengths)
    kept = keep(
        folder,
        content_name([_settings(tokenizer, max_length), *texts]),
        lambda unfinished: _write(unfinished, texts, tokenizer, max_length),
    )
    input_ids = np.load(kept / IDS_FILE, mmap_mode="r", allow_pickle=False)
    return TokenTable(input_ids, np.load(kept / LENGTHS_FILE, allow_pickle=False))


def _write(
    folder: Path, texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> None:
    """Writes a table, chunk by chunk."""
    lengths = np.zeros(len(texts), np.int32)

    def chunks() -> Iterator[np.ndarray]:
        for start, ids, of_chunk in _tokenized_chunks(texts, tokenizer, max_length):
            lengths[start : start + len(ids)] = of_chunk
            yield ids

    write_array_blocks(folder / IDS_FILE, (len(texts), max_length), np.int32, chunks())
    np.save(folder / LENGTHS_FILE, lengths, allow_pickle=False)


def _tokenized_chunks(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Index of the first text, ids `[chunk, max_length]` and lengths `[chunk]` of each chunk."""
    size = 4096  # bounds the memory of Python lists
    for start in range(0, len(texts), size):
        chunk = list(texts[start : start + size])
        input_ids = np.zeros((len(chunk), max_length), np.int32)
        lengths = np.zeros(len(chunk), np.int32)
        pieces: Any = tokenizer(chunk, truncation=True, max_length=max_length)["input_ids"]
        for row, ids in enumerate(pieces):
            input_ids[row, : len(ids)] = ids
            lengths[row] = len(ids)
        yield start, input_ids, lengths


def _settings(tokenizer: PreTrainedTokenizerBase, max_length: int) -> str:
    """What else than the texts decides their word pieces."""
    backend: Any = tokenizer.backend_tokenizer
    # But for what calls leave in it.
    kept = {k: v for k, v in json.loads(backend.to_str()).items() if k not in CALL_SETTINGS}
    return json.dumps([max_length, tokenizer.truncation_side, kept])


class ShuffledBatches:
    """Indices of random batches in endless epochs: item `i` is a function of `i` and the seed.

    Each epoch draws a permutation, leaves out the last incomplete batch, cuts what is left, sorted
    by length, into `batch_size` strata, and gives every batch a random example of each. So batches
    are random, yet all of nearly the same total length, hence of one shape when packed.

    Args:
        lengths: `[examples]`, by which to stratify; equal ones make plain random batches.
        batch_size: global; each process gets its equal part.
        seed: of the permutations.
        processes: how many share a batch; by default all there are.

    Raises:
        InputError: fewer examples than a batch, or a batch that processes cannot share.
    """

    def __init__(
        self, lengths: np.ndarray, batch_size: int, seed: int, processes: int | None = None
    ) -> None:
        if len(lengths) < batch_size:
            raise InputError(
                f"{len(lengths)} examples do not fill one batch of {batch_size}",
                "Lower the batch size, or give more documents.",
            )
        processes = jax.process_count() if processes is None else processes
        if batch_size % processes:
            raise InputError(
                f"a batch of {batch_size} cannot be shared by {processes} processes",
                "Make the batch size a multiple of the number of processes.",
            )
        self.batches_per_epoch = len(lengths) // batch_size
        self._lengths, self._batch_size, self._seed = lengths, batch_size, seed
        self._processes = processes
        self._epoch_order = functools.lru_cache(maxsize=2)(self._order)

    def __len__(self) -> int:
        """Number of batches: endless for practical purposes."""
        return self.batches_per_epoch * 1_000_000

    def __getitem__(self, index: int) -> np.ndarray:
        """Example indices `[processes, batch_size / processes]` of batch `index`."""
        epoch, position = divmod(int(index), self.batches_per_epoch)
        # Transposed, so that every process gets all lengths.
        return self._epoch_order(epoch)[position].reshape(-1, self._processes).T

    def _order(self, epoch: int) -> np.ndarray:
        """Example indices `[batches, batch_size]` of one epoch."""
        rng = np.random.default_rng((self._seed, epoch))
        order = rng.permutation(len(self._lengths))[: self.batches_per_epoch * self._batch_size]
        by_length = order[np.argsort(self._lengths[order], kind="stable")]
        return rng.permuted(by_length.reshape(self._batch_size, -1), axis=1).T


def iterate(
    source: grain.sources.RandomAccessDataSource[Item], make_batch: Callable[[Item], Batch]
) -> grain.DatasetIterator[Any]:
    """Builds batches in order on one background thread; grain's state makes resume exact.

    Args:
        source: which examples, batch by batch: a `ShuffledBatches` for instance.
        make_batch: called with an item of `source`; gives the part of this process.
    """
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)
    return iter(grain.MapDataset.source(source).map(make_batch).to_iter_dataset(options))


def text_batches(
    table: TokenTable,
    columns: Mapping[str, np.ndarray],
    batch_size: int,
    seed: int,
    row_multiple: int | None = None,
    chunks: int = 1,
) -> grain.DatasetIterator[Any]:
    """Endless shuffled batches of packed texts.

    The global batch is the processes' parts in the order of their index. All batches have one
    width and, but for rare ones, one number of rows, so that one step is compiled.

    Args:
        table: tokenised texts.
        columns: further arrays with one row a text, carried along.
        batch_size: texts, global.
        seed: of the order.
        row_multiple: divides each process's number of rows; its number of devices by default, so
            that any mesh can split the rows.
        chunks: equal parts of each process's texts, whose rows are its own and as many as those of
            the others (`chunking.encode_text_chunks`).

    Returns:
        An iterator of dicts: `input_ids`, `attention_mask`, `position_ids` int32 `[rows, width]`
        (`packing.pack`), and `columns` `[batch, ...]`.

    Raises:
        InputError: as `ShuffledBatches`.
    """
    # Whole chunks are split, not their rows.
    multiple = 1 if chunks > 1 else jax.local_device_count()
    multiple = multiple if row_multiple is None else row_multiple
    width = row_width(table.lengths)
    source = ShuffledBatches(table.lengths, batch_size, seed)

    def cut(part: np.ndarray) -> np.ndarray:
        return part.reshape(-1, chunks).T  # [chunks, texts], of all lengths each

    def place_parts(parts: np.ndarray) -> tuple[list[list[Placement]], int]:
        placements = [[place(table.lengths[t], width) for t in cut(part)] for part in parts]
        return placements, max(p.num_rows for part in placements for p in part)

    usual = max(place_parts(source[index])[1] for index in range(64))

    def make_batch(parts: np.ndarray) -> Batch:
        # All processes place all parts: they must agree on the number of rows.
        placements, needed = place_parts(parts)
        shape = padded_rows(needed, usual, multiple), width
        process = jax.process_index()
        texts = cut(parts[process])
        first = process * texts.size
        rows = [
            table.pack(of_chunk, placement, shape, first + index * len(of_chunk))
            for index, (of_chunk, placement) in enumerate(
                zip(texts, placements[process], strict=True)
            )
        ]
        return joined_rows(rows) | {name: col[texts.reshape(-1)] for name, col in columns.items()}

    return iterate(source, make_batch)


def joined_rows(chunks: Sequence[Batch]) -> Batch:
    """Packed rows of chunks, all of one shape, one chunk after the other."""
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
