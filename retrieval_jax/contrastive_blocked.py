"""Contrastive losses of large batches, in memory that does not grow with their square.

The matrix of similarities is cut into tiles; none outlives its turn. Of the symmetric loss, one
pass over them gives the sums of rows and of columns at once, since all share one shift: a cosine is
at most 1. The gradient, written by hand, goes over the tiles once more. The loss of one direction
takes any temperature, a learned one too, and other candidates than one a query.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from retrieval_jax.losses import all_differ, contrastive_loss, l2_normalize, weighted_mean

# exp(-2 / temperature), the least term of a sum, must be a normal float32 number.
LOWEST_TEMPERATURE = 0.025


def blocked_contrastive_loss(
    queries: jax.Array,
    candidates: jax.Array,
    temperature: float,
    ids: jax.Array | None = None,
    block_size: int = 512,
    lanes: int = 1,
    weights: jax.Array | None = None,
    candidate_ids: jax.Array | None = None,
) -> jax.Array:
    """`contrastive_loss_from_embeddings(..., symmetric=True)` by cosine, tile by tile.

    Beyond inputs and gradients it holds a tile of `[lanes, block_size, block_size]` float32 and its
    like.

    Args:
        queries: `[n, dim]`, any float dtype; query `i` belongs to candidate `i`.
        candidates: `[n, dim]`.
        temperature: fixed, at least 0.025: below, float32 does not hold the terms of a sum.
        ids: int32 `[n]`, not negative: what pair `i` is about. A candidate of the same id as the
            query is no negative of it. Or `[n, k]`, of several kinds: one equal id is enough. All
            differ by default.
        block_size: rows and columns of a tile.
        lanes: equal parts of the queries whose tiles are computed side by side: the devices over
            which they are split.
        weights: `[n]`, non-negative, of the pairs' losses; all ones by default.
        candidate_ids: of the candidates, shaped like `ids`, which are then the queries' alone; a
            pair has one of its ids on both sides. The same as the queries' by default.

    Returns:
        float32 scalar.

    Raises:
        ValueError: shapes that differ, a temperature below 0.025, or `n` not divisible by `lanes`.
    """
    n = queries.shape[0]
    if queries.shape != candidates.shape or n % lanes:
        raise ValueError(f"pairs of {queries.shape} and {candidates.shape} in {lanes} lanes")
    if temperature < LOWEST_TEMPERATURE:
        raise ValueError(f"temperature {temperature} is below {LOWEST_TEMPERATURE}")
    ids = jnp.arange(n) if ids is None else ids
    of_both = ids, ids if candidate_ids is None else candidate_ids
    of_queries, of_candidates = (of.astype(jnp.int32).reshape(n, -1) for of in of_both)
    queries, candidates = l2_normalize(queries), l2_normalize(candidates)
    positives = jnp.sum(queries * candidates, axis=1) / temperature  # [n]
    block_size = min(block_size, n)
    both_ids = of_queries, of_candidates  # [n, kinds] each
    negatives: Any = _log_sums(queries, candidates, both_ids, temperature, block_size, lanes)
    both = [jnp.logaddexp(positives, negative) - positives for negative in negatives]
    return (weighted_mean(both[0], weights) + weighted_mean(both[1], weights)) / 2


def row_blocked_contrastive_loss(
    queries: jax.Array,
    candidates: jax.Array,
    temperature: float | jax.Array,
    query_ids: jax.Array,
    candidate_ids: jax.Array,
    positives: jax.Array | None = None,
    weights: jax.Array | None = None,
    tile: int = 2**23,
    lanes: int = 1,
) -> jax.Array:
    """`contrastive_loss_from_embeddings(...)` by cosine, some queries at a time.

    Beyond inputs and gradients it holds logits of those queries and all candidates, in each lane;
    for the gradient they are computed again.

    Args:
        queries: `[n, dim]`, any float dtype.
        candidates: `[m, dim]`.
        temperature: positive scalar, fixed or learned.
        query_ids: int `[n]`, as in the plain loss.
        candidate_ids: int `[m]`.
        positives: int `[n]`, column of each query's positive; `0 .. n-1` by default.
        weights: `[n]`, as in the plain loss.
        tile: logits held at a time in each lane, about; not less than one row.
        lanes: as in `blocked_contrastive_loss`.

    Returns:
        float32 scalar.

    Raises:
        ValueError: `n` not divisible by `lanes`.
    """
    n, m = len(queries), len(candidates)
    if n % lanes:
        raise ValueError(f"{n} queries in {lanes} lanes")
    positives = jnp.arange(n) if positives is None else positives
    weights = jnp.ones(n) if weights is None else weights.astype(jnp.float32)
    candidates = l2_normalize(candidates)
    size = min(max(tile // m, 1), n // lanes)

    def cut(values: jax.Array) -> jax.Array:
        by_lane = values.reshape(lanes, -1, *values.shape[1:])
        padding = [(0, 0), (0, -by_lane.shape[1] % size), *[(0, 0)] * (values.ndim - 1)]
        blocks = jnp.pad(by_lane, padding).reshape(lanes, -1, size, *values.shape[1:])
        return jnp.moveaxis(blocks, 1, 0)  # [turns, lanes, size, ...]

    @jax.checkpoint
    def of_lane(queries: jax.Array, ids: jax.Array, positives: jax.Array) -> jax.Array:
        cosines = jnp.matmul(queries, candidates.T, preferred_element_type=jnp.float32)
        mask = all_differ(ids, candidate_ids)  # [size, m]
        return contrastive_loss(cosines / temperature, positives, mask, reduce="none")

    def turn(total: jax.Array, row: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        *inputs, row_weights = row
        losses = jax.vmap(of_lane)(*inputs)  # [lanes, size]
        return total + jnp.sum(losses * row_weights), None

    rows = tuple(map(cut, (l2_normalize(queries), query_ids, positives, weights)))
    total, _ = jax.lax.scan(turn, jnp.float32(0), rows)
    return total / jnp.maximum(jnp.sum(weights), 1e-30)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def _log_sums(
    queries: jax.Array,
    candidates: jax.Array,
    ids: tuple[jax.Array, jax.Array],
    temperature: float,
    block_size: int,
    lanes: int,
) -> tuple[jax.Array, jax.Array]:
    """Log-sum-exp of the logits of each query's negatives, and of each candidate's, `[n]`."""
    n = len(queries)
    rows = _rows(queries, ids[0], block_size, lanes)
    columns = _blocks(candidates, ids[1], block_size)

    def over_rows(column_sums: jax.Array, row: tuple) -> tuple[jax.Array, jax.Array]:
        def over_columns(row_sums: jax.Array, column: tuple) -> tuple[jax.Array, jax.Array]:
            terms = _terms(row, column, temperature)
            return row_sums + jnp.sum(terms, axis=2), jnp.sum(terms, axis=(0, 1))

        row_sums, of_columns = jax.lax.scan(over_columns, jnp.zeros(row[1].shape[:2]), columns)
        return column_sums + of_columns, row_sums

    start = jnp.zeros(columns[1].shape[:2])
    column_sums, row_sums = jax.lax.scan(over_rows, start, rows)  # row_sums [blocks, lanes, block]
    shift = 1 / temperature
    return (
        jnp.log(_unblock_rows(row_sums, n)) + shift,
        jnp.log(column_sums.reshape(-1)[:n]) + shift,
    )


def _log_sums_forward(
    queries: jax.Array,
    candidates: jax.Array,
    ids: tuple[jax.Array, jax.Array],
    temperature: float,
    block_size: int,
    lanes: int,
) -> tuple[Any, tuple[Any, ...]]:
    sums: Any = _log_sums(queries, candidates, ids, temperature, block_size, lanes)
    return sums, (queries, candidates, *ids, *sums)


def _log_sums_backward(
    temperature: float,
    block_size: int,
    lanes: int,
    saved: tuple[Any, ...],
    gradients: tuple[jax.Array, jax.Array],
) -> tuple[jax.Array, jax.Array, None]:
    queries, candidates, query_ids, candidate_ids, of_rows, of_columns = saved
    n, dim = queries.shape
    shift = 1 / temperature
    # Derivative of a logit: its term, as a share of the row's sum and of the column's. Where there
    # is no negative the share is 0, not 0 / 0.
    row_shares, column_shares = (
        jnp.where(jnp.isfinite(sums), gradient * jnp.exp(shift - sums), 0.0) / temperature
        for sums, gradient in zip((of_rows, of_columns), gradients, strict=True)
    )
    rows = (
        *_rows(queries, query_ids, block_size, lanes),
        *_rows(row_shares, query_ids, block_size, lanes)[:1],
    )
    columns = (
        *_blocks(candidates, candidate_ids, block_size),
        *_blocks(column_shares, candidate_ids, block_size)[:1],
    )

    def over_rows(candidate_gradients: jax.Array, row: tuple) -> tuple[jax.Array, jax.Array]:
        def over_columns(query_gradients: jax.Array, column: tuple) -> tuple[jax.Array, jax.Array]:
            terms = _terms(row, column, temperature)
            weights = terms * (row[2][:, :, None] + column[2][None, None, :])  # [lanes, row, col]
            query_gradients += jnp.einsum("lrc,cd->lrd", weights, column[0])
            return query_gradients, jnp.einsum("lrc,lrd->cd", weights, row[0])

        query_gradients, of_columns = jax.lax.scan(over_columns, jnp.zeros(row[0].shape), columns)
        return candidate_gradients + of_columns, query_gradients

    start = jnp.zeros(columns[0].shape)
    candidate_gradients, query_gradients = jax.lax.scan(over_rows, start, rows)
    return _unblock_rows(query_gradients, n), candidate_gradients.reshape(-1, dim)[:n], None


_log_sums.defvjp(_log_sums_forward, _log_sums_backward)


def _terms(row: tuple, column: tuple, temperature: float) -> jax.Array:
    """exp(logit - 1 / temperature) of a tile `[lanes, rows, columns]`; 0 for no negative."""
    cosines = jnp.einsum("lrd,cd->lrc", row[0], column[0], preferred_element_type=jnp.float32)
    is_negative = all_differ(row[1], column[1])  # [lanes, rows, columns]
    is_negative &= (row[1][:, :, None, 0] >= 0) & (column[1][None, None, :, 0] >= 0)
    return jnp.where(is_negative, jnp.exp((cosines - 1) / temperature), 0.0)


def _blocks(values: jax.Array, ids: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Cuts `[n, ...]` and ids into `[blocks, size, ...]`, filled up with zeros of id -1."""
    missing = -len(ids) % size
    values = jnp.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)])
    ids = jnp.pad(ids, [(0, missing), *[(0, 0)] * (ids.ndim - 1)], constant_values=-1)
    return values.reshape(-1, size, *values.shape[1:]), ids.reshape(-1, size, *ids.shape[1:])


def _rows(values: jax.Array, ids: jax.Array, size: int, lanes: int) -> tuple[jax.Array, jax.Array]:
    """Cuts `[n, ...]` and ids into `[blocks, lanes, size, ...]`, each lane a run of rows."""
    parts = values.reshape(lanes, -1, *values.shape[1:]), ids.reshape(lanes, -1, *ids.shape[1:])
    cut = functools.partial(_blocks, size=min(size, len(ids) // lanes))
    values, ids = jax.vmap(cut, out_axes=1)(*parts)
    return values, ids


def _unblock_rows(blocks: jax.Array, n: int) -> jax.Array:
    """Inverse of `_rows`: `[blocks, lanes, size, ...]` -> `[n, ...]`."""
    lanes = blocks.shape[1]
    parts = jnp.moveaxis(blocks, 1, 0).reshape(lanes, -1, *blocks.shape[3:])
    return parts[:, : n // lanes].reshape(n, *blocks.shape[3:])
