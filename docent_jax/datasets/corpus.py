"""Entities, the sentences that describe them, and queries with the entities that answer them."""

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence

import numpy as np

from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import stable_hash


@dataclasses.dataclass(frozen=True)
class Query:
    """A text and the entities that answer it.

    Attributes:
        query_id: as in run files.
        text: what is asked.
        entity_ids: the relevant entities, as indices into `EntityCorpus.entities`.
    """

    query_id: str
    text: str
    entity_ids: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class EntityCorpus:
    """Documents of entities, as sentences, with queries.

    Attributes:
        entities: names; the index of a name is the entity's id.
        sentences: all sentences, entity by entity.
        sentence_entities: int32 [sentences], the entity of each sentence, in order.
        queries: by split, "dev" and "test".
        aliases: further names of each entity; empty where the source has none at all.
        card: how the corpus was made, as counts.

    Raises:
        InputError: fewer than two entities, an entity without a sentence, or parts that do not fit
            together.
    """

    entities: tuple[str, ...]
    sentences: tuple[str, ...]
    sentence_entities: np.ndarray
    queries: Mapping[str, tuple[Query, ...]]
    aliases: tuple[tuple[str, ...], ...] = ()
    card: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks that the parts fit together."""
        owners, n = self.sentence_entities, len(self.entities)
        if not self.sentences:
            raise InputError(
                "The document set is empty: no entity has a sentence.",
                "Give entities with text, or loosen the filters that left none.",
            )
        if n < 2:
            raise InputError(
                f"The corpus has {n} entity; a ranking needs two or more.",
                "Add entities, or take a larger subset.",
            )
        if owners.shape != (len(self.sentences),) or owners.dtype != np.int32:
            raise InputError(
                f"`sentence_entities` is {owners.dtype}{list(owners.shape)}, not int32"
                f"[{len(self.sentences)}].",
                "Give one int32 entity id per sentence.",
            )
        if not np.array_equal(np.unique(owners), np.arange(n)) or np.any(np.diff(owners) < 0):
            raise InputError(
                f"`sentence_entities` does not run through 0 to {n - 1} in order.",
                "Number entities by their index, give each a sentence, sort sentences by entity.",
            )
        if len(set(self.entities)) < n or len(self.aliases) not in (0, n):
            raise InputError(
                f"{n} `entities` are not {n} different names with a tuple of aliases each.",
                "Merge the documents of equal names; give aliases for all entities or none.",
            )
        for query in itertools.chain.from_iterable(self.queries.values()):
            if not query.entity_ids or not all(0 <= entity < n for entity in query.entity_ids):
                raise InputError(
                    f"Query {query.query_id!r} is answered by entities {list(query.entity_ids)}, "
                    f"which are not one or more of 0 to {n - 1}.",
                    "Give the ids of its entities, or leave the query out.",
                )

    @functools.cached_property
    def bounds(self) -> np.ndarray:
        """Int [entities + 1]: where the sentences of each entity start, and the last ones end."""
        return np.searchsorted(self.sentence_entities, np.arange(len(self.entities) + 1))

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of entities, sentences and queries, in hexadecimal."""
        queries = {
            split: [dataclasses.astuple(q) for q in qs] for split, qs in self.queries.items()
        }
        contents = [self.entities, self.sentences, self.sentence_entities.tolist(), queries]
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()

    @property
    def summary(self) -> str:
        """The sizes, on one line."""
        queries = " and ".join(f"{len(qs):,} {split}" for split, qs in self.queries.items())
        return (
            f"{len(self.entities):,} entities, {len(self.sentences):,} sentences, {queries} queries"
        )

    def qrels(self, split: str) -> dict[str, dict[str, int]]:
        """Relevance judgements: query id -> name of a relevant entity -> 1."""
        return {
            query.query_id: {self.entities[entity]: 1 for entity in query.entity_ids}
            for query in self.queries[split]
        }

    def subset(
        self, entities: int | None = None, sentences_per_entity: int | None = None
    ) -> "EntityCorpus":
        """A smaller corpus, the same one for the same numbers.

        Args:
            entities: how many to keep, in the order of `stable_hash`, so that smaller subsets lie
                inside larger ones; None or too many: all. They stay in order and are numbered anew;
                queries lose the entities that are gone, and go where none is left.
            sentences_per_entity: how many to keep of each, spread evenly over its document; None or
                too many: all.

        Raises:
            InputError: fewer than two entities or one sentence.
        """
        if (entities is not None and entities < 2) or (
            sentences_per_entity is not None and sentences_per_entity < 1
        ):
            raise InputError(
                f"A subset of {entities} entities and {sentences_per_entity} sentences per entity "
                "cannot be ranked.",
                "Ask for at least 2 entities and 1 sentence, or None for all.",
            )
        by_hash = sorted(range(len(self.entities)), key=lambda e: stable_hash(self.entities[e]))
        kept = sorted(by_hash[:entities])
        rows = [
            _spread(range(self.bounds[entity], self.bounds[entity + 1]), sentences_per_entity)
            for entity in kept
        ]
        sentences = tuple(self.sentences[row] for row in itertools.chain.from_iterable(rows))
        new_ids = {old: new for new, old in enumerate(kept)}
        return EntityCorpus(
            entities=tuple(self.entities[entity] for entity in kept),
            sentences=sentences,
            sentence_entities=np.repeat(
                np.arange(len(kept), dtype=np.int32), [len(of_entity) for of_entity in rows]
            ),
            queries={split: _restrict(qs, new_ids) for split, qs in self.queries.items()},
            aliases=tuple(self.aliases[entity] for entity in kept) if self.aliases else (),
            card={
                **self.card,
                "entities in the subset": len(kept),
                "sentences in the subset": len(sentences),
            },
        )


def _spread(rows: range, limit: int | None) -> Sequence[int]:
    """At most `limit` of the rows, the first among them, at even distances."""
    if limit is None or limit >= len(rows):
        return rows
    return [rows[i * len(rows) // limit] for i in range(limit)]


def _restrict(queries: Sequence[Query], new_ids: Mapping[int, int]) -> tuple[Query, ...]:
    """The queries that an entity still answers, with the entities' new ids."""
    renumbered = (
        dataclasses.replace(
            query, entity_ids=tuple(new_ids[e] for e in query.entity_ids if e in new_ids)
        )
        for query in queries
    )
    return tuple(query for query in renumbered if query.entity_ids)
