"""Rankings to compare with: tf-idf, mean word vectors, association of categories, popularity."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from ltr_jax.datasets.collection import Collection, Texts, Topics
from ltr_jax.tokenizers import Tokenizer, latin_words, tokenizer
from retrieval_jax.encoding import unit_length
from retrieval_jax.errors import InputError
from retrieval_jax.rankings import Ranking
from retrieval_jax.word_vectors import WordVectors

# Scores of queries with all documents that are held at once: 64 MiB.
_MAX_SCORES = 2**24


class TfidfIndex:
    """Documents by their tf-idf vectors, of unit length: (1 + log tf) times smoothed idf.

    Args:
        documents: texts.
        words: splits them, and queries.

    Raises:
        InputError: no document has a word.
    """

    def __init__(self, documents: Sequence[str], words: Tokenizer = latin_words) -> None:
        analyzer: Any = words  # the stubs know names of analyzers only
        self._vectorizer = TfidfVectorizer(analyzer=analyzer, sublinear_tf=True)
        try:
            self._documents = self._vectorizer.fit_transform(documents).tocsr()
        except ValueError as error:
            raise InputError(
                f"None of the {len(documents)} documents has a word.", "Check their texts."
            ) from error

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Cosines of queries with all documents, float32 `[queries, documents]`.

        A query or a document without known words has 0.
        """
        products: Any = self._vectorizer.transform(queries) @ self._documents.T
        return products.toarray().astype(np.float32)


def rank_by(
    scores: Callable[[Sequence[str]], np.ndarray],
    collection: Collection,
    candidates: Mapping[str, Sequence[str]],
    texts: Mapping[str, str] | None = None,
) -> Ranking:
    """Ranks candidates by a function of the query's text.

    Args:
        scores: texts of queries -> `[queries, documents]`, documents as in the collection.
        collection: queries and documents.
        candidates: query id -> ids of documents to rank.
        texts: query id -> what is asked instead of its own text, such as a translation.

    Raises:
        InputError: a query that `texts` lacks.
    """
    index, size = collection.documents.index, max(1, _MAX_SCORES // len(collection.documents.ids))
    ranking: Ranking = {}
    for batch in _batched(tuple(candidates), size):
        for query, row in zip(batch, scores(_texts(collection, batch, texts)), strict=True):
            documents = candidates[query]
            values = row[[index[document] for document in documents]]
            ranking[query] = dict(zip(documents, values.tolist(), strict=True))
    return ranking


def _texts(
    collection: Collection, queries: Sequence[str], texts: Mapping[str, str] | None
) -> list[str]:
    if texts is None:
        return [collection.queries.texts[collection.queries.index[query]] for query in queries]
    missing = [query for query in queries if query not in texts]
    if missing:
        raise InputError(
            f"There is no text for {len(missing)} queries, the first {missing[0]!r}.",
            "Give one for each query of the split.",
        )
    return [texts[query] for query in queries]


def tfidf_ranking(
    collection: Collection,
    candidates: Mapping[str, Sequence[str]],
    words: Tokenizer = latin_words,
    texts: Mapping[str, str] | None = None,
) -> Ranking:
    """Ranks candidates by the cosine of tf-idf vectors.

    Args:
        collection: queries and documents; all documents give the idf.
        candidates: query id -> ids of documents to rank.
        words: splits queries and documents; those in Latin letters are shared across languages.
        texts: query id -> translated query; its own text by default.

    Raises:
        InputError: no document has a word, or a query that `texts` lacks.
    """
    index = TfidfIndex(collection.documents.texts, words)
    return rank_by(index.scores, collection, candidates, texts)


def vector_ranking(
    collection: Collection,
    candidates: Mapping[str, Sequence[str]],
    queries: WordVectors,
    documents: WordVectors,
) -> Ranking:
    """Ranks candidates by the cosine of the mean vectors of their words.

    What a ranker that stands on such vectors must beat to have learned more than they say.

    Args:
        collection: queries and documents.
        candidates: query id -> ids of documents to rank.
        queries: vectors of the queries' language, in one space with
        documents: those of the documents' language.

    Raises:
        InputError: no tokenizer for a language.
    """
    of_documents = _directions(collection.documents.texts, collection.documents.language, documents)

    def scores(texts: Sequence[str]) -> np.ndarray:
        return _directions(texts, collection.queries.language, queries) @ of_documents.T

    return rank_by(scores, collection, candidates)


def _directions(texts: Sequence[str], language: str, vectors: WordVectors) -> np.ndarray:
    """The mean vectors of texts' words at length 1, `[texts, dim]`; zeros without any word."""
    analyzer: Any = tokenizer(language)  # the stubs know names of analyzers only
    counts = CountVectorizer(analyzer=analyzer, vocabulary=vectors.words).transform(texts)
    return unit_length(np.asarray(counts @ vectors.vectors, np.float32))


def popularity_ranking(collection: Collection, candidates: Mapping[str, Sequence[str]]) -> Ranking:
    """Ranks candidates by the number of training queries that they are partly relevant to.

    It knows nothing of the query: what a model must beat to have learned more than which documents
    are often linked.
    """
    train = collection.splits["train"].qrels.values()
    links = Counter(
        document for judged in train for document, level in judged.items() if level == 1
    )
    return {
        query: {document: float(links[document]) for document in documents}
        for query, documents in candidates.items()
    }


def association_ranking(collection: Collection, candidates: Mapping[str, Sequence[str]]) -> Ranking:
    """Ranks candidates by how their categories go with the query's, without any text.

    The score is the mean pointwise mutual information over the pairs of a category of the query and
    one of the document; the probabilities are shares of the pairs of training queries and their
    documents of relevance 2. A pair that never occurs counts 0.

    Args:
        collection: queries, documents and their categories.
        candidates: query id -> ids of documents to rank.
    """
    queries, documents = collection.queries, collection.documents
    of_queries, of_documents = (_incidence(side.categories) for side in (queries, documents))
    rows, columns = collection.training_pairs.T
    information = _mutual_information(of_queries[rows], of_documents[columns])
    of_queries, of_documents = _means(of_queries), _means(of_documents)
    ranking: Ranking = {}
    for query, names in candidates.items():
        # Of each category of documents; dense one query at a time.
        by_category = (of_queries[queries.index[query]] @ information).toarray().ravel()
        scores = of_documents[_positions(documents, names)] @ by_category
        ranking[query] = dict(zip(names, scores.astype(np.float32).tolist(), strict=True))
    return ranking


def _mutual_information(left: sparse.csr_matrix, right: sparse.csr_matrix) -> sparse.csr_matrix:
    """Of the columns of both sides of pairs, 0 where they never meet: large graphs fit.

    Args:
        left: categories of each pair's query, `[pairs, categories of queries]`.
        right: the same of its document.

    Returns:
        `[categories of queries, categories of documents]`.
    """
    together = (left.T @ right).tocoo()
    of_left, of_right = (np.asarray(side.sum(axis=0)).ravel() for side in (left, right))
    pairs: Any = left.shape
    expected = of_left[together.row] * of_right[together.col] / max(1, pairs[0])
    values = np.log(together.data / expected)
    return sparse.csr_matrix((values, (together.row, together.col)), together.shape)


def _positions(texts: Texts, names: Sequence[str]) -> list[int]:
    return [texts.index[name] for name in names]


def _incidence(categories: Sequence[Sequence[str]]) -> sparse.csr_matrix:
    """Which texts have which categories, `[texts, categories]`."""
    numbers = {name: n for n, name in enumerate(sorted({c for names in categories for c in names}))}
    rows = [row for row, names in enumerate(categories) for _ in names]
    columns = [numbers[name] for names in categories for name in names]
    shape = (len(categories), max(1, len(numbers)))
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape)


