"""Draws that collections share: splits, samples and irrelevant documents, by hashes of names.

What is drawn for a name does not depend on the other names, nor on the process.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ltr_jax.datasets.collection import Topics
from retrieval_jax.fingerprints import stable_hash

SPLITS = ("train", "dev", "test")


def split_of(name: str) -> str:
    """A query's split by the MD5 of its name: 80 % train, 10 % dev, 10 % test."""
    percent = stable_hash(name) % 100
    return "test" if percent < 10 else "dev" if percent < 20 else "train"


def sample(names: Iterable[str], n: int | None, seed: int, purpose: str) -> list[str]:
    """Some names in random order; a smaller sample is the beginning of a larger one.

    Args:
        names: different.
        n: how many; None or too many: all.
        seed: of the order.
        purpose: tells samples of one seed apart.
    """
    return sorted(names, key=lambda name: _digest(purpose, seed, name))[:n]


def draw_irrelevant(
    qrels: Mapping[str, Mapping[str, int]], documents: Sequence[str], n: int, seed: int
) -> dict[str, tuple[str, ...]]:
    """Random documents that are not judged, for each query, in the order of their draws.

    Args:
        qrels: query id -> document id -> relevance.
        documents: ids of all documents.
        n: how many for each query; fewer where there are no more.
        seed: of the draws.
    """
    drawn = {}
    for query, judged in qrels.items():
        rng = np.random.default_rng(list(_digest("irrelevant", seed, query)))
        size = min(len(documents), n + len(judged))
        positions = rng.choice(len(documents), size, replace=False)
        free = [documents[i] for i in positions.tolist() if documents[i] not in judged]
        drawn[query] = tuple(free[:n])
    return drawn


def redraw_irrelevant(topics: Topics, n: int, seed: int) -> Topics:
    """A split with other irrelevant documents, of those that it ranks.

    Args:
        topics: the split.
        n: how many for each query; fewer where the split has no more.
        seed: of the draws.
    """
    qrels = {query: topics.qrels.get(query, {}) for query in topics.query_ids}
    drawn = draw_irrelevant(qrels, topics.pool, min(n, topics.hardest), seed)
    return dataclasses.replace(topics, irrelevant=drawn)


def _digest(purpose: str, seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{purpose} {seed} {name}".encode()).digest()
