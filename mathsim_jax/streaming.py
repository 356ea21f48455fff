"""Encoding a file of texts, larger than memory or not, into a NumPy file."""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mathsim_jax.inference import SentenceEncoder, VectorDtype
from retrieval_jax.files import whole_file
from retrieval_jax.text_files import count_lines, read_lines, require_file

LONGEST_LINE = 1 << 20  # bytes of a line that are read; far more than any model does
WriteRows = Callable[[np.ndarray], None]


def encode_file(
    encoder: SentenceEncoder,
    source: Path,
    target: Path,
    batch_size: int | None = None,
    normalize: bool | None = None,
    dtype: VectorDtype = "float32",
    show_progress: bool = False,
) -> Counter[str]:
    """Encodes each line of a file into a row of a NumPy file, in memory that does not grow.

    Args:
        encoder: the model.
        source: UTF-8 text, plain, gzip or xz; an empty line is an empty text. Of a line longer than
            1 MiB the rest is not read.
        target: file to write, `[lines, dim]`; it appears when it is whole.
        batch_size: as `SentenceEncoder.encode`.
        normalize: as `SentenceEncoder.encode`.
        dtype: of the vectors.
        show_progress: draw a bar, if standard error is a terminal.

    Returns:
        `texts` encoded, and what was damaged in the file (`retrieval_jax.text_files.read_lines`).

    Raises:
        InputError: no such file.
        OSError: the target cannot be written.
    """
    require_file(source, "Give a text file, one text a line.")
    counts: Counter[str] = Counter()
    lines = (text.removesuffix("\r") for _, text in read_lines(source, counts, LONGEST_LINE))
    bar = Progress(
        TextColumn("encoding"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not show_progress,
    )
    with bar, vector_file(target, encoder.dim, dtype) as write:
        row = bar.add_task("", total=count_lines(source) if show_progress else None)
        blocks = encoder.encode_blocks(
            lines, batch_size, normalize, dtype, advance=lambda texts: bar.advance(row, texts)
        )
        for block in blocks:
            write(block)
            counts["texts"] += len(block)
    return counts


@contextmanager
def vector_file(path: Path, dim: int, dtype: VectorDtype) -> Iterator[WriteRows]:
    """Writes a NumPy file `[rows, dim]` whose number of rows is known at its end only.

    Args:
        path: file to write, whole or not at all.
        dim: of a row.
        dtype: of its numbers.

    Yields:
        A function that appends `[n, dim]`.
    """
    rows = 0
    with whole_file(path) as partial, partial.open("wb") as file:
        _write_header(file, (rows, dim), dtype)
        start = file.tell()

        def write(block: np.ndarray) -> None:
            nonlocal rows
            file.write(np.ascontiguousarray(block, dtype).data)
            rows += len(block)

        yield write
        file.seek(0)
        # NumPy leaves room in the header for the first axis to grow.
        _write_header(file, (rows, dim), dtype)
        assert file.tell() == start


def _write_header(file: BinaryIO, shape: tuple[int, int], dtype: VectorDtype) -> None:
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(
        header, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    file.write(header.getvalue())
