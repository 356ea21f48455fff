"""Files that are written whole or not at all."""

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike


@contextlib.contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """Gives a path beside `path` to write to, which takes the place of `path` in the end.

    If writing fails, what stood at `path` stays. Several processes and threads may write the same
    file: each writes a whole one, and the last stays.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, values: Any) -> None:
    """Writes a file of JSON with a line for each value, whole or not at all."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def write_array(path: Path | str, values: np.ndarray) -> Path:
    """Writes a NumPy file, whole or not at all; gives its path, whose name ends in `.npy`.

    As `np.save` does, it puts `.npy` behind another name: `v1.5` becomes `v1.5.npy`.
    """
    path = Path(path)
    if path.suffix != ".npy":
        path = path.with_name(f"{path.name}.npy")
    with whole_file(path) as partial, partial.open("wb") as file:
        np.save(file, values, allow_pickle=False)
    return path


def write_array_blocks(
    path: Path, shape: tuple[int, ...], dtype: DTypeLike, blocks: Iterable[np.ndarray]
) -> None:
    """Writes a NumPy file of which only a block is in memory at a time.

    Not through a memory map: a disk that gets full would kill the process, where here it is an
    error.

    Args:
        path: the file, written in place; a folder of `kept.keep` makes it whole or not at all.
        shape: of the whole array.
        dtype: of the whole array.
        blocks: its rows in their order, any number at a time, of that dtype.

    Raises:
        OSError: it cannot be written.
        ValueError: blocks that do not make up the shape.
    """
    dtype, missing = np.dtype(dtype), shape[0]
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            missing -= len(block)
            if block.dtype != dtype or block.shape[1:] != shape[1:] or missing < 0:
                raise ValueError(f"a block {block.dtype}{block.shape} of {dtype}{shape}")
            file.write(np.ascontiguousarray(block).data)
    if missing:
        raise ValueError(f"blocks lack {missing} rows of {shape}")
