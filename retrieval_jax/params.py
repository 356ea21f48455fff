"""Parameters: nested dicts of arrays, and the same by path."""

import hashlib
from typing import Any

import numpy as np
from flax import traverse_util

# Nested dicts, with arrays (or their shapes) as leaves.
Params = dict[str, Any]


def flatten(params: Params) -> dict[str, Any]:
    """Turns nested dicts into one with keys `a/b/c`."""
    return dict(traverse_util.flatten_dict(params, sep="/"))


def unflatten(flat: dict[str, Any]) -> Params:
    """Inverse of `flatten`."""
    return traverse_util.unflatten_dict(flat, sep="/")


def fingerprint(params: Params) -> str:
    """Names parameters by what is in them, 16 hexadecimal digits: paths, shapes, dtypes, values."""
    digest = hashlib.blake2b(digest_size=8)
    for path, leaf in sorted(flatten(params).items()):
        array = np.asarray(leaf)
        digest.update(f"{path} {array.shape} {array.dtype}\n".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
