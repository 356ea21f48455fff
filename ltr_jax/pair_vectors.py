"""Word vectors of two languages in one space, from the training pairs (cross-lingual LSI).

Dumais, Letsche, Littman and Landauer (1997), "Automatic cross-language retrieval using latent
semantic indexing": a query and its document of relevance 2 are one text in two languages; the
singular vectors of the matrix of such texts bring words together that occur in the same ones. No
judgement of dev or test is used, and no text of theirs but to count words.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from ltr_jax.datasets.collection import Collection
from ltr_jax.tokenizers import tokenize
from retrieval_jax.encoding import unit_length
from retrieval_jax.errors import InputError
from retrieval_jax.word_vectors import WordVectors


def train_pair_vectors(
    collection: Collection, dim: int, min_count: int, seed: int
) -> tuple[WordVectors, WordVectors]:
    """Word vectors of the queries' and the documents' language, comparable by their cosine.

    A word that both languages spell alike is one word. The root mean square of a vector's numbers
    is the word's idf in its language over the largest one, so that rare words weigh more.

    Args:
        collection: with tokenizers for both its languages.
        dim: width of a vector.
        min_count: pairs in which a word must occur.
        seed: of the randomised decomposition.

    Raises:
        InputError: training has no document of relevance 2, too few words or pairs for `dim`, or no
            tokenizer for a language.
    """
    rows = collection.training_pairs
    if not len(rows):
        raise InputError(
            f"{collection.name}: training has no document of relevance 2.",
            "Set --word-vectors.method word2vec.",
        )
    sides = (collection.queries, collection.documents)
    lists = [tokenize(side.texts, side.language) for side in sides]
    joint = [lists[0][query] + lists[1][document] for query, document in rows.tolist()]
    words, vectors = _singular_vectors(joint, dim, min_count, seed)
    found = []
    for side, of_side in zip(sides, lists, strict=True):
        others = tokenize(collection.corpora.get(side.language, ()), side.language)
        found.append(_weighted(words, vectors, [*of_side, *others]))
    return found[0], found[1]


def _singular_vectors(
    lists: Sequence[Sequence[str]], dim: int, min_count: int, seed: int
) -> tuple[list[str], np.ndarray]:
    """Words that occur in `min_count` lists and their right singular vectors `[words, dim]`.

    Of the matrix of (1 + log tf) idf, each list at length 1; the vectors have root mean square 1.
    """
    counts = CountVectorizer(analyzer=list, dtype=np.float64)  # pyright: ignore[reportArgumentType]
    matrix: Any = counts.fit_transform(lists)
    occurs = np.bincount(matrix.indices, minlength=matrix.shape[1])
    kept = np.flatnonzero(occurs >= min_count)
    if min(len(kept), len(lists)) < dim:
        raise InputError(
            f"{len(lists)} training pairs have {len(kept)} words that occur in {min_count} of them:"
            f" too few for vectors of {dim} numbers",
            "Lower --word-vectors.dim.",
        )
    matrix = matrix[:, kept]
    matrix.data = 1 + np.log(matrix.data)
    matrix = normalize(matrix @ sparse.diags(np.log(len(lists) / occurs[kept])))
    _, _, right = randomized_svd(matrix, dim, random_state=seed)
    names = counts.get_feature_names_out()[kept].tolist()
    return names, unit_length(right.T) * np.sqrt(dim)


def _weighted(
    words: Sequence[str], vectors: np.ndarray, texts: Sequence[Sequence[str]]
) -> WordVectors:
    """The vectors of the words of one language's texts, times idf over the largest idf."""
    vectorizer = CountVectorizer(analyzer=list, binary=True)  # pyright: ignore[reportArgumentType]
    counts: Any = vectorizer.fit_transform(texts)
    occurs = np.asarray(counts.sum(axis=0)).ravel()
    idf = np.log((1 + len(texts)) / (1 + occurs)) + 1
    column: dict[str, int] = vectorizer.vocabulary_
    known = [row for row, word in enumerate(words) if word in column]
    weights = idf[[column[words[row]] for row in known]] / idf.max()
    scaled = vectors[known] * weights[:, None]
    return WordVectors(tuple(words[row] for row in known), scaled.astype(np.float32))
