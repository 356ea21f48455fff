"""Parameters: nested dicts of arrays, and the same by path."""

from typing import Any

from flax import traverse_util

# Nested dicts, with arrays (or their shapes) as leaves.
Params = dict[str, Any]


def flatten(params: Params) -> dict[str, Any]:
    """Turns nested dicts into one with keys `a/b/c`."""
    return dict(traverse_util.flatten_dict(params, sep="/"))


def unflatten(flat: dict[str, Any]) -> Params:
    """Inverse of `flatten`."""
    return traverse_util.unflatten_dict(flat, sep="/")
