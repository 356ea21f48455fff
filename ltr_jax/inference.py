"""Using a trained ranker: `load` a run folder, then score and rank documents for queries."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ltr_jax.config import Config
from ltr_jax.data import Features, make_features
from ltr_jax.datasets.collection import Texts
from ltr_jax.model import DOCUMENT, QUERY, SIDES, Ranker
from ltr_jax.scoring import Scorer
from ltr_jax.training import LANGUAGES, PACKAGE, load_run_vectors
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.errors import InputError, check_at_least_1, check_texts
from retrieval_jax.rankings import Ranking
from retrieval_jax.runs import open_run


class RankedDocument(NamedTuple):
    """One line of an answer.

    Attributes:
        position: of the document in the list that was given, from 0.
        score: S(q, d); it orders documents of one query and means nothing else.
    """

    position: int
    score: float


class DocumentRanker:
    """A trained ranker in memory; made by `load`.

    Args:
        path: run folder.

    Attributes:
        config: configuration of the run.
        languages: "query" and "document" -> language.
    """

    def __init__(self, path: Path | str) -> None:
        run, self.config = open_run(path, PACKAGE, Config)
        self.languages: dict[str, str] = run.read_json(LANGUAGES)
        self._vectors = load_run_vectors(run.path)
        self._params = restore_params(run.path)
        self._scorer = Scorer(Ranker(self.config.model))

    def encode(
        self, side: str, texts: Sequence[str], categories: Sequence[Sequence[str]] | None = None
    ) -> np.ndarray:
        """Encodes texts as their halves of the perceptron's first layer.

        Args:
            side: "query" or "document".
            texts: one or more, in the language of that side.
            categories: of each text; words and categories without a vector count as absent.

        Returns:
            float32 `[texts, hidden]`.

        Raises:
            InputError: no such side, no text, something that is no text, or categories that are
                not one list a text.
        """
        return self._scorer.encode(self._params, side, self._features(side, texts, categories))

    def _features(
        self, side: str, texts: Sequence[str], categories: Sequence[Sequence[str]] | None
    ) -> Features:
        if side not in SIDES:
            raise InputError(f"a side {side!r}", f"Sides are {', '.join(SIDES)}.")
        check_texts(f"{side} texts", texts)
        categories = [()] * len(texts) if categories is None else categories
        if len(categories) != len(texts) or any(isinstance(of, str) for of in categories):
            raise InputError(
                f"{side}_categories: {len(categories)} for {len(texts)} texts",
                "Give one list of category names, empty or not, for each text.",
            )
        ids = tuple(map(str, range(len(texts))))
        named = Texts(self.languages[side], ids, tuple(texts), tuple(map(tuple, categories)))
        return make_features(named, self._vectors, side, self.config)

    def score(
        self,
        query: str,
        documents: Sequence[str],
        query_categories: Sequence[str] = (),
        document_categories: Sequence[Sequence[str]] | None = None,
    ) -> np.ndarray:
        """Scores documents for a query, as `Scorer` compares them.

        Args:
            query: a text in the language of queries.
            documents: texts in the language of documents.
            query_categories: names of the query's categories.
            document_categories: of each document.

        Returns:
            float32 `[documents]`, higher is more relevant.

        Raises:
            InputError: as `encode`.
        """
        queries = self._features(QUERY, [query], [query_categories])
        of_documents = self._features(DOCUMENT, documents, document_categories)
        index = {str(row): row for row in range(len(documents))}
        sides = (queries, {query: 0}), (of_documents, index)
        scores = self._scorer.rank(self._params, *sides, {query: tuple(index)})[query]
        return np.fromiter(scores.values(), np.float32, len(index))

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        query_categories: Sequence[str] = (),
        document_categories: Sequence[Sequence[str]] | None = None,
        k: int | None = None,
    ) -> list[RankedDocument]:
        """Ranks documents for a query, best first; arguments as `score`, the `k` best if given.

        Raises:
            InputError: as `encode`, or k below 1.
        """
        if k is not None:
            check_at_least_1(k=k)
        scores = self.score(query, documents, query_categories, document_categories)
        order = np.argsort(-scores, kind="stable")[:k]
        return [RankedDocument(int(index), float(scores[index])) for index in order]

    def rank_candidates(
        self, queries: Texts, documents: Texts, candidates: Mapping[str, Sequence[str]]
    ) -> Ranking:
        """Ranks each query's own candidates, every text encoded once.

        Args:
            queries: among them those of `candidates`.
            documents: among them the candidates.
            candidates: query id -> document ids.

        Raises:
            InputError: texts in other languages than those of training.
        """
        features = {}
        for side, texts in zip(SIDES, (queries, documents), strict=True):
            expected = self.languages[side]
            if texts.language != expected:
                raise InputError(
                    f"{side} texts are in {texts.language!r}, the ranker's in {expected!r}",
                    "Give texts of the pair that it was trained on.",
                )
            features[side] = make_features(texts, self._vectors, side, self.config)
        return self._scorer.rank(
            self._params,
            (features[QUERY], queries.index),
            (features[DOCUMENT], documents.index),
            candidates,
        )


def load(path: Path | str) -> DocumentRanker:
    """Loads a run folder for inference; the training data is not needed.

    Of several processes all must call it.

    Raises:
        InputError: no such folder, no run of this package in it, or a run without checkpoint.
    """
    return DocumentRanker(path)
