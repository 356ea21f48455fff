"""Scoring lists of candidates: each text encoded once, pairs scored in blocks."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ltr_jax.data import Features, FeatureTable
from ltr_jax.model import CATEGORIES, DOCUMENT, QUERY, Ranker, feature_kinds
from retrieval_jax.encoding import encode
from retrieval_jax.packing import round_up
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch
from retrieval_jax.rankings import Ranking

# Float32 values of a block of pairs that are held at a time, in one layer.
BLOCK_VALUES = 2**23
# Candidates and texts are padded to a multiple of it, so that few programs are compiled.
CANDIDATE_MULTIPLE = 64


class Scorer:
    """A ranker whose programs are compiled once.

    Where the sides' halves are multiplied, a query without categories is compared with documents as
    if these had none either: a part that one side lacks shrinks their cosine and says nothing.

    Args:
        model: the ranker.
    """

    def __init__(self, model: Ranker) -> None:
        self.model = model
        self._convolve = jax.jit(
            functools.partial(model.apply, method=Ranker.convolve), static_argnums=(1, 2, 5)
        )
        self._half = jax.jit(functools.partial(model.apply, method=Ranker.half), static_argnums=1)
        self._score = jax.jit(self._score_block)

    def encode(self, params: Params, side: str, features: Features) -> np.ndarray:
        """The halves of the first layer of all texts of one side.

        Args:
            params: of the model.
            side: whose texts.
            features: of each of `feature_kinds`, one row a text.

        Returns:
            float32 `[texts, hidden]`.
        """
        return self._halves(params, side, self._pooled(params, side, features))

    def _pooled(self, params: Params, side: str, features: Features) -> list[np.ndarray]:
        """Of each kind `[texts, filters]`; zeros for a text that has nothing of it."""
        pooled = []
        for kind in feature_kinds(self.model.config):
            rows = functools.partial(self._rows, params, side, kind, features[kind])
            pooled.append(encode(rows, features[kind].table))
        return pooled

    def _halves(self, params: Params, side: str, pooled: Sequence[np.ndarray]) -> np.ndarray:
        halves = self._half({"params": params}, side, [_padded(of_kind) for of_kind in pooled])
        return np.asarray(halves)[: len(pooled[0])]

    def _rows(
        self,
        params: Params,
        side: str,
        kind: str,
        feature: FeatureTable,
        packed: Batch,
        num_texts: int,
    ) -> jax.Array:
        vectors, windows = feature.rows(packed)
        return self._convolve({"params": params}, side, kind, vectors, windows, num_texts)

    def score(
        self,
        params: Params,
        queries: np.ndarray,
        documents: np.ndarray,
        candidates: Sequence[np.ndarray],
    ) -> list[np.ndarray]:
        """Scores each query's candidates.

        Args:
            params: of the model.
            queries: `[queries, hidden]`, as `encode` gives.
            documents: `[documents, hidden]`.
            candidates: of each query, indices of documents `[n]`; n differs.

        Returns:
            Of each query float32 `[n]`.
        """
        longest = max(map(len, candidates), default=0)
        width = round_up(max(longest, 1), CANDIDATE_MULTIPLE)
        rows = max(BLOCK_VALUES // (width * self.model.config.hidden), 1)
        rows = min(rows, 1 << max(len(candidates) - 1, 0).bit_length())  # few queries: few rows
        padded = np.zeros((len(candidates), width), np.int32)
        for row, of_query in zip(padded, candidates, strict=True):
            row[: len(of_query)] = of_query
        documents_on_device = jax.device_put(_padded(documents))
        scores: list[np.ndarray] = []
        for start in range(0, len(candidates), rows):
            block = padded[start : start + rows]
            spare = (0, rows - len(block))  # the last block has the shape of the others
            block = np.pad(block, (spare, (0, 0)))
            of_block = np.pad(queries[start : start + rows], (spare, (0, 0)))
            values = np.asarray(self._score(params, of_block, documents_on_device, block))
            of_queries = candidates[start : start + rows]
            scores += [row[: len(of)] for row, of in zip(values, of_queries, strict=False)]
        return scores

    def _score_block(
        self, params: Params, queries: jax.Array, documents: jax.Array, candidates: jax.Array
    ) -> jax.Array:
        """`[rows, width]` of queries `[rows, hidden]` and indices `[rows, width]`."""
        pairs = documents[candidates]  # [rows, width, hidden]
        scores: Any = self.model.apply(
            {"params": params}, queries[:, None], pairs, method=Ranker.score
        )
        return scores

    def rank(
        self,
        params: Params,
        queries: tuple[Features, Mapping[str, int]],
        documents: tuple[Features, Mapping[str, int]],
        candidates: Mapping[str, Sequence[str]],
    ) -> Ranking:
        """Ranks each query's candidates.

        Args:
            params: of the model.
            queries: features of one row a query, and query id -> its row.
            documents: the same of documents.
            candidates: query id -> document ids.
        """
        (of_queries, query_rows), (of_documents, document_rows) = queries, documents
        rows = np.array([query_rows[query] for query in candidates], int)
        asked = {kind: table.take(rows) for kind, table in of_queries.items()}
        lists = [
            np.array([document_rows[document] for document in of_query], np.int32)
            for of_query in candidates.values()
        ]
        halves = self.encode(params, QUERY, asked)
        pooled = self._pooled(params, DOCUMENT, of_documents)
        scores: dict[int, np.ndarray] = {}
        for group, compared in self._groups(asked, pooled):
            encoded = self._halves(params, DOCUMENT, compared)
            found = self.score(params, halves[group], encoded, [lists[row] for row in group])
            scores |= zip(group.tolist(), found, strict=True)
        return {
            query: dict(zip(of_query, scores[row].tolist(), strict=True))
            for row, (query, of_query) in enumerate(candidates.items())
        }

    def _groups(
        self, queries: Features, pooled: Sequence[np.ndarray]
    ) -> list[tuple[np.ndarray, Sequence[np.ndarray]]]:
        """Rows of queries, and what of the documents they are compared with."""
        if self.model.config.interaction == "sum" or len(pooled) == 1:
            return [(np.arange(len(next(iter(queries.values())).table.lengths)), pooled)]
        lacks, (words, categories) = queries[CATEGORIES].is_empty, pooled
        groups = [
            (np.flatnonzero(~lacks), pooled),
            (np.flatnonzero(lacks), [words, np.zeros_like(categories)]),
        ]
        return [group for group in groups if len(group[0])]


def _padded(texts: np.ndarray) -> np.ndarray:
    """Rows of zeros after `[texts, dim]`, up to a multiple of `CANDIDATE_MULTIPLE`."""
    return np.pad(texts, ((0, round_up(len(texts), CANDIDATE_MULTIPLE) - len(texts)), (0, 0)))
