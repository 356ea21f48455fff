"""What the tensorflow-datasets builders share: how a corpus becomes rows and is read back."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from docent_jax.datasets.corpus import EntityCorpus, Query
from retrieval_jax.prepared_rows import prepared_rows

QUERY_SPLITS = ("dev", "test")
# Rows cost far more time than text: sentences share them.
_SENTENCES_PER_ROW = 100


class Row(NamedTuple):
    """A row of any split.

    Attributes:
        entity_id: which entity it belongs to.
        text: sentences, one a line; a query or a name.
        key: what else identifies the text: a query's id, a tag's user; "" for sentences.
    """

    entity_id: int
    text: str
    key: str = ""


class CorpusBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Base of the builders of corpora; its docstring describes the data set.

    Splits: `train` (sentences, entity by entity, up to 100 of one in a row), `dev` and `test`
    (queries, once per answering entity) and `aliases` (further names of entities). `info.metadata`
    is the data card.
    """

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=type(self).__doc__,
            features=tfds.features.FeaturesDict(
                {
                    "entity_id": np.int32,
                    "entity": tfds.features.Text(),
                    "text": tfds.features.Text(),
                    "key": tfds.features.Text(),
                }
            ),
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    def _splits(
        self,
        entities: Sequence[str],
        sentences: Iterable[tuple[int, str]],
        rows: Mapping[str, Sequence[Row]],
        card: Mapping[str, int],
    ) -> dict[str, Any]:
        """Generators of the examples by split; a split without rows is left out.

        Args:
            entities: names.
            sentences: entity and text of each, without line breaks; may be a stream.
            rows: those of the other splits.
            card: becomes the metadata.
        """
        assert isinstance(self.info.metadata, dict)
        self.info.metadata.update(card)
        filled = {split: of_split for split, of_split in rows.items() if of_split}
        splits = {"train": _sentence_rows(sentences), **filled}
        return {
            split: self._generate_examples(entities, of_split) for split, of_split in splits.items()
        }

    def _generate_examples(
        self, entities: Sequence[str], rows: Iterable[Row]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in enumerate(rows):
            yield number, {**row._asdict(), "entity": entities[row.entity_id]}


def _sentence_rows(sentences: Iterable[tuple[int, str]]) -> Iterator[Row]:
    for entity, of_entity in itertools.groupby(sentences, key=lambda sentence: sentence[0]):
        texts = (text for _, text in of_entity)
        while lines := list(itertools.islice(texts, _SENTENCES_PER_ROW)):
            yield Row(entity, "\n".join(lines))


def query_and_alias_rows(
    queries: Mapping[str, Sequence[Query]], aliases: Sequence[Sequence[str]]
) -> dict[str, list[Row]]:
    """The rows of the splits `dev`, `test` and `aliases`."""
    return {
        "aliases": [Row(entity, name) for entity, names in enumerate(aliases) for name in names],
        **{
            split: [
                Row(entity, query.text, query.query_id)
                for query in of_split
                for entity in query.entity_ids
            ]
            for split, of_split in queries.items()
        },
    }


def read_corpus(builder: tfds.core.DatasetBuilder) -> EntityCorpus:
    """Reads the corpus of a prepared data set into memory."""
    names: dict[int, str] = {}
    sentences: list[str] = []
    sentence_entities: list[int] = []
    for entity, row in _named_rows(builder, "train"):
        names.setdefault(row.entity_id, entity)
        lines = row.text.split("\n")
        sentences.extend(lines)
        sentence_entities.extend([row.entity_id] * len(lines))
    aliases: list[list[str]] = [[] for _ in names]
    for row in read_rows(builder, "aliases"):
        aliases[row.entity_id].append(row.text)
    queries = {}
    for split in QUERY_SPLITS:
        answers: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for row in read_rows(builder, split):
            answers[row.key, row.text].append(row.entity_id)
        queries[split] = tuple(
            Query(query_id, text, tuple(entity_ids))
            for (query_id, text), entity_ids in answers.items()
        )
    return EntityCorpus(
        entities=tuple(names.values()),
        sentences=tuple(sentences),
        sentence_entities=np.array(sentence_entities, np.int32),
        queries=queries,
        aliases=tuple(map(tuple, aliases)),
        card=dict(builder.info.metadata or {}),
    )


def read_rows(builder: tfds.core.DatasetBuilder, split: str) -> Iterator[Row]:
    """The rows of a split of a prepared data set; none for a split that was empty."""
    return (row for _, row in _named_rows(builder, split))


def _named_rows(builder: tfds.core.DatasetBuilder, split: str) -> Iterator[tuple[str, Row]]:
    for row in prepared_rows(builder, split):
        text, key = row["text"].decode(), row["key"].decode()
        yield row["entity"].decode(), Row(int(row["entity_id"]), text, key)
