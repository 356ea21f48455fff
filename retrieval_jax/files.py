"""Files that are written whole or not at all."""

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


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
