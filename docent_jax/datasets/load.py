"""The corpus that a configuration names."""

import os
from pathlib import Path

from docent_jax.config import DataConfig
from docent_jax.datasets import film_builders, python_api
from docent_jax.datasets.builders import read_corpus
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.films import FilmData
from retrieval_jax.data_folders import DATA_VARIABLE, data_folder
from retrieval_jax.errors import InputError

SOURCES = "sources"
"""Folder below the one of prepared documents, for files that are fetched."""
FILM_BUILDERS = {
    "imdb_movielens": film_builders.ImdbMovielens,
    "amazon_movielens": film_builders.AmazonMovielens,
}


def load_documents(config: DataConfig, data_dir: Path) -> EntityCorpus:
    """Builds the documents that a configuration names below `data_dir`, or finds them there.

    Raises:
        InputError: a package that is not installed or has no docstrings; source files of films that
            are missing or cannot be read.
    """
    if config.source == "python_api":
        builder = python_api.prepare(config.packages, data_dir)
    else:
        builder = _prepared_films(config, data_dir)
    return read_corpus(builder).subset(config.entities, config.sentences_per_entity)


def load_films(config: DataConfig, data_dir: Path) -> FilmData:
    """Builds the films that a configuration names, with their tags, or finds them there.

    They are those of `load_documents`, in the same order.

    Raises:
        InputError: the configuration names no film data; its files are missing or cannot be read.
    """
    films = film_builders.load_film_data(_prepared_films(config, data_dir))
    return films.subset(config.entities, config.sentences_per_entity)


def _prepared_films(config: DataConfig, data_dir: Path) -> film_builders.FilmBuilder:
    if config.source not in FILM_BUILDERS:
        raise InputError(
            f"`{config.source}` has no films and no tags.",
            f"Set `data.source` to {' or '.join(FILM_BUILDERS)}.",
        )
    builder = FILM_BUILDERS[config.source]
    # A folder of the user's is read as it is; without one there is only what can be fetched.
    download = config.folder is None and DATA_VARIABLE not in os.environ
    given = data_dir / SOURCES / config.source if download else config.folder
    folder = data_folder(config.source, given, "`data.folder`")
    return film_builders.prepare(
        builder, str(folder), data_dir, config.keep_names, download=download
    )
