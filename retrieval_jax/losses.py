"""Losses, written on global arrays: under a mesh the partitioner places the collectives.

Shapes in this file: `n` queries, `m` candidates, `dim` embedding width.
"""

import functools
from typing import Literal

import jax
import jax.numpy as jnp


def l2_normalize(vectors: jax.Array) -> jax.Array:
    """Scales `[..., dim]` to unit length in float32; zero vectors stay zero, with gradient zero."""
    vectors = vectors.astype(jnp.float32)
    squared = jnp.sum(jnp.square(vectors), axis=-1, keepdims=True)
    is_zero = squared < 1e-30
    unit = vectors * jax.lax.rsqrt(jnp.where(is_zero, 1.0, squared))
    return jnp.where(is_zero, 0.0, unit)


def contrastive_loss(
    logits: jax.Array,
    positives: jax.Array,
    mask: jax.Array | None = None,
    weights: jax.Array | None = None,
    reduce: Literal["mean", "none"] = "mean",
) -> jax.Array:
    r"""Softmax cross-entropy of each query's positive among its candidates (InfoNCE).

    $$\ell_i = -\log \frac{\exp z_{i p_i}}{\sum_{j : mask_{ij} \lor j = p_i} \exp z_{ij}}$$

    Args:
        logits: `[n, m]`, similarities divided by the temperature.
        positives: int `[n]`, column of each query's positive.
        mask: bool `[n, m]`, False leaves a candidate out. A positive always counts.
        weights: `[n]`, non-negative; all ones by default. Weight 0 removes a query (padding).
        reduce: "mean" = weighted mean (0 if all weights are 0), "none" = the `[n]` losses,
            unweighted.

    Returns:
        float32 scalar, or `[n]`.

    References:
        van den Oord et al. 2018, equation 4; over entities DocEnt's P(e | s), section 2.1.
    """
    logits = logits.astype(jnp.float32)
    if mask is not None:
        is_positive = jnp.arange(logits.shape[1])[None, :] == positives[:, None]  # [n, m]
        logits = jnp.where(mask | is_positive, logits, -jnp.inf)
    positive_logits = jnp.take_along_axis(logits, positives[:, None], axis=1)[:, 0]  # [n]
    losses = jax.nn.logsumexp(logits, axis=1) - positive_logits  # [n]
    return losses if reduce == "none" else weighted_mean(losses, weights)


def contrastive_loss_from_embeddings(
    queries: jax.Array,
    candidates: jax.Array,
    temperature: float | jax.Array = 1.0,
    *,
    positives: jax.Array | None = None,
    query_ids: jax.Array | None = None,
    candidate_ids: jax.Array | None = None,
    mask: jax.Array | None = None,
    weights: jax.Array | None = None,
    symmetric: bool = False,
    normalize: bool = True,
) -> jax.Array:
    """Contrastive loss of embeddings, by cosine (or inner product) over a temperature.

    By default query `i` belongs to candidate `i`, the other candidates of the batch are its
    negatives, and candidates from `n` on are extra hard negatives of every query.

    Args:
        queries: `[n, dim]`, any float dtype; similarities are float32.
        candidates: `[m, dim]`.
        temperature: positive scalar, fixed or learned.
        positives: int `[n]`, column of each query's positive; `0 .. n-1` by default.
        query_ids: int `[n]`, what each query is about; with `candidate_ids` (`[m]`), a candidate
            of the same id as the query is no negative of it (the same entity twice in a batch).
            Or `[n, k]` with `[m, k]`, of several kinds: one equal id is enough.
        candidate_ids: int `[m]` or `[m, k]`.
        mask: bool `[n, m]`, False for further pairs that are no negatives.
        weights: `[n]`, as in `contrastive_loss`.
        symmetric: mean of both directions, query to candidate and candidate to query.
        normalize: cosine if true, else inner product.

    Returns:
        float32 scalar.

    Raises:
        ValueError: `symmetric` with `n != m` or given `positives`; one of the ids without the
            other.
    """
    n, m = queries.shape[0], candidates.shape[0]
    if symmetric and (n != m or positives is not None):
        raise ValueError(f"symmetric pairs query i with candidate i and needs n = m, not {n}, {m}")
    if (query_ids is None) != (candidate_ids is None):
        raise ValueError("query_ids and candidate_ids are given together or not at all")
    if positives is None:
        positives = jnp.arange(n)
    if normalize:
        queries, candidates = l2_normalize(queries), l2_normalize(candidates)
    logits = jnp.matmul(queries, candidates.T, preferred_element_type=jnp.float32) / temperature
    if query_ids is not None and candidate_ids is not None:
        differ = all_differ(query_ids, candidate_ids)
        mask = differ if mask is None else mask & differ
    loss = contrastive_loss(logits, positives, mask, weights)
    if symmetric:
        transposed = None if mask is None else mask.T
        loss = (loss + contrastive_loss(logits.T, positives, transposed, weights)) / 2
    return loss


