"""Zero-shot rankings that DocEnt is compared with: BM25, TF-IDF and the bag of sentences.

Each returns scores, float32 [queries, entities], higher for better.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Literal, cast

import bm25s
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from docent_jax.datasets.corpus import EntityCorpus
from retrieval_jax.errors import InputError
from retrieval_jax.losses import l2_normalize
from retrieval_jax.packing import power_of_two

# Numbers of a block of sentence vectors, and of their scores: 128 MiB each.
MAX_VALUES = 2**25


def bm25_scores(corpus: EntityCorpus, queries: Sequence[str]) -> np.ndarray:
    """BM25 in Lucene's form (k1 = 1.5, b = 0.75), English stop words left out.

    All sentences of an entity are one document. A query of unknown words scores 0 everywhere.

    Returns:
        float32 [queries, entities].
    """
    index = bm25s.BM25(method="lucene")
    index.index(_words(_documents(corpus)), show_progress=False)
    scores = np.empty((len(queries), len(corpus.entities)), np.float32)
    for row, words in zip(scores, _words(queries), strict=True):
        row[:] = index.get_scores_from_ids(index.get_tokens_ids(words))
    return scores


def _words(texts: Sequence[str]) -> list[list[str]]:
    words = bm25s.tokenize(list(texts), stopwords="en", show_progress=False, return_ids=False)
    return cast(list[list[str]], words)


def tfidf_scores(corpus: EntityCorpus, queries: Sequence[str]) -> np.ndarray:
    """Cosine of TF-IDF vectors, (1 + log tf) times smoothed idf, English stop words left out.

    All sentences of an entity are one document. A query of unknown words scores 0 everywhere.

    Returns:
        float32 [queries, entities].
    """
    vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    documents = vectorizer.fit_transform(_documents(corpus))
    return (vectorizer.transform(queries) @ documents.T).toarray().astype(np.float32)


def mean_vectors(
    sentence_vectors: np.ndarray, sentence_entities: np.ndarray, n_entities: int
) -> np.ndarray:
    """Mean of an entity's sentence vectors, each brought to length 1 first.

    Never holds more than `MAX_VALUES` numbers of them, so that they may be memory-mapped.

    Args:
        sentence_vectors: [sentences, dim], entity by entity.
        sentence_entities: int [sentences], the entity of each sentence, never decreasing.
        n_entities: rows of the result.

    Returns:
        float32 [entities, dim]; zeros for an entity without sentences.

    Raises:
        InputError: the arrays do not fit together.
    """
    _check_segments(sentence_vectors, sentence_entities, n_entities)
    sums = jnp.zeros((n_entities, sentence_vectors.shape[1]), jnp.float32)
    for rows in _blocks(sentence_vectors):
        sums = _add_up(sums, sentence_vectors[rows], sentence_entities[rows])
    counts = np.bincount(sentence_entities, minlength=n_entities)
    return np.asarray(sums) / np.maximum(counts, 1).astype(np.float32)[:, None]


def bag_of_sentences_scores(
    query_vectors: np.ndarray,
    sentence_vectors: np.ndarray,
    sentence_entities: np.ndarray,
    n_entities: int,
    reduce: Literal["max", "mean"] = "max",
) -> np.ndarray:
    """Maximum or mean, over the sentences of an entity, of their cosine with the query.

    The paper takes the maximum for ranking and the mean for tags. Reads the sentence vectors once,
    from the first to the last, and never holds more than `MAX_VALUES` numbers of them (or one
    sentence) or scores, so that they may be memory-mapped.

    Args:
        query_vectors: [queries, dim], of any length.
        sentence_vectors: [sentences, dim], of any length, entity by entity.
        sentence_entities: int [sentences], the entity of each sentence, never decreasing.
        n_entities: columns of the result.
        reduce: what is made of the sentences' scores.

    Returns:
        float32 [queries, entities]. An entity without sentences has -inf by "max", 0 by "mean".

    Raises:
        InputError: the arrays do not fit together, or no such reduction.
    """
    _check_segments(sentence_vectors, sentence_entities, n_entities)
    if np.ndim(query_vectors) != 2 or query_vectors.shape[1] != sentence_vectors.shape[1]:
        raise InputError(
            f"`query_vectors` is {list(np.shape(query_vectors))}, not [queries, "
            f"{sentence_vectors.shape[1]}] like `sentence_vectors`.",
            "Encode queries and sentences with the same model.",
        )
    queries = l2_normalize(jnp.asarray(query_vectors))
    if reduce == "mean":
        # The mean of dot products is the dot product with the mean.
        means = jnp.asarray(mean_vectors(sentence_vectors, sentence_entities, n_entities))
        return np.asarray(_dot(queries, means))
    if reduce != "max":
        raise InputError(f"`reduce` is {reduce!r}.", 'Choose "max" or "mean".')
    scores = np.full((len(queries), n_entities), -np.inf, np.float32)
    for rows in _blocks(sentence_vectors):
        sentences = l2_normalize(jnp.asarray(sentence_vectors[rows]))
        first, last = sentence_entities[rows][[0, -1]]
        segments = jnp.asarray(sentence_entities[rows] - first)
        # Few shapes: blocks have more or fewer entities.
        n_segments = power_of_two(int(last - first) + 1)
        n_asked = max(1, MAX_VALUES // len(sentences))
        for start in range(0, len(queries), n_asked):
            asked = slice(start, start + n_asked)
            found = np.asarray(_max_scores(queries[asked], sentences, segments, n_segments))
            # An entity may go on from the block before.
            of_block = scores[asked, first : last + 1]
            np.maximum(of_block, found[:, : of_block.shape[1]], out=of_block)
    return scores


def _blocks(vectors: np.ndarray) -> Iterator[slice]:
    """Rows of `vectors` [n, dim], at most `MAX_VALUES` numbers at a time, or one row."""
    n_rows = max(1, MAX_VALUES // max(1, vectors.shape[1]))
    return (slice(start, start + n_rows) for start in range(0, len(vectors), n_rows))


@functools.partial(jax.jit, donate_argnums=0)
def _add_up(sums: jax.Array, vectors: jax.Array, segments: jax.Array) -> jax.Array:
    """Adds vectors [n, dim], brought to length 1, to the sums [entities, dim] of their entities."""
    return sums.at[segments].add(l2_normalize(vectors), indices_are_sorted=True)


def _dot(queries: jax.Array, vectors: jax.Array) -> jax.Array:
    """Dot products [queries, vectors] in full float32."""
    return jnp.matmul(queries, vectors.T, precision=jax.lax.Precision.HIGHEST)


@functools.partial(jax.jit, static_argnames="n_entities")
def _max_scores(
    queries: jax.Array, sentences: jax.Array, segments: jax.Array, n_entities: int
) -> jax.Array:
    by_sentence = _dot(sentences, queries)  # [sentences, queries]
    return jax.ops.segment_max(by_sentence, segments, n_entities, indices_are_sorted=True).T


def _check_segments(vectors: np.ndarray, segments: np.ndarray, n_segments: int) -> None:
    if np.ndim(vectors) != 2 or np.shape(segments) != np.shape(vectors)[:1]:
        raise InputError(
            f"`sentence_vectors` {list(np.shape(vectors))} and `sentence_entities` "
            f"{list(np.shape(segments))} are not [sentences, dim] and [sentences].",
            "Give one vector and one entity per sentence.",
        )
    if len(segments) and (
        segments[0] < 0 or segments[-1] >= n_segments or np.any(np.diff(segments) < 0)
    ):
        raise InputError(
            f"`sentence_entities` does not go up from 0 to at most {n_segments - 1}.",
            "Sort sentences by entity.",
        )


def _documents(corpus: EntityCorpus) -> list[str]:
    return [
        " ".join(corpus.sentences[start:end]) for start, end in itertools.pairwise(corpus.bounds)
    ]
