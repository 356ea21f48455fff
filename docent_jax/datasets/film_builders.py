"""tensorflow-datasets builders of films: `imdb_movielens` and `amazon_movielens`.

They are made of the publishers' files in a folder. What has a stable address can be fetched into
it; the rest a person has to put there, and what that is, is said where it is missing.
"""

import abc
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from docent_jax.datasets.acl_imdb import ARCHIVE, read_acl_imdb
from docent_jax.datasets.amazon import MAPPING, REDDIT, read_amazon
from docent_jax.datasets.builders import (
    CorpusBuilder,
    Row,
    query_and_alias_rows,
    read_corpus,
    read_rows,
)
from docent_jax.datasets.downloads import ACL_IMDB, MOVIELENS_25M, fetch
from docent_jax.datasets.films import FilmData, FilmSource, PreparedFilms, prepared_films
from docent_jax.datasets.imdb_folder import REVIEWS, read_imdb_folder
from docent_jax.datasets.tags import TagVotes
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import files_fingerprint

MOVIELENS = "ml-*.zip"
AMAZON_REVIEWS = ("reviews_Movies_and_TV.json*", "Movies_and_TV.json*", "Movies_and_TV_5.json*")
# What can be fetched where a folder has no file of that pattern.
PUBLISHED = {ARCHIVE: ACL_IMDB, MOVIELENS: MOVIELENS_25M}


@dataclasses.dataclass(eq=False)
class FilmConfig(tfds.core.BuilderConfig):
    """Which files; made by `prepare`, whose name tells their contents.

    Attributes:
        folder: where the source files lie.
        keep_names: leave the films' names in their reviews.
        processes: how many to prepare with; None = one per available core.
    """

    folder: str = ""
    keep_names: bool = False
    processes: int | None = None


class FilmBuilder(CorpusBuilder, skip_registration=True):
    """Base of the builders of films.

    Besides the splits of `CorpusBuilder` there are `films` (the source's id as text, MovieLens' as
    key, by entity), `tags` (tag as text, user as key) and `vocabulary` (the closed one's tags).
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "First version."}

    @classmethod
    @abc.abstractmethod
    def source_files(cls, folder: Path, download: bool = False) -> list[Path]:
        """The files of a folder that are read.

        Args:
            folder: where they lie.
            download: fetch those that are missing and have a stable address, once all others are
                there.

        Raises:
            InputError: one is missing, with what to put where; or it cannot be fetched.
        """

    @classmethod
    @abc.abstractmethod
    def read_source(cls, folder: Path) -> FilmSource:
        """Opens the files of a folder."""

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        del dl_manager
        config = self.builder_config
        if not isinstance(config, FilmConfig):
            raise InputError(
                f"`{self.name}` is not told which folder to read.",
                "Build it by `docent_jax.datasets.film_builders.prepare(builder, folder, "
                "data_dir)`.",
            )
        with contextlib.ExitStack() as stack:
            source = self.read_source(Path(config.folder))
            films = stack.enter_context(
                prepared_films(
                    source, config.keep_names, config.processes, Path(self.data_dir).parent
                )
            )
            sentences = _with_files(stack.pop_all(), films)
        return self._splits(films.entities, sentences, _rows(films), films.card)


class ImdbMovielens(FilmBuilder):
    """Films by their IMDb reviews (Maas et al., 2011), with the tags of MovieLens' users."""

    @classmethod
    def source_files(cls, folder: Path, download: bool = False) -> list[Path]:
        """The joined folder's files, or the publishers' two archives."""
        remedy = cls._remedy(folder)
        if (folder / REVIEWS).is_file():
            names = (REVIEWS, "movies.tsv", "tags.tsv.xz", "genome_tags.tsv", "queries.jsonl.xz")
            return [_found(folder, name, remedy) for name in names]
        return [_found(folder, name, remedy, download) for name in (ARCHIVE, MOVIELENS)]

    @classmethod
    def read_source(cls, folder: Path) -> FilmSource:
        """Opens the joined folder, or the publishers' two archives."""
        files = cls.source_files(folder)
        return read_imdb_folder(folder) if files[0].name == REVIEWS else read_acl_imdb(*files)

    @staticmethod
    def _remedy(folder: Path) -> str:
        return (
            f"Put into {folder} either {REVIEWS}, movies.tsv, tags.tsv.xz, genome_tags.tsv and "
            "queries.jsonl.xz, or the publishers' files, which `python -m docent_jax fetch "
            f"imdb_movielens --folder {folder}` fetches: {ACL_IMDB} and {MOVIELENS_25M}."
        )


