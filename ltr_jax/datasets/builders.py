"""tensorflow-datasets builders of the large collections, made once and kept as array_record.

Their sources are gigabytes, of which a collection is a part. Nothing is downloaded: licences want a
person to fetch the files. The folder `debian_clir` is small, and read as it is.
"""

import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from ltr_jax.datasets.apt_lists import index_files
from ltr_jax.datasets.boost_clir import (
    ABSTRACTS,
    MAREC,
    PatentOptions,
    patent_files,
    read_boost_clir,
)
from ltr_jax.datasets.collection import Collection, Texts, Topics
from ltr_jax.datasets.debian_apt import read_apt_lists
from ltr_jax.datasets.draws import SPLITS
from ltr_jax.datasets.wikipedia_clir import WikipediaOptions, read_wikipedia_clir, wikipedia_files
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import files_fingerprint
from retrieval_jax.kept import content_name
from retrieval_jax.prepared_rows import prepared_rows

_EDGES_PER_ROW = 1000
Row = tuple[str, str, Any]
"""An id, a text, and what else there is, as JSON has it."""


@dataclasses.dataclass(eq=False)
class CollectionConfig(tfds.core.BuilderConfig):
    """Which files and how much; its name tells the contents.

    Attributes:
        read: makes the collection.
    """

    read: Callable[[], Collection] | None = None


class CollectionBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Base of the builders of collections; its docstring describes the data set.

    Splits: `queries` and `documents` (values: categories), `train`, `dev` and `test` (a query's
    judgements and irrelevant documents), `edges` (of the category graph, 1000 a row) and `corpora`
    (further texts, their language as id).
    `info.metadata` holds name, languages and card.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "First version."}

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=type(self).__doc__,
            features=tfds.features.FeaturesDict(
                {name: tfds.features.Text() for name in ("id", "text", "values")}
            ),
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        del dl_manager
        config = self.builder_config
        if not isinstance(config, CollectionConfig) or config.read is None:
            raise InputError(
                f"`{self.name}` is not told which folder to read.",
                "Build it by `ltr_jax.datasets.load.load_collection`.",
            )
        collection = config.read()
        assert isinstance(self.info.metadata, dict)
        self.info.metadata.update(
            name=collection.name,
            languages=[collection.queries.language, collection.documents.language],
            seeds={split: topics.seed for split, topics in collection.splits.items()},
            card=dict(collection.card),
        )
        parts = {part: list(rows) for part, rows in _rows(collection)}
        return {part: self._generate_examples(rows) for part, rows in parts.items() if rows}

    def _generate_examples(self, rows: Iterable[Row]) -> Iterator[tuple[int, dict[str, str]]]:
        for number, (name, text, values) in enumerate(rows):
            encoded = json.dumps(values, ensure_ascii=False)
            yield number, {"id": name, "text": text, "values": encoded}


class WikipediaClir(CollectionBuilder):
    """English queries, articles of another Wikipedia (Sasaki et al., 2018), with categories."""


class BoostClir(CollectionBuilder):
    """Japanese queries, English patents (Sokolov et al., 2013), with IPC codes of MAREC."""


class DebianApt(CollectionBuilder):
    """Debian's package descriptions, English queries and documents in another language."""

    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {
        "1.0.0": "First version.",
        "2.0.0": "The category graph is of packages of training alone.",
    }


def load_wikipedia_clir(
    folder: Path, language: str, data_dir: Path, options: WikipediaOptions | None = None
) -> Collection:
    """`read_wikipedia_clir`, kept below `data_dir`."""
    options = options or WikipediaOptions()
    files = [*wikipedia_files(folder, language), *sorted(folder.glob("*wiki-*.sql*"))]
    return _load(
        WikipediaClir,
        f"en-{language}",
        [*files, repr(options)],
        lambda: read_wikipedia_clir(folder, language, options),
        data_dir,
    )


