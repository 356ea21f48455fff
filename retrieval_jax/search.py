"""Exact nearest-neighbour search by inner product, in blocks, on the device."""

import jax
import jax.numpy as jnp
import numpy as np

from retrieval_jax.errors import InputError


def top_k(
    queries: jax.Array | np.ndarray,
    documents: jax.Array | np.ndarray,
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
            by block.
        k: how many to find; more than there are documents finds all.
        block_size: documents scored at a time.
        query_block: queries scored at a time.

    Returns:
        Scores `[queries, k]` float32, best first, and document indices `[queries, k]` int32.

    Raises:
        InputError: arrays that are empty, not 2-D, of different dim or not finite, or k or a block
            size below 1.
    """
    for name, value in (("k", k), ("block_size", block_size), ("query_block", query_block)):
        if value < 1:
            raise InputError(f"{name} is {value}", "It must be 1 or more.")
    for name, vectors in (("queries", queries), ("documents", documents)):
        if vectors.ndim != 2 or not vectors.size:
            raise InputError(f"{name} has shape {vectors.shape}", "Its shape must be [rows, dim].")
    if queries.shape[1] != documents.shape[1]:
        raise InputError(
            f"queries have dim {queries.shape[1]}, documents {documents.shape[1]}",
            "Encode both with the same model.",
        )
    k = min(k, len(documents))
    query_blocks = [
        _finite_block("queries", queries, start, query_block)
        for start in range(0, len(queries), query_block)
    ]
    best = [
        (jnp.full((len(block), k), -jnp.inf, jnp.float32), jnp.zeros((len(block), k), jnp.int32))
        for block in query_blocks
    ]
    for start in range(0, len(documents), block_size):
        document_block = _finite_block("documents", documents, start, block_size)
        best = [
            _merge(*so_far, block, document_block, start)
            for so_far, block in zip(best, query_blocks, strict=True)
        ]
    scores, indices = zip(*best, strict=True)
    return jnp.concatenate(scores), jnp.concatenate(indices)


@jax.jit
def _merge(
    best_scores: jax.Array,
    best_indices: jax.Array,
    queries: jax.Array,
    documents: jax.Array,
    start: int,
) -> tuple[jax.Array, jax.Array]:
    """Merges a block of documents, the first of which has index `start`, into the best so far."""
    scores = jnp.einsum(
        "qd,nd->qn",
        queries,
        documents,
        # Accelerators otherwise round float32 factors to bfloat16 or TF32.
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )
    # top_k would put 0.0 before -0.0.
    scores = jnp.where(scores == 0, 0.0, scores)
    k = best_scores.shape[1]
    scores, indices = jax.lax.top_k(scores, min(k, len(documents)))
    # top_k keeps the order of equal scores, so the earlier blocks come first.
    scores, columns = jax.lax.top_k(jnp.concatenate([best_scores, scores], axis=1), k)
    indices = jnp.concatenate([best_indices, indices + start], axis=1)
    return scores, jnp.take_along_axis(indices, columns, axis=1)


def _finite_block(name: str, vectors: jax.Array | np.ndarray, start: int, size: int) -> jax.Array:
    """Moves rows from `start` on to the device and checks them."""
    block = jnp.asarray(vectors[start : start + size])
    finite = jnp.isfinite(block).all(axis=1)
    if not finite.all():
        row = start + int(jnp.argmin(finite))
        raise InputError(f"{name}: row {row} is not finite", "Remove or re-encode this vector.")
    return block
