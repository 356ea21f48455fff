"""Exact nearest-neighbour search by inner product, in blocks, on the device."""

import dataclasses
import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from retrieval_jax.errors import InputError, check_at_least_1

# Scores in memory at a time, float32: 128 MiB.
_SCORES = 2**25
# Groups of so many neighbours are ranked by their best first, where that leaves few to rank.
_GROUP = 16


@dataclasses.dataclass(frozen=True, eq=False)
class HeldDocuments:
    """Documents to be searched many times, on the device, in blocks; made by `hold`.

    Attributes:
        blocks: one or more `[rows, dim]`, in order, finite, all of one shape: equal documents get
            equal scores in every block. Zeros fill the last.
        count: how many documents there are.
    """

    blocks: tuple[jax.Array, ...]
    count: int


def hold(documents: jax.Array | np.ndarray, block_size: int = 2**20) -> HeldDocuments:
    """Moves documents to the device and checks them once, so that a query need not.

    Args:
        documents: `[documents, dim]` floats.
        block_size: documents of a block, at most. Large ones are fastest: each has its own top k.

    Raises:
        InputError: documents that are empty, not 2-D or not finite, or a block size below 1.
    """
    check_at_least_1(block_size=block_size)
    _check_matrix("documents", documents)
    return HeldDocuments(tuple(_document_blocks(documents, block_size)), len(documents))


def top_k(
    queries: jax.Array | np.ndarray,
    documents: jax.Array | np.ndarray | HeldDocuments,
    k: int,
    block_size: int = 65_536,
    query_block: int = 512,
) -> tuple[jax.Array, jax.Array]:
    """Finds the k documents of largest inner product with each query.

    Exact: products accumulate in float32 whatever the input dtype, and equal scores are ordered by
    document index. Beyond inputs and result it holds one block of documents and one block of
    scores, `[query_block, block_size]`.

    Args:
        queries: `[queries, dim]` floats.
        documents: `[documents, dim]` floats; a numpy array or memory map moves to the device block
            by block. Held, for many searches: each reads the documents once and copies nothing.
        k: how many to find; more than there are documents finds all.
        block_size: documents scored at a time; held ones have their blocks already.
        query_block: queries scored at a time; fewer where held blocks are large.

    Returns:
        Scores `[queries, k]` float32, best first, and document indices `[queries, k]` int32.

    Raises:
        InputError: arrays that are empty, not 2-D, of different dim or not finite, or k or a block
            size below 1.
    """
    check_at_least_1(k=k, block_size=block_size, query_block=query_block)
    _check_matrix("queries", queries)
    if isinstance(documents, HeldDocuments):
        size, dim = documents.blocks[0].shape
        query_block = min(query_block, max(1, _SCORES // size))
        blocks, count = iter(documents.blocks), documents.count
    else:
        _check_matrix("documents", documents)
        count, dim = documents.shape
        blocks = _document_blocks(documents, block_size)
    if queries.shape[1] != dim:
        raise InputError(
            f"queries have dim {queries.shape[1]}, documents {dim}",
            "Encode both with the same model.",
        )
    k = min(k, count)
    query_blocks = [
        _finite_block("queries", queries, start, query_block)
        for start in range(0, len(queries), query_block)
    ]
    best = [
        (jnp.full((len(block), k), -jnp.inf, jnp.float32), jnp.zeros((len(block), k), jnp.int32))
        for block in query_blocks
    ]
    start = 0
    for document_block in blocks:
        best = [
            _merge(*so_far, block, document_block, start, count)
            for so_far, block in zip(best, query_blocks, strict=True)
        ]
        start += len(document_block)
    scores, indices = zip(*best, strict=True)
    return jnp.concatenate(scores), jnp.concatenate(indices)


@jax.jit
def _merge(
    best_scores: jax.Array,
    best_indices: jax.Array,
    queries: jax.Array,
    documents: jax.Array,
    start: int,
    count: int,
) -> tuple[jax.Array, jax.Array]:
    """Merges a block of documents into the best so far.

    The first has index `start`; those from index `count` on are none.
    """
    scores = jnp.einsum(
        "qd,nd->qn",
        queries,
        documents,
        # Accelerators otherwise round float32 factors to bfloat16 or TF32.
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )
    k = best_scores.shape[1]
    indices = start + jnp.broadcast_to(jnp.arange(len(documents)), scores.shape)
    if len(documents) % _GROUP == 0 and 4 * _GROUP * (k + 1) <= len(documents):
        scores, indices = _best_groups(scores, k, start, count)
    scores = jnp.where(indices < count, _one_zero(scores), -jnp.inf)
    scores, columns = jax.lax.top_k(scores, min(k, len(documents)))
    indices = jnp.take_along_axis(indices, columns, axis=1)
    # top_k keeps the order of equal scores, so the earlier blocks come first.
    scores, columns = jax.lax.top_k(jnp.concatenate([best_scores, scores], axis=1), k)
    indices = jnp.concatenate([best_indices, indices], axis=1)
    return scores, jnp.take_along_axis(indices, columns, axis=1)


def _best_groups(scores: jax.Array, k: int, start: int, count: int) -> tuple[jax.Array, jax.Array]:
    """Keeps the k + 1 groups of largest maximum, in order: scores and indices `[queries, kept]`.

    The k best are among them: a document of another group has k maxima before it, each larger, or
    equal and earlier. The one more is for the group that `count` cuts, which zeros may lift.
    """
    groups = scores.reshape(len(scores), -1, _GROUP)
    first = start + _GROUP * jnp.arange(groups.shape[1])
    maxima = jnp.where(first < count, _one_zero(groups.max(axis=2)), -jnp.inf)
    kept = jnp.sort(jax.lax.top_k(maxima, k + 1)[1], axis=1)[:, :, None]
    scores = jnp.take_along_axis(groups, kept, axis=1)
    indices = start + _GROUP * kept + jnp.arange(_GROUP)[None, None]
    return scores.reshape(len(scores), -1), indices.reshape(len(scores), -1)


def _one_zero(scores: jax.Array) -> jax.Array:
    """-0.0 as 0.0, before which top_k would put it."""
    return jnp.where(scores == 0, 0.0, scores)


def _document_blocks(documents: jax.Array | np.ndarray, block_size: int) -> Iterator[jax.Array]:
    """Moves documents to the device in blocks of one shape, nearly even, zeros at the end."""
    count = len(documents)
    size = math.ceil(count / math.ceil(count / block_size))
    if size > _GROUP**2:
        size = math.ceil(size / _GROUP) * _GROUP
    for start in range(0, count, size):
        block = _finite_block("documents", documents, start, size)
        missing = size - len(block)
        yield jnp.pad(block, ((0, missing), (0, 0))) if missing else block


def _finite_block(name: str, vectors: jax.Array | np.ndarray, start: int, size: int) -> jax.Array:
    """Moves rows from `start` on to the device and checks them."""
    block = jnp.asarray(vectors[start : start + size])
    finite = jnp.isfinite(block).all(axis=1)
    if not finite.all():
        row = start + int(jnp.argmin(finite))
        raise InputError(f"{name}: row {row} is not finite", "Remove or re-encode this vector.")
    return block


def _check_matrix(name: str, vectors: jax.Array | np.ndarray) -> None:
    if vectors.ndim != 2 or not vectors.size:
        raise InputError(f"{name} has shape {vectors.shape}", "Its shape must be [rows, dim].")
