"""Entities, the sentences that describe them, and queries with the entities that answer them."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping

import numpy as np

from retrieval_jax.errors import InputError


def stable_hash(name: str) -> int:
    """A number for a name that is the same in every process: its MD5."""
    return int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), 16)


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
        sentence_entities: int32 [sentences], the entity of each sentence, never decreasing.
        queries: by split, "dev" and "test".
        aliases: further names of each entity; empty where there are none at all.
        card: how the corpus was made, as counts and names.

    Raises:
        InputError: fewer than two entities, no sentences, or sentences and queries that do not fit
            the entities.
    """

    entities: tuple[str, ...]
    sentences: tuple[str, ...]
    sentence_entities: np.ndarray
    queries: Mapping[str, tuple[Query, ...]]
    aliases: tuple[tuple[str, ...], ...] = ()
    card: Mapping[str, int | str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks that the parts fit together."""
        owners = self.sentence_entities
        n = len(self.entities)
        if not self.sentences:
            raise InputError(
                "The document set is empty: no entity has a sentence.",
                "Give entities with text, or loosen the filters that left none.",
            )
        if n < 2:
            raise InputError(
                f"The corpus has {n} entity; ranking needs at least two.",
                "Add entities or take a larger subset.",
            )
        if len(set(self.entities)) < n:
            raise InputError(
                "`entities` names an entity twice.", "Merge the documents of equal names."
            )
        if owners.shape != (len(self.sentences),) or owners.dtype != np.int32:
            raise InputError(
                f"`sentence_entities` is {owners.dtype} {list(owners.shape)}, not int32 "
                f"[{len(self.sentences)}].",
                "Give one int32 entity id per sentence.",
            )
        if owners.min() < 0 or owners.max() >= n or np.any(np.diff(owners) < 0):
            raise InputError(
                f"`sentence_entities` does not go from 0 to {n - 1} in order.",
                "Sort sentences by entity and number entities by their index in `entities`.",
            )
        for split, queries in self.queries.items():
            for query in queries:
                if not query.entity_ids or not all(0 <= e < n for e in query.entity_ids):
                    raise InputError(
                        f"Query {query.query_id!r} of {split!r} has relevant entities "
                        f"{list(query.entity_ids)}, outside 0 to {n - 1}.",
                        "Give each query at least one entity of the corpus.",
                    )

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of entities, sentences and queries."""
        contents = [
            self.entities,
            self.sentences,
            self.sentence_entities.tolist(),
            {split: [dataclasses.astuple(q) for q in qs] for split, qs in self.queries.items()},
        ]
        text = json.dumps(contents, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def qrels(self, split: str) -> dict[str, dict[str, int]]:
        """Relevance judgements of a split: query id -> entity name -> 1."""
        return {
            query.query_id: {self.entities[entity]: 1 for entity in query.entity_ids}
            for query in self.queries[split]
        }

    def subset(
        self, entities: int | None = None, sentences_per_entity: int | None = None
    ) -> "EntityCorpus":
        """A smaller corpus, always the same one for the same numbers.

        Args:
            entities: how many to keep, by the MD5 order of their names, so that a smaller subset
                lies inside a larger one; None keeps all. Kept entities stay in order and are
                numbered anew. Queries lose the entities left out, and go where none remains.
            sentences_per_entity: how many sentences to keep of each, spread evenly over the
                document; None keeps all.

        Raises:
            InputError: a number below 1, or below 2 for entities.
        """
        if entities is not None and entities < 2:
            raise InputError(
                f"A subset of {entities} entities cannot be ranked.", "Ask for two or more."
            )
        if sentences_per_entity is not None and sentences_per_entity < 1:
            raise InputError(
                f"A subset of {sentences_per_entity} sentences per entity is empty.",
                "Ask for one or more.",
            )
        by_hash = sorted(
            range(len(self.entities)), key=lambda entity: stable_hash(self.entities[entity])
        )
        kept = sorted(by_hash[:entities])
        new_ids = {old: new for new, old in enumerate(kept)}
        bounds = np.searchsorted(self.sentence_entities, np.arange(len(self.entities) + 1))
        rows: list[int] = []
        owners: list[int] = []
        for old, new in new_ids.items():
            n = int(bounds[old + 1] - bounds[old])
            m = n if sentences_per_entity is None else min(n, sentences_per_entity)
            rows.extend(int(bounds[old]) + i * n // m for i in range(m))
            owners.extend([new] * m)
        queries = {}
        for split, qs in self.queries.items():
            renumbered = (
                dataclasses.replace(
                    q, entity_ids=tuple(new_ids[e] for e in q.entity_ids if e in new_ids)
                )
                for q in qs
            )
            queries[split] = tuple(q for q in renumbered if q.entity_ids)
        return EntityCorpus(
            entities=tuple(self.entities[old] for old in kept),
            sentences=tuple(self.sentences[row] for row in rows),
            sentence_entities=np.array(owners, np.int32),
            queries=queries,
            card={
                **self.card,
                "subset: entities": len(kept),
                "subset: sentences": len(rows),
            },
        )
