"""Exact search over many stored vectors: the embedding store beside numpy, faiss and lancedb.

COMMAND   python -m benchmarks.search --queries 20 --output benchmarks/results/search_20.json
TIME      about 3 minutes
HARDWARE  2 CPU cores, 4 GiB of memory
RESULT    benchmarks/results/search_QUERIES.json; with --threads 1 search_QUERIES_1.json

A run answers all queries with k ids, best first. Sides, in queries a second: `ours`,
`EmbeddingStore.search` as a user calls it (it looks for a newer version, and gives scores, ids and
metadata); `ours_top_k`, `search.top_k` alone over the vectors that it holds; `numpy`, a BLAS
product with unit vectors in memory, argpartition and a sort; `faiss`, its `IndexFlatIP` of the same
vectors; `lancedb`, its exhaustive search over the same table, one query after another, of the first
few only: it reads the table each time.
"""

import dataclasses
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import tyro

from benchmarks import measure
from retrieval_jax.search import hold, top_k
from retrieval_jax.store import EmbeddingStore

_TOGETHER = 50_000


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        options: how to measure.
        vectors: how many are stored.
        dim: their width.
        queries: how many are asked at once.
        k: answers to each.
        scan_queries: how many of them lancedb answers.
        seed: of the vectors, normally distributed.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options()
    vectors: int = 600_000
    dim: int = 300
    queries: int = 20
    k: int = 1_000
    scan_queries: int = 3
    seed: int = 0


class _Folder:
    """A folder that is removed with the sides, which hold this."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="search_")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def prepare(command: Command) -> measure.Comparison:
    """Fills a store and names the sides."""
    # Here, so that their imports are no part of their memory.
    import faiss  # noqa: F401  # pyright: ignore[reportMissingImports]
    import lancedb  # noqa: F401

    rng = np.random.default_rng(command.seed)
    queries = rng.standard_normal((command.queries, command.dim), dtype=np.float32)
    vectors = rng.standard_normal((command.vectors, command.dim), dtype=np.float32)
    folder = _Folder()
    store = EmbeddingStore.create(folder.name, command.dim, "random")
    for start in range(0, command.vectors, _TOGETHER):
        rows = range(start, min(start + _TOGETHER, command.vectors))
        store.add([str(row) for row in rows], vectors[rows.start : rows.stop])
    del vectors
    return measure.Comparison(
        settings=measure.settings_of(command),
        data={"name": "random normal vectors", "fingerprint": f"seed {command.seed}"},
        packages=("faiss-cpu", "lancedb"),
        sides={
            "ours": lambda: store_side(folder, queries, command.k),
            "ours_top_k": lambda: top_k_side(folder, queries, command.k),
            "numpy": lambda: numpy_side(folder, queries, command.k),
            "faiss": lambda: faiss_side(folder, queries, command.k),
            "lancedb": lambda: scan_side(folder, queries[: command.scan_queries], command.k),
        },
        check=check_answers,
    )


def store_side(folder: _Folder, queries: np.ndarray, k: int) -> measure.Side:
    """A run is one call of `EmbeddingStore.search`; gives `[queries, k]` ids."""
    store = EmbeddingStore.open(folder.name)
    return measure.Side(lambda: np.array(store.search(queries, k).ids, int), len(queries))


def top_k_side(folder: _Folder, queries: np.ndarray, k: int) -> measure.Side:
    """As `store_side`, without the store."""
    ids, vectors = _unit_vectors(folder)
    documents = hold(vectors)
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)

    def run() -> np.ndarray:
        return ids[np.asarray(top_k(unit, documents, k)[1])]

    return measure.Side(run, len(queries))


def numpy_side(folder: _Folder, queries: np.ndarray, k: int) -> measure.Side:
    """As `top_k_side`, by numpy."""
    ids, vectors = _unit_vectors(folder)
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)

    def run() -> np.ndarray:
        scores = unit @ vectors.T
        best = np.argpartition(scores, len(vectors) - k, axis=1)[:, -k:]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        return ids[np.take_along_axis(best, order, axis=1)]

    return measure.Side(run, len(queries))


def faiss_side(folder: _Folder, queries: np.ndarray, k: int) -> measure.Side:
    """As `top_k_side`, by faiss."""
    import faiss  # pyright: ignore[reportMissingImports]

    ids, vectors = _unit_vectors(folder)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)  # pyright: ignore[reportCallIssue]
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    return measure.Side(lambda: ids[index.search(unit, k)[1]], len(queries))  # pyright: ignore[reportCallIssue]


def scan_side(folder: _Folder, queries: np.ndarray, k: int) -> measure.Side:
    """As `store_side`, by lancedb; the table has no index."""
    store = EmbeddingStore.open(folder.name)

    def run() -> np.ndarray:
        return np.array(store.search(queries, k, exact=False).ids, int)

    return measure.Side(run, len(queries))


def _unit_vectors(folder: _Folder) -> tuple[np.ndarray, np.ndarray]:
    ids, vectors, _ = EmbeddingStore.open(folder.name).read()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.array(ids, int), vectors


def check_answers(answers: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Gives the share of answers that ours has in common with each peer.

    Raises:
        DisagreementError: it is not above 0.999; sums in another order may change the last.
    """
    ours, *peers = answers
    shares = {}
    for side in peers:
        pairs = zip(answers[ours], answers[side], strict=False)  # a peer may have fewer queries
        shares[side] = float(np.mean([np.isin(a, b).mean() for a, b in pairs]))
        if not shares[side] > 0.999:
            raise measure.DisagreementError(f"{ours} and {side} share {shares[side]:.4f}")
    return {"shared": {side: round(share, 6) for side, share in shares.items()}}


if __name__ == "__main__":
    measure.command_line("search", prepare, Command, __doc__)
