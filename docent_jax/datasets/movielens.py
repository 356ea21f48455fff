"""MovieLens as GroupLens ships it: a zip of films, links, tags and the tag genome."""

import csv
import io
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from docent_jax.datasets.films import Film
from docent_jax.datasets.tags import normal_tag
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import (
    ZIP_ERRORS,
    checked_rows,
    finite,
    integer,
    require_file,
    string,
)

_REMEDY = "Fetch ml-25m.zip (or ml-latest.zip) from https://grouplens.org/datasets/movielens/."


class MovieLens:
    """Tables in a MovieLens zip; nothing is unpacked to disk."""

    def __init__(self, path: Path) -> None:
        """Opens the file to see what it holds.

        Raises:
            InputError: it is not there, or no whole zip.
        """
        self.path = require_file(path, _REMEDY)
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.namelist()
        except ZIP_ERRORS as error:
            raise InputError(f"{path} cannot be read as a zip ({error}).", _REMEDY) from None
        self._members = {PurePosixPath(member).name: member for member in members}

    def films(self) -> dict[int, Film]:
        """MovieLens id -> film."""
        rows = self._rows("movies.csv", movieId=integer, title=string)
        return {movie: Film(title, movie) for movie, title in rows}

    def imdb_ids(self) -> dict[int, int]:
        """MovieLens id -> IMDb number."""
        return dict(self._rows("links.csv", movieId=integer, imdbId=integer))

    def tags(self) -> Iterator[tuple[int, str, str]]:
        """MovieLens id, tag and user of each application."""
        yield from self._rows("tags.csv", movieId=integer, tag=string, userId=string)

    def vocabulary(self) -> tuple[str, ...]:
        """The tags of the tag genome; none where the zip has no genome."""
        if "genome-tags.csv" not in self._members:
            return ()
        return tuple(normal_tag(tag) for (tag,) in self._rows("genome-tags.csv", tag=string))

    def genome_scores(
        self, movielens_ids: Sequence[int | None], vocabulary: Sequence[str]
    ) -> np.ndarray:
        """The genome's relevance of tags to films, float32 [films, tags]; NaN where it has none.

        Raises:
            InputError: the zip has no genome scores, or a relevance is no finite number.
        """
        tag_ids = {tag: i for i, tag in enumerate(vocabulary)}
        columns = {
            number: tag_ids.get(normal_tag(tag))
            for number, tag in self._rows("genome-tags.csv", tagId=integer, tag=string)
        }
        # Several entities can be one film there.
        films: defaultdict[int | None, list[int]] = defaultdict(list)
        for i, movie in enumerate(movielens_ids):
            films[movie].append(i)
        scores = np.full((len(movielens_ids), len(vocabulary)), np.nan, np.float32)
        rows = self._rows("genome-scores.csv", movieId=integer, tagId=integer, relevance=finite)
        for movie, tag_id, relevance in rows:
            column = columns.get(tag_id)
            if column is not None:
                scores[films.get(movie, []), column] = relevance
        return scores

    def _rows(self, name: str, **columns: Callable[..., Any]) -> Iterator[Any]:
        """Tuples of the columns, each by its reader of `text_files`, streamed out of the zip."""
        if name not in self._members:
            raise InputError(f"{self.path} holds no {name}.", _REMEDY)
        source = f"{self.path}:{name}"
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self._members[name]) as member:
                lines = io.TextIOWrapper(member, encoding="utf-8", errors="replace", newline="")
                for line, row in checked_rows(csv.reader(lines), source, tuple(columns)):
                    yield tuple(read(row, column, source, line) for column, read in columns.items())
        except ZIP_ERRORS as error:
            raise InputError(f"{source} cannot be read ({error}).", _REMEDY) from None
