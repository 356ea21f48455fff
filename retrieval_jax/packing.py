"""Packing: several texts in one row, each attending only to itself (`bert.Bert`'s mask).

Rows are full to 94-99 % where padding each text to the longest would leave most of a batch empty
(Krell et al., 2021, "Efficient sequence packing without cross-contamination").
"""

from typing import NamedTuple

import numpy as np

WIDTH_MULTIPLE = 64  # of a row's width; attention kernels work on tiles of it


class Placement(NamedTuple):
    """Where each text goes.

    Attributes:
        rows: int64 `[texts]`, its row.
        starts: int64 `[texts]`, the column of its first piece.
    """

    rows: np.ndarray
    starts: np.ndarray

    @property
    def num_rows(self) -> int:
        """Rows in use."""
        return int(self.rows.max()) + 1


def round_up(number: int, multiple: int) -> int:
    """The least multiple of `multiple` that is not below `number`."""
    return -(-number // multiple) * multiple


def power_of_two(number: int) -> int:
    """The least power of two that is not below `number`."""
    return 1 << (number - 1).bit_length()


def place(lengths: np.ndarray, width: int) -> Placement:
    """Places texts by best-fit decreasing (Johnson, 1973): longest first, into the fullest row.

    Args:
        lengths: integer `[texts]`, each in 1..`width`.
        width: pieces a row holds.

    Returns:
        Placement in as many rows as needed.
    """
    rows = np.empty(len(lengths), np.int64)
    starts = np.empty(len(lengths), np.int64)
    rows_by_free = [[] for _ in range(width + 1)]
    available = 0  # bit `free` tells whether `rows_by_free[free]` has a row: no search, no loop
    num_rows = 0
    order = np.argsort(-lengths, kind="stable")
    for text, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        fitting = available >> length
        if fitting:
            free = length + (fitting & -fitting).bit_length() - 1
            row = rows_by_free[free].pop()
            if not rows_by_free[free]:
                available ^= 1 << free
        else:
            free, row = width, num_rows
            num_rows += 1
        rows[text], starts[text] = row, width - free
        rows_by_free[free - length].append(row)
        available |= 1 << (free - length)
    return Placement(rows, starts)


def row_width(lengths: np.ndarray) -> int:
    """Chooses the width of rows for texts of these lengths.

    The least multiple of `WIDTH_MULTIPLE` that holds the longest text, where short ones fill the
    gaps; the next one where they do not; less where all texts together do not fill one row.

    Args:
        lengths: integer `[texts]`, one or more.
    """

    def cost(width: int) -> int:
        # Measured on CPU: attention over 512 more pieces takes as long as all else.
        return place(lengths, width).num_rows * width * (width + 512)

    least = round_up(int(lengths.max()), WIDTH_MULTIPLE)
    best = min(least, least + WIDTH_MULTIPLE, key=cost)
    return min(best, round_up(int(lengths.sum()), 16))


def padded_rows(needed: int, usual: int, multiple: int) -> int:
    """Rounds a batch's number of rows up to one of few, so that few programs are compiled.

    Args:
        needed: rows of the batch.
        usual: rows that nearly every batch needs at most.
        multiple: divides the result.

    Returns:
        `usual`, or, where that is not enough, an eighth of it more, or two, ...
    """
    usual = round_up(usual, multiple)
    step = round_up(usual, 8 * multiple) // 8
    return usual + round_up(max(needed - usual, 0), step)


def pack(
    input_ids: np.ndarray,
    lengths: np.ndarray,
    placement: Placement,
    shape: tuple[int, int],
    first: int = 0,
) -> dict[str, np.ndarray]:
    """Writes texts into rows.

    Args:
        input_ids: int32 `[texts, longest]`, what lies beyond a text's end is not read.
        lengths: int32 `[texts]`.
        placement: of these texts (`place`).
        shape: rows, at least `placement.num_rows`, and their width.
        first: position of the first text in its global batch.

    Returns:
        int32 arrays of that shape, 0 where no text is: `input_ids`; `attention_mask`, the text's
        position in the global batch plus 1; `position_ids`, which start at 0 with each text.
    """
    text = np.repeat(np.arange(len(lengths)), lengths)  # [pieces]
    position = np.arange(len(text)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    target = (placement.rows[text], placement.starts[text] + position)
    values = {
        "input_ids": input_ids[text, position],
        "attention_mask": text + first + 1,
        "position_ids": position,
    }
    packed = {name: np.zeros(shape, np.int32) for name in values}
    for name, value in values.items():
        packed[name][target] = value
    return packed