def _means(incidence: sparse.csr_matrix) -> sparse.csr_matrix:
    counts = np.maximum(np.asarray(incidence.sum(axis=1)).ravel(), 1)
    return sparse.csr_matrix(sparse.diags(1 / counts) @ incidence)


def hardest_irrelevant(
    collection: Collection,
    topics: Topics,
    n: int,
    words: Tokenizer = latin_words,
    texts: Mapping[str, str] | None = None,
) -> Topics:
    """A split whose irrelevant documents are those nearest to the query by tf-idf (section 3.2).

    They are taken from the documents that the split ranks (`Topics.pool`).

    Args:
        collection: queries and documents.
        topics: a split of it.
        n: how many irrelevant documents of each query; the nearest come first, so that levels are
            nested.
        words: splits queries and documents.
        texts: query id -> translated query; its own text by default.

    Raises:
        InputError: fewer than `n` irrelevant documents, or a query that `texts` lacks.
    """
    documents = collection.documents
    scores = TfidfIndex(documents.texts, words).scores
    rows = _positions(documents, topics.pool)
    irrelevant: dict[str, tuple[str, ...]] = {}
    for batch in _batched(topics.query_ids, max(1, _MAX_SCORES // len(documents.ids))):
        for query, row in zip(batch, scores(_texts(collection, batch, texts)), strict=True):
            judged = topics.qrels.get(query, {})
            free = len(topics.pool) - len(judged)
            if free < n:
                raise InputError(
                    f"{n} irrelevant documents were asked for; query {query!r} has {free}.",
                    "Ask for fewer.",
                )
            row[[documents.index[document] for document in judged]] = -np.inf
            best = np.argsort(-row[rows], kind="stable")[:n]
            irrelevant[query] = tuple(topics.pool[position] for position in best.tolist())
    return Topics(topics.query_ids, topics.qrels, irrelevant, topics.seed)


def _batched(items: Sequence[str], size: int) -> list[tuple[str, ...]]:
    iterator = iter(items)
    return list(iter(lambda: tuple(itertools.islice(iterator, size)), ()))