class AmazonMovielens(FilmBuilder):
    """Films by their Amazon reviews, with the tags of MovieLens' users and Reddit's requests."""

    @classmethod
    def source_files(cls, folder: Path, download: bool = False) -> list[Path]:
        """Reviews, mapping, MovieLens, and the requests where they are there."""
        remedy = (
            f"Put into {folder}: reviews_Movies_and_TV.json.gz (2014, https://jmcauley.ucsd.edu/"
            "data/amazon/) or Movies_and_TV.json.gz (2018, https://nijianmo.github.io/amazon/); "
            f"{MAPPING} (v1.tar.gz at https://storage.googleapis.com/gresearch/docent/, unpacked); "
            f"ml-latest.zip (https://grouplens.org/datasets/movielens/) or {MOVIELENS_25M}, which "
            f"`python -m docent_jax fetch amazon_movielens --folder {folder}` fetches; and, for "
            f"queries, {REDDIT} (https://github.com/urikz/docent, branch gh-pages, folder "
            "docent/reddit)."
        )
        reviews = next(
            (p for pattern in AMAZON_REVIEWS for p in sorted(folder.glob(pattern))), None
        )
        if reviews is None:
            raise InputError(f"{folder} holds no {AMAZON_REVIEWS[0]}.", remedy)
        mapping = _found(folder, MAPPING, remedy)
        movielens = _found(folder, MOVIELENS, remedy, download)
        return [reviews, mapping, movielens, *folder.glob(REDDIT)]

    @classmethod
    def read_source(cls, folder: Path) -> FilmSource:
        """Opens the files."""
        return read_amazon(*cls.source_files(folder))


def _with_files(files: contextlib.ExitStack, films: PreparedFilms) -> Iterator[tuple[int, str]]:
    """The sentences; the temporary files that they are read from go with the last one."""
    with files:
        yield from films.sentences()


def _found(folder: Path, pattern: str, remedy: str, download: bool = False) -> Path:
    """The file of that name; of several the last, as in ml-20m.zip and ml-25m.zip."""
    files = sorted(folder.glob(pattern))
    if files:
        return files[-1]
    if download:
        return fetch(PUBLISHED[pattern], folder)
    raise InputError(f"{folder} holds no {pattern}.", remedy)


def _rows(films: PreparedFilms) -> dict[str, list[Row]]:
    tags = films.tags
    columns = (tags.entity_ids, tags.tag_ids, tags.user_ids)
    return {
        **query_and_alias_rows(films.queries, films.aliases),
        "films": [
            Row(entity, film_id, "" if movie is None else str(movie))
            for entity, (film_id, movie) in enumerate(
                zip(films.documents.film_ids, films.movielens_ids, strict=True)
            )
        ],
        "tags": [
            Row(entity, tags.tags[tag], str(user))
            for entity, tag, user in zip(*(column.tolist() for column in columns), strict=True)
        ],
        # Of no entity; the feature wants a number.
        "vocabulary": [Row(0, tag) for tag in films.vocabulary],
    }


def prepare(
    builder: type[FilmBuilder],
    folder: str | Path,
    data_dir: str | Path,
    keep_names: bool = False,
    processes: int | None = None,
    download: bool = False,
) -> FilmBuilder:
    """Builds a data set below `data_dir`, or finds it there; prints its card when it is built.

    Args:
        builder: which.
        folder: where its source files lie.
        data_dir: the folder of tensorflow-datasets.
        keep_names: leave the films' names in their reviews.
        processes: how many to use; None = one per available core.
        download: fetch what is missing from the folder and has a stable address.

    Raises:
        InputError: a source file is missing or cannot be read.
    """
    fingerprint = files_fingerprint(builder.source_files(Path(folder), download))
    config = FilmConfig(
        name=f"names-{'kept' if keep_names else 'removed'}-{fingerprint}",
        folder=str(folder),
        keep_names=keep_names,
        processes=processes,
    )
    prepared = builder(config=config, data_dir=str(data_dir), file_format="array_record")
    is_new = not Path(prepared.data_dir).exists()
    prepared.download_and_prepare()
    if is_new:
        print("\n".join(_card_lines(prepared)))
    return prepared


def _card_lines(builder: FilmBuilder) -> Iterator[str]:
    yield f"{builder.info.full_name}: {builder.data_dir}"
    for rule, count in sorted((builder.info.metadata or {}).items()):
        yield f"  {rule}: {count:,}"


def load_film_data(builder: tfds.core.DatasetBuilder) -> FilmData:
    """Reads a prepared data set into memory."""
    corpus = read_corpus(builder)
    films = list(read_rows(builder, "films"))
    rows = list(read_rows(builder, "tags"))
    vocabulary = tuple(row.text for row in read_rows(builder, "vocabulary"))
    known = set(vocabulary)
    tags = (*vocabulary, *sorted({row.text for row in rows} - known))
    tag_ids = {tag: i for i, tag in enumerate(tags)}
    return FilmData(
        corpus=corpus,
        film_ids=tuple(row.text for row in films),
        movielens_ids=tuple(int(row.key) if row.key else None for row in films),
        tags=TagVotes(
            tags=tags,
            entity_ids=np.array([row.entity_id for row in rows], np.int32),
            tag_ids=np.array([tag_ids[row.text] for row in rows], np.int32),
            user_ids=np.array([int(row.key) for row in rows], np.int32),
        ),
        vocabulary=vocabulary,
    )
