"""A cross-lingual collection: queries, documents, their categories, graded judgements."""

import dataclasses
import functools
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import files_fingerprint

DIFFICULTIES = (40, 200, 400, 1000)
"""Irrelevant documents beside the relevant ones of a test query (section 3.1)."""

RELEVANCES = PARTLY, BEST = (1, 2)


@dataclasses.dataclass(frozen=True)
class Texts:
    """One side of a collection: all its queries, or all its documents.

    Attributes:
        language: as in ISO 639-1: "en", "de", "fr", "ja".
        ids: different; no feature of any model.
        texts: raw text of each.
        categories: names of the categories of each; may be empty.

    Raises:
        InputError: lengths that disagree, or an id that occurs twice.
    """

    language: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        """Checks lengths and ids."""
        if not len(self.ids) == len(self.texts) == len(self.categories):
            raise InputError(
                f"{len(self.ids)} ids, {len(self.texts)} texts and {len(self.categories)} tuples "
                f"of categories of language {self.language!r}",
                "Give one text and one tuple of categories, empty or not, for each id.",
            )
        if len(self.index) < len(self.ids):
            name, count = Counter(self.ids).most_common(1)[0]
            raise InputError(f"The id {name!r} occurs {count} times.", "Remove the duplicates.")

    @functools.cached_property
    def index(self) -> dict[str, int]:
        """Id -> its position in `ids`."""
        return {name: position for position, name in enumerate(self.ids)}


@dataclasses.dataclass(frozen=True)
class Topics:
    """The judged queries of one split and the documents to rank for each.

    Attributes:
        query_ids: in a fixed order.
        qrels: query id -> document id -> 1 or 2; a query may lack relevant documents.
        irrelevant: query id -> documents of relevance 0 in the order in which they were drawn, so
            that an easier level is a beginning of a harder one; empty for training, where they are
            drawn anew every epoch.
        seed: shuffles candidates.
    """

    query_ids: tuple[str, ...]
    qrels: Mapping[str, Mapping[str, int]]
    irrelevant: Mapping[str, tuple[str, ...]]
    seed: int = 0

    @functools.cached_property
    def candidates(self) -> dict[str, tuple[str, ...]]:
        """Query id -> documents to rank at the hardest level, shuffled; empty for training."""
        return {
            query: self._shuffled(query, self.irrelevant[query])
            if self.irrelevant.get(query)
            else ()
            for query in self.query_ids
        }

    @property
    def hardest(self) -> int:
        """Most irrelevant documents that any query has."""
        return max(map(len, self.irrelevant.values()), default=0)

    @functools.cached_property
    def pool(self) -> tuple[str, ...]:
        """Ids of all documents that some query ranks, sorted."""
        judged = itertools.chain.from_iterable(self.qrels.values())
        drawn = itertools.chain.from_iterable(self.irrelevant.values())
        return tuple(sorted({*judged, *drawn}))

    def candidates_at(self, difficulty: int) -> dict[str, tuple[str, ...]]:
        """The relevant documents of each query with its first `difficulty` irrelevant ones.

        Levels are nested. The order is random and the same in every process: nothing can be
        learned from it. A query with fewer irrelevant documents gets all of them.

        Args:
            difficulty: how many irrelevant documents, such as those of `DIFFICULTIES`.

        Raises:
            InputError: difficulty below 1, or no query has so many.
        """
        if not 1 <= difficulty <= self.hardest:
            raise InputError(
                f"A difficulty of {difficulty} irrelevant documents was asked for; the queries "
                f"have 1 to {self.hardest}.",
                "Ask for fewer, or make the collection with more irrelevant documents.",
            )
        return {
            query: self._shuffled(query, self.irrelevant.get(query, ())[:difficulty])
            for query in self.query_ids
        }

    def _shuffled(self, query: str, irrelevant: Sequence[str]) -> tuple[str, ...]:
        documents = (*self.qrels.get(query, {}), *irrelevant)
        # Of the query's own hash, so that it does not depend on the other queries.
        digest = hashlib.sha256(f"{self.seed} {query}".encode()).digest()
        order = np.random.default_rng(list(digest)).permutation(len(documents))
        return tuple(documents[i] for i in order.tolist())


