"""Downward paths of trees, all at once: ancestor, descendant, and the edges between them."""

from typing import NamedTuple

import numpy as np

from gcl_jax.data import Forest
from retrieval_jax.errors import InputError

_MAX_CODE = np.iinfo(np.int64).max // 2


class TreePaths(NamedTuple):
    """Paths, int64 `[paths]` each.

    Attributes:
        tops: the ancestors, numbered among all nodes of the forest.
        nodes: the descendants.
        lengths: edges of each.
        codes: equal exactly where ancestor's label, descendant's label and the labels of the edges
            between them are.
    """

    tops: np.ndarray
    nodes: np.ndarray
    lengths: np.ndarray
    codes: np.ndarray


def tree_paths(forest: Forest, length: int) -> TreePaths:
    """All downward paths of 1 to `length` edges, the short ones first.

    Raises:
        InputError: a length below 1.
    """
    if length < 1:
        raise InputError(f"the longest path has {length} edges", "A path has 1 edge or more.")
    parents = forest.global_parents
    # The ancestor k edges above each node, -1 where there is none, and the way down from it.
    ancestors, ways = np.arange(len(parents)), np.zeros(len(parents), np.int64)
    seen = 0
    parts: list[tuple[np.ndarray, ...]] = []
    for edges in range(1, length + 1):
        nodes = np.flatnonzero(parents >= 0)
        nodes = nodes[ancestors[parents[nodes]] >= 0]
        above = parents[nodes]
        found = np.full_like(ancestors, -1)
        found[nodes] = ancestors[above]
        names = np.unique(combine(ways[above], forest.edges[nodes]), return_inverse=True)[1]
        ways = np.zeros_like(ways)
        ways[nodes] = names
        ancestors = found
        parts.append((found[nodes], nodes, np.full(len(nodes), edges), names + seen))
        seen += int(names.max(initial=-1)) + 1
    tops, nodes, lengths, names = (np.concatenate(of) for of in zip(*parts, strict=True))
    codes = combine(combine(forest.labels[tops], forest.labels[nodes]), names)
    return TreePaths(tops, nodes, lengths, codes)


def combine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """One int64 code for each pair of numbers from 0 up; different for different pairs."""
    first, second = first.astype(np.int64), second.astype(np.int64)
    if not len(first):
        return first
    if int(first.max() + 1) * int(second.max() + 1) > _MAX_CODE:
        first, second = (np.unique(of, return_inverse=True)[1] for of in (first, second))
    return first * (second.max() + 1) + second
