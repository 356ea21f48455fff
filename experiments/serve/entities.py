"""An entity ranker with the sentences of its documents, in memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.progress import track

import docent_jax
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.load import load_documents
from docent_jax.inference import EntityRanker
from retrieval_jax.errors import InputError
from retrieval_jax.kept import content_name, keep
from retrieval_jax.search import hold, top_k

TEXTS = (2, 8, 32)
"""Texts of a call to the encoder; one of them is filler."""

EVIDENCE = 2
"""Sentences that are shown of an entity."""

_WORDS = (1, 3, 6, 12, 24, 36, 48, 64)
_SENTENCES_AT_ONCE = 2_048
_VECTORS = "sentences.npy"


class EntityQuery(NamedTuple):
    """A text, and how many entities are wanted."""

    text: str
    k: int


class FoundEntity(NamedTuple):
    """A ranked entity.

    Attributes:
        entity: its name.
        score: of the model.
        sentences: of its documents, those nearest to the query first.
    """

    entity: str
    score: float
    sentences: tuple[str, ...]


class EntityAnswer(NamedTuple):
    """What is found.

    Attributes:
        vector: float32 `[dim]`, of the query.
        entities: best first.
    """

    vector: np.ndarray
    entities: tuple[FoundEntity, ...]


class Sentences(NamedTuple):
    """The documents of a ranker's entities.

    Attributes:
        texts: all sentences, entity by entity.
        starts: int `[entities]`, where the sentences of each of the ranker's entities start; -1 for
            one that has none here.
        ends: int `[entities]`, where they end.
        vectors: float32 `[sentences, dim]`, encoded by the ranker.
    """

    texts: tuple[str, ...]
    starts: np.ndarray
    ends: np.ndarray
    vectors: np.ndarray


class EntityIndex:
    """A ranker, ready to answer.

    Args:
        ranker: a trained one.
        title: of the entities, for the page.
        answers: entities that are found for a query.
        sentences: their documents, or None.
    """

    def __init__(
        self,
        ranker: EntityRanker,
        title: str,
        answers: int,
        sentences: Sentences | None,
    ) -> None:
        self.title = title
        self.has_sentences = sentences is not None
        self._ranker, self._answers, self._sentences = ranker, answers, sentences
        self._factors = hold(ranker.factors)
        self._filler = "a " * ranker.config.data.longest_query

    def __len__(self) -> int:
        """How many entities there are."""
        return len(self._ranker.entities)

    def compute(self, queries: Sequence[EntityQuery]) -> list[EntityAnswer]:
        """Answers queries; those that come together get what each gets alone."""
        answers = []
        for start in range(0, len(queries), TEXTS[-1] - 1):
            part = queries[start : start + TEXTS[-1] - 1]
            vectors = self._encode([query.text for query in part])
            factors = self._ranker.text_factors(vectors)
            scores, found = map(np.asarray, top_k(factors, self._factors, self._answers))
            answers += [
                EntityAnswer(vector, self._found(vector, rows[: query.k], of[: query.k]))
                for query, vector, rows, of in zip(part, vectors, found, scores, strict=False)
            ]
        return answers

    def warm_up(self) -> Iterator[str]:
        """Compiles the shapes that texts of all lengths are packed into, some a step."""
        for texts in TEXTS:
            for words in _WORDS:
                yield f"entities, {texts - 1} texts of {words} words"
                self.compute([EntityQuery("a " * words, 1)] * (texts - 1))

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors `[TEXTS, dim]`, with fillers behind; the longest filler settles the row width."""
        size = next(size for size in TEXTS if size > len(texts))
        short = ["a"] * (size - len(texts) - 1)
        return self._ranker.encode([*texts, *short, self._filler])

    def _found(
        self, vector: np.ndarray, rows: np.ndarray, scores: np.ndarray
    ) -> tuple[FoundEntity, ...]:
        return tuple(
            FoundEntity(self._ranker.entities[row], float(score), self._evidence(vector, row))
            for row, score in zip(rows.tolist(), scores, strict=True)
        )

    def _evidence(self, vector: np.ndarray, row: int) -> tuple[str, ...]:
        sentences = self._sentences
        if sentences is None or sentences.starts[row] < 0:
            return ()
        start, end = sentences.starts[row], sentences.ends[row]
        best = np.argsort(-(sentences.vectors[start:end] @ vector), kind="stable")[:EVIDENCE]
        return tuple(sentences.texts[start + place] for place in best.tolist())


def load_entities(path: Path, data_dir: Path, answers: int) -> EntityIndex:
    """Loads a run, with the documents that it was trained on where they can be had.

    Args:
        path: run folder.
        data_dir: where prepared documents are, and where their vectors are kept.
        answers: entities that are found for a query.

    Raises:
        InputError: no run of `docent_jax`.
    """
    ranker = docent_jax.load(path)
    try:
        sentences = encode_sentences(ranker, load_documents(ranker.config.data, data_dir), data_dir)
    except InputError as error:
        print(f"entities are shown without sentences: {error.problem}")
        sentences = None
    data = ranker.config.data
    of = f" ({', '.join(data.packages)})" if data.source == "python_api" else ""
    return EntityIndex(ranker, f"{data.source}{of}", answers, sentences)


def encode_sentences(ranker: EntityRanker, corpus: EntityCorpus, data_dir: Path) -> Sentences:
    """Encodes documents by the trained ranker; the vectors are kept on disk, and made once."""
    name = content_name([ranker.fingerprint, corpus.fingerprint])

    def write(folder: Path) -> None:
        starts = range(0, len(corpus.sentences), _SENTENCES_AT_ONCE)
        parts = [
            ranker.encode(corpus.sentences[start : start + _SENTENCES_AT_ONCE], sentences=True)
            for start in track(starts, "sentences of the entities", disable=len(starts) < 2)
        ]
        np.save(folder / _VECTORS, np.concatenate(parts), allow_pickle=False)

    file = keep(data_dir / "served", name, write) / _VECTORS
    vectors = np.load(file, mmap_mode="r", allow_pickle=False)
    places = {entity: place for place, entity in enumerate(corpus.entities)}
    of_ranker = np.array([places.get(entity, -1) for entity in ranker.entities])
    starts = np.where(of_ranker < 0, -1, corpus.bounds[of_ranker])
    ends = np.where(of_ranker < 0, -1, corpus.bounds[of_ranker + 1])
    return Sentences(corpus.sentences, starts, ends, vectors)
