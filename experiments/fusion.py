"""The weight of a fusion of two systems, chosen from a grid."""

from collections.abc import Callable, Sequence

WEIGHTS = tuple(round(0.1 * i, 1) for i in range(1, 10))
"""Weights of the first system at which both count."""


def best_weight(quality: Callable[[float], float], weights: Sequence[float] = WEIGHTS) -> float:
    """The weight at which a fusion is best; of equally good ones the first.

    Args:
        quality: of the fusion at a weight, on what weights are chosen on; more is better.
        weights: what to choose from, one or more.
    """
    return max(weights, key=quality)
