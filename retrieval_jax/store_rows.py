"""Rows of an embedding store: what may be in them, named by its row where it may not."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from retrieval_jax.errors import InputError

_ROWS_AT_ONCE = 8_192


def checked_vectors(name: str, vectors: np.ndarray | jax.Array, dim: int) -> np.ndarray:
    """Copies vectors to float32 `[rows, dim]`.

    Args:
        name: what to call them in errors.
        vectors: numbers, `[rows, dim]`.
        dim: of the store.

    Raises:
        InputError: no numbers, no row, another dim, or a row that is not finite in float32.
    """
    try:
        with np.errstate(over="ignore"):
            checked = np.array(vectors).astype(np.float32, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} are no numbers: {error}", f"Give floats [rows, {dim}]."
        ) from error
    if checked.ndim != 2 or not len(checked) or checked.shape[1] != dim:
        raise InputError(
            f"{name} have shape {checked.shape}; the store's have dim {dim}",
            f"Give one or more rows, [rows, {dim}], from the store's encoder.",
        )
    wrong = np.flatnonzero(~np.isfinite(checked).all(axis=1))
    if len(wrong):
        raise InputError(
            f"{name}, row {wrong[0]} is not finite in float32", "Remove or re-encode this vector."
        )
    return checked


def check_ids(ids: Sequence[str]) -> None:
    """Refuses ids that are empty, no text or given twice.

    Raises:
        InputError: naming the row.
    """
    if isinstance(ids, str):
        raise InputError(f"ids are one text: {ids[:80]!r}", "Give a list of texts.")
    rows: dict[str, int] = {}
    for row, name in enumerate(ids):
        try:
            usable = isinstance(name, str) and name.encode()
        except UnicodeEncodeError:
            usable = False
        if not usable:
            raise InputError(
                f"ids, row {row}: {str(name)[:80]!r}", "An id is a text of one character or more."
            )
        if name in rows:
            raise InputError(
                f"ids, rows {rows[name]} and {row} are both {name[:80]!r}",
                "Give every id once.",
            )
        rows[name] = row


def to_json(metadata: Sequence[Mapping[str, Any]]) -> list[str]:
    """Writes each row's metadata as JSON.

    Raises:
        InputError: something that JSON cannot say, naming the row.
    """
    texts = []
    for row, values in enumerate(metadata):
        try:
            if not isinstance(values, Mapping):
                raise TypeError(f"{type(values).__name__} is no mapping")
            texts.append(json.dumps(dict(values), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"metadata, row {row}: {error}",
                "Give dicts of texts, finite numbers, true, false, None, lists and dicts.",
            ) from error
    return texts


def to_unit(vectors: np.ndarray) -> np.ndarray:
    """Scales vectors `[rows, dim]` to unit length in place; zeros stay zeros."""
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        block = vectors[start : start + _ROWS_AT_ONCE]
        largest = np.abs(block).max(axis=1, keepdims=True)
        block /= np.where(largest > 0, largest, 1)  # or squares could overflow
        # Rows are now as long as 1 or longer, or zeros.
        block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), 1)
    return vectors