def load_boost_clir(
    folder: Path, data_dir: Path, options: PatentOptions | None = None
) -> Collection:
    """`read_boost_clir`, kept below `data_dir`."""
    options = options or PatentOptions()
    files = [path for of_split in patent_files(folder).values() for path in of_split.values()]
    files += [path for path in (folder / ABSTRACTS,) if path.is_file()]
    files += sorted(path for path in (folder / MAREC).rglob("*") if path.is_file())
    return _load(
        BoostClir,
        "ja-en",
        [*files, repr(options)],
        lambda: read_boost_clir(folder, options),
        data_dir,
    )


def load_apt_lists(folder: Path, language: str, data_dir: Path) -> Collection:
    """`read_apt_lists`, kept below `data_dir`."""
    kinds = ("Packages", "i18n_Translation-.*", r"dep11_Components-.*\.yml")
    files = [path for kind in kinds for path in index_files(folder, kind)]
    return _load(
        DebianApt,
        f"en-{language}",
        files,
        lambda: read_apt_lists(folder, language),
        data_dir,
    )


def _load(
    builder: type[CollectionBuilder],
    pair: str,
    made_of: Sequence[Path | str],
    read: Callable[[], Collection],
    data_dir: Path,
) -> Collection:
    parts = [files_fingerprint([part]) if isinstance(part, Path) else part for part in made_of]
    config = CollectionConfig(name=f"{pair}-{content_name(parts)[:12]}", read=read)
    prepared = builder(config=config, data_dir=str(data_dir), file_format="array_record")
    prepared.download_and_prepare()
    return _collection(prepared)


def _rows(collection: Collection) -> Iterator[tuple[str, Iterable[Row]]]:
    for part, side in (("queries", collection.queries), ("documents", collection.documents)):
        yield part, zip(side.ids, side.texts, side.categories, strict=True)
    for split, topics in collection.splits.items():
        yield (
            split,
            (
                (query, "", [topics.qrels.get(query, {}), topics.irrelevant.get(query)])
                for query in topics.query_ids
            ),
        )
    edges = iter(collection.category_edges)
    blocks = iter(lambda: list(itertools.islice(edges, _EDGES_PER_ROW)), [])
    yield "edges", (("", "", block) for block in blocks)
    corpora = collection.corpora.items()
    yield "corpora", ((language, text, "") for language, texts in corpora for text in texts)


def _collection(builder: CollectionBuilder) -> Collection:
    metadata: Any = builder.info.metadata
    sides = [
        _texts(language, _read(builder, part))
        for language, part in zip(metadata["languages"], ("queries", "documents"), strict=True)
    ]
    return Collection(
        name=metadata["name"],
        queries=sides[0],
        documents=sides[1],
        splits={
            split: _topics(_read(builder, split), metadata["seeds"][split]) for split in SPLITS
        },
        category_edges=tuple((a, b) for _, _, block in _read(builder, "edges") for a, b in block),
        card=metadata["card"],
        corpora=_corpora(_read(builder, "corpora")),
    )


def _texts(language: str, rows: Iterable[Row]) -> Texts:
    ids, texts, categories = [], [], []
    for name, text, values in rows:
        ids.append(name)
        texts.append(text)
        categories.append(tuple(values))
    return Texts(language, tuple(ids), tuple(texts), tuple(categories))


def _topics(rows: Iterable[Row], seed: int) -> Topics:
    values = {query: of_query for query, _, of_query in rows}
    return Topics(
        tuple(values),
        {query: qrels for query, (qrels, _) in values.items()},
        {
            query: tuple(irrelevant)
            for query, (_, irrelevant) in values.items()
            if irrelevant is not None
        },
        seed,
    )


def _corpora(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    corpora: defaultdict[str, list[str]] = defaultdict(list)
    for language, text, _ in rows:
        corpora[language].append(text)
    return {language: tuple(texts) for language, texts in corpora.items()}


def _read(builder: CollectionBuilder, part: str) -> Iterator[Row]:
    for row in prepared_rows(builder, part):
        yield row["id"].decode(), row["text"].decode(), json.loads(row["values"])