@dataclasses.dataclass(frozen=True)
class Collection:
    """Queries in one language, documents in another, and what is relevant to what.

    Attributes:
        name: source and languages, such as "debian en-de".
        queries: all queries of all splits.
        documents: all documents; the splits share them.
        splits: "train", "dev" and "test".
        category_edges: undirected edges of the category graph; may hold cycles and several parts.
        card: how it was made: rule -> count or setting.
        corpora: language -> further texts in it, for word vectors alone.
        corpus_files: language -> file of more of them than fit in memory (`corpora.read_corpus`).

    Raises:
        InputError: a split names a query or document that is not there, judges with another
            relevance than 1 or 2, or holds a relevant document among its irrelevant ones.
    """

    name: str
    queries: Texts
    documents: Texts
    splits: Mapping[str, Topics]
    category_edges: tuple[tuple[str, str], ...]
    card: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    corpora: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    corpus_files: Mapping[str, Path] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks that the splits fit queries and documents."""
        for split, topics in self.splits.items():
            where = f"{self.name}, split {split}"
            for query in topics.query_ids:
                if query not in self.queries.index:
                    raise InputError(f"{where}: no query {query!r}", "Leave it out, or add it.")
                self._check_query(f"{where}, query {query!r}", topics, query)

    def _check_query(self, where: str, topics: Topics, query: str) -> None:
        judged, irrelevant = topics.qrels.get(query, {}), topics.irrelevant.get(query, ())
        for document, relevance in judged.items():
            if relevance not in RELEVANCES:
                raise InputError(
                    f"{where}: document {document!r} has relevance {relevance!r}",
                    "Relevances are 1 and 2; leave out documents of relevance 0.",
                )
        for document in (*judged, *irrelevant):
            if document not in self.documents.index:
                raise InputError(f"{where}: no document {document!r}", "Leave it out, or add it.")
        if len({*judged, *irrelevant}) < len(judged) + len(irrelevant):
            raise InputError(
                f"{where}: a document is relevant and irrelevant, or irrelevant twice",
                "Draw distinct irrelevant documents from those that are not judged.",
            )

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all contents but name and card, in hexadecimal; of files their fingerprint."""
        sides = [
            [side.language, side.ids, side.texts, side.categories]
            for side in (self.queries, self.documents)
        ]
        splits = {
            split: [topics.query_ids, dict(topics.qrels), dict(topics.irrelevant), topics.seed]
            for split, topics in self.splits.items()
        }
        contents = [sides, splits, self.category_edges, dict(self.corpora)]
        if self.corpus_files:
            contents += [sorted(self.corpus_files), files_fingerprint(self.corpus_files.values())]
        encoded = json.dumps(contents, sort_keys=True)
        return hashlib.sha256(encoded.encode()).hexdigest()

    def corpus(self, language: str) -> tuple[str, ...]:
        """The texts in a language that are in memory: queries, documents, further ones."""
        sides = (side.texts for side in (self.queries, self.documents) if side.language == language)
        return (*itertools.chain.from_iterable(sides), *self.corpora.get(language, ()))

    @functools.cached_property
    def training_pairs(self) -> np.ndarray:
        """Rows of the training queries and their documents of relevance 2, int `[pairs, 2]`."""
        train = self.splits["train"]
        pairs = [
            (self.queries.index[query], self.documents.index[document])
            for query in train.query_ids
            for document, relevance in train.qrels.get(query, {}).items()
            if relevance == BEST
        ]
        return np.array(pairs, int).reshape(-1, 2)

    @property
    def summary(self) -> str:
        """The sizes, on one line."""
        splits = ", ".join(f"{len(t.query_ids):,} {split}" for split, t in self.splits.items())
        return f"{self.name}: {len(self.documents.ids):,} documents; queries: {splits}"