def all_differ(query_ids: jax.Array, candidate_ids: jax.Array) -> jax.Array:
    """Whether query and candidate have no id in common, bool `[..., n, m]`.

    Args:
        query_ids: int `[..., n]`, or `[..., n, k]` of k kinds, each compared with its own.
        candidate_ids: int `[m]`, or `[m, k]`.
    """
    if candidate_ids.ndim == 1:
        return jnp.expand_dims(query_ids, -1) != jnp.expand_dims(
            candidate_ids, range(query_ids.ndim)
        )
    kinds = (all_differ(query_ids[..., k], candidate_ids[:, k]) for k in range(query_ids.shape[-1]))
    return functools.reduce(jnp.logical_and, kinds)


def cosine_regression_loss(
    first: jax.Array, second: jax.Array, labels: jax.Array, weights: jax.Array | None = None
) -> jax.Array:
    r"""Mean squared error between the cosine of each pair and its label.

    $$\ell_i = (\cos(u_i, v_i) - y_i)^2$$

    Args:
        first: u `[n, dim]`, any float dtype; cosines are float32.
        second: v `[n, dim]`.
        labels: y `[n]`, what the cosine should be; 0 and 1 for unlike and like.
        weights: `[n]`, non-negative; all ones by default. Weight 0 removes a pair (padding).

    Returns:
        float32 scalar, the weighted mean (0 if all weights are 0).

    References:
        Reimers and Gurevych, 2019, section 3, regression objective; `CosineSimilarityLoss` of
        sentence-transformers.
    """
    cosines = jnp.sum(l2_normalize(first) * l2_normalize(second), axis=-1)  # [n]
    return weighted_mean(jnp.square(cosines - labels.astype(jnp.float32)), weights)


def pairwise_hinge_loss(
    better: jax.Array,
    worse: jax.Array,
    margin: float = 1.0,
    weights: jax.Array | None = None,
) -> jax.Array:
    r"""Hinge on the differences of scores that should be in order.

    $$\ell_i = \max(0, m - s_i^+ + s_i^-)$$

    Args:
        better: s+ `[n]`, scores of the more relevant documents; any float dtype.
        worse: s- `[n]`, scores of less relevant documents for the same queries.
        margin: m.
        weights: `[n]`, non-negative; all ones by default. Weight 0 removes a pair (padding).

    Returns:
        float32 scalar, the weighted mean (0 if all weights are 0).

    References:
        Herbrich et al., 1999; the pairwise ranking objective of Sasaki et al., 2018.
    """
    differences = better.astype(jnp.float32) - worse.astype(jnp.float32)
    return weighted_mean(jnp.maximum(margin - differences, 0.0), weights)


def weighted_mean(values: jax.Array, weights: jax.Array | None = None) -> jax.Array:
    """Mean of `values` `[n]` by `weights` `[n]`; 0 where all weights are 0."""
    if weights is None:
        return jnp.mean(values)
    weights = weights.astype(jnp.float32)
    total = jnp.sum(weights)
    # Where a weight is 0 the value may be infinite or NaN: it must not leak.
    weighted = jnp.sum(jnp.where(weights > 0, values * weights, 0.0))
    return weighted / jnp.where(total > 0, total, 1.0)
