"""Films as entities: reviews as documents, requests as queries, users' tags as labels."""

import contextlib
import dataclasses
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from docent_jax.datasets.corpus import EntityCorpus, Query
from docent_jax.datasets.film_documents import Documents, Review, film_documents
from docent_jax.datasets.film_queries import ExampleRemover, FilmRequest, film_queries
from docent_jax.datasets.film_titles import parse_title
from docent_jax.datasets.tags import TagVotes, normal_tag, tag_votes


@dataclasses.dataclass(frozen=True)
class Film:
    """What a source knows of a film besides its reviews.

    Attributes:
        title: as MovieLens writes it; "" if unknown.
        movielens_id: None if it is not there.
    """

    title: str = ""
    movielens_id: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class FilmSource:
    """Everything that a folder of published files holds.

    Attributes:
        films: film id -> what is known of it.
        reviews: read once, as a stream.
        requests: the queries.
        tags: film id, tag and user of each application.
        vocabulary: the closed vocabulary of tags, where the source has one.
        counts: what was found unusable; filled while `reviews` is read.
    """

    films: Mapping[str, Film]
    reviews: Iterable[Review]
    requests: Sequence[FilmRequest] = ()
    tags: Iterable[tuple[str, str, str]] = ()
    vocabulary: tuple[str, ...] = ()
    counts: Counter[str] = dataclasses.field(default_factory=Counter)


@dataclasses.dataclass(frozen=True, eq=False)
class FilmData:
    """Films as entities.

    Attributes:
        corpus: names, sentences and queries. An entity is named "The Matrix (1999) [tt0133093]",
            or "[tt0133093]" where no title is known; its aliases are its titles without the year.
        film_ids: of the source, by entity.
        movielens_ids: by entity; None where a film is not in MovieLens.
        tags: all tags, those of the vocabulary first.
        vocabulary: the closed vocabulary, for `tags.restrict(vocabulary)`.
    """

    corpus: EntityCorpus
    film_ids: tuple[str, ...]
    movielens_ids: tuple[int | None, ...]
    tags: TagVotes
    vocabulary: tuple[str, ...]

    def subset(
        self, entities: int | None = None, sentences_per_entity: int | None = None
    ) -> "FilmData":
        """The films of `EntityCorpus.subset`, with their tags, numbered as there."""
        corpus = self.corpus.subset(entities, sentences_per_entity)
        old_ids = {name: entity for entity, name in enumerate(self.corpus.entities)}
        kept = [old_ids[name] for name in corpus.entities]
        return FilmData(
            corpus=corpus,
            film_ids=tuple(self.film_ids[entity] for entity in kept),
            movielens_ids=tuple(self.movielens_ids[entity] for entity in kept),
            tags=self.tags.for_entities(self.corpus.entities, corpus.entities),
            vocabulary=self.vocabulary,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedFilms:
    """As `FilmData`, with the documents still on disk.

    Attributes:
        documents: in the order of the entities.
        entities: names.
        aliases: further names of each.
        movielens_ids: by entity.
        queries: by split.
        tags: all tags.
        vocabulary: the closed vocabulary.
        card: all counts.
    """

    documents: Documents
    entities: tuple[str, ...]
    aliases: tuple[tuple[str, ...], ...]
    movielens_ids: tuple[int | None, ...]
    queries: Mapping[str, tuple[Query, ...]]
    tags: TagVotes
    vocabulary: tuple[str, ...]
    card: Mapping[str, int]

    def sentences(self) -> Iterator[tuple[int, str]]:
        """Entity and text of each sentence, read from disk."""
        for entity, document in enumerate(self.documents):
            for sentence in document.sentences:
                yield entity, sentence


@contextlib.contextmanager
def prepared_films(
    source: FilmSource,
    keep_names: bool = False,
    processes: int | None = None,
    scratch: Path | None = None,
) -> Iterator[PreparedFilms]:
    """Processes a source; temporary files last as long as the context.

    Args:
        source: what to process.
        keep_names: leave the films' names in their reviews.
        processes: how many to use; None = one per available core.
        scratch: an existing folder for temporary files, which need the room of the uncompressed
            reviews twice; None = the system's.

    Raises:
        InputError: as `film_documents`.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        titles = {film_id: (film.title,) for film_id, film in source.films.items() if film.title}
        documents = film_documents(source.reviews, titles, Path(folder), keep_names, processes)
        yield _assembled(source, documents)


def _assembled(source: FilmSource, documents: Documents) -> PreparedFilms:
    card = Counter(documents.card)
    film_ids = documents.film_ids
    entity_ids = {film_id: entity for entity, film_id in enumerate(film_ids)}
    films = [source.films.get(film_id, Film()) for film_id in film_ids]
    card["listed films without reviews"] = sum(film not in entity_ids for film in source.films)
    card["films in MovieLens"] = sum(film.movielens_id is not None for film in films)
    parsed = [parse_title(film.title) for film in films]
    examples = ExampleRemover(film.title for film in source.films.values() if film.title)
    queries = film_queries(source.requests, entity_ids, examples, card)
    vocabulary = tuple(dict.fromkeys(map(normal_tag, source.vocabulary)))
    tags = tag_votes(_known(source.tags, entity_ids, card), vocabulary)
    card["tag applications"] = len(tags)
    card["tag applications of the closed vocabulary"] = len(tags.restrict(vocabulary))
    card["films with tags"] = len(np.unique(tags.entity_ids))
    # Complete only now that reviews and tags have been read.
    card.update(source.counts)
    return PreparedFilms(
        documents=documents,
        entities=tuple(
            f"{title.label} [{film_id}]".lstrip()
            for title, film_id in zip(parsed, film_ids, strict=True)
        ),
        aliases=tuple(title.names for title in parsed),
        movielens_ids=tuple(film.movielens_id for film in films),
        queries=queries,
        tags=tags,
        vocabulary=vocabulary,
        card=dict(card),
    )


def _known(
    tags: Iterable[tuple[str, str, str]], entity_ids: Mapping[str, int], card: Counter[str]
) -> Iterator[tuple[int, str, str]]:
    """The applications of tags to films that are entities; empty tags are left out."""
    for film_id, tag, user in tags:
        if film_id not in entity_ids:
            card["tag applications to films without reviews"] += 1
        elif not tag.strip():
            card["empty tags"] += 1
        else:
            yield entity_ids[film_id], tag, user
