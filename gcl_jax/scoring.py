"""How well a document fits a query, from what an encoder gives for both layouts.

The score of a layout is cosine * (|document| / |query|)^(1 - exponent): the cosine with exponent 1;
with less, what a document has beside the query costs less. Layouts are added by weight. Both sides
become vectors whose inner product is the score, so that search is a product of matrices.
"""

from collections.abc import Mapping

import numpy as np

from retrieval_jax.errors import check_range


def query_vectors(
    vectors: Mapping[str, np.ndarray], exponent: float = 1.0, slt_weight: float = 0.5
) -> np.ndarray:
    """Vectors of queries.

    Args:
        vectors: layout -> `[queries, dim]`, of any length.
        exponent: see the module.
        slt_weight: share of the layout trees where there are both layouts.

    Returns:
        float32 `[queries, dims of all layouts]`.
    """
    return _side_by_side(vectors, exponent - 1, slt_weight)


def document_vectors(
    vectors: Mapping[str, np.ndarray], exponent: float = 1.0, slt_weight: float = 0.5
) -> np.ndarray:
    """Vectors of documents; see `query_vectors`. With exponent 1 the two are alike."""
    return _side_by_side(vectors, 1 - exponent, slt_weight)


def scores(
    queries: Mapping[str, np.ndarray],
    documents: Mapping[str, np.ndarray],
    exponent: float = 1.0,
    slt_weight: float = 0.5,
) -> np.ndarray:
    """Scores float32 `[queries, documents]`."""
    documents_ = document_vectors(documents, exponent, slt_weight)
    return query_vectors(queries, exponent, slt_weight) @ documents_.T


def _side_by_side(vectors: Mapping[str, np.ndarray], power: float, slt_weight: float) -> np.ndarray:
    """Each layout at the root of its weight and, if not zero, length to the power."""
    check_range("slt_weight", slt_weight, at_least=0, at_most=1)
    weights = {"slt": slt_weight, "opt": 1 - slt_weight}
    if len(vectors) == 1:
        weights = dict.fromkeys(vectors, 1.0)
    parts = []
    for layout, of_layout in vectors.items():
        lengths = np.linalg.norm(of_layout, axis=1, keepdims=True)
        scale = np.where(lengths > 0, np.maximum(lengths, 1e-30) ** (power - 1), 0.0)
        parts.append(of_layout * (scale * np.sqrt(weights[layout])))
    return np.concatenate(parts, axis=1).astype(np.float32)
