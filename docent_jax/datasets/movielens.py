"""MovieLens as GroupLens ships it: a zip of films, links, tags and the tag genome."""

import csv
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from docent_jax.datasets.films import Film
from docent_jax.datasets.tags import normal_tag
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import ZIP_ERRORS, checked_rows, integer, require_file

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
        rows = self._rows("movies.csv", ("movieId",), ("title",))
        return {movie: Film(title, movie) for (movie,), (title,) in rows}

    def imdb_ids(self) -> dict[int, int]:
        """MovieLens id -> IMDb number."""
        return {movie: imdb for (movie, imdb), _ in self._rows("links.csv", ("movieId", "imdbId"))}

    def tags(self) -> Iterator[tuple[int, str, str]]:
        """MovieLens id, tag and user of each application."""
        for (movie,), (tag, user) in self._rows("tags.csv", ("movieId",), ("tag", "userId")):
            yield movie, tag, user

    def vocabulary(self) -> tuple[str, ...]:
        """The tags of the tag genome; none where the zip has no genome."""
        if "genome-tags.csv" not in self._members:
            return ()
        return tuple(normal_tag(tag) for _, (tag,) in self._rows("genome-tags.csv", (), ("tag",)))

    def genome_scores(
        self, movielens_ids: Sequence[int | None], vocabulary: Sequence[str]
    ) -> np.ndarray:
        """The genome's relevance of tags to films, float32 [films, tags]; NaN where it has none.

        Raises:
            InputError: the zip has no genome scores.
        """
        tag_ids = {tag: i for i, tag in enumerate(vocabulary)}
        columns = {
            number: tag_ids.get(normal_tag(tag))
            for (number,), (tag,) in self._rows("genome-tags.csv", ("tagId",), ("tag",))
        }
        # Several entities can be one film there.
        films: defaultdict[int | None, list[int]] = defaultdict(list)
        for i, movie in enumerate(movielens_ids):
            films[movie].append(i)
        scores = np.full((len(movielens_ids), len(vocabulary)), np.nan, np.float32)
        rows = self._rows("genome-scores.csv", ("movieId", "tagId"), ("relevance",))
        for (movie, tag_id), (relevance,) in rows:
            column = columns.get(tag_id)
            if column is not None:
                scores[films.get(movie, []), column] = float(relevance)
        return scores

    def _rows(
        self, name: str, numbers: Sequence[str], texts: Sequence[str] = ()
    ) -> Iterator[tuple[list[int], list[str]]]:
        """The columns of whole numbers and of texts, row by row, streamed out of the zip."""
        if name not in self._members:
            raise InputError(f"{self.path} holds no {name}.", _REMEDY)
        source = f"{self.path}:{name}"
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self._members[name]) as member:
                lines = io.TextIOWrapper(member, encoding="utf-8", errors="replace", newline="")
                for line, row in checked_rows(csv.reader(lines), source, (*numbers, *texts)):
                    yield (
                        [integer(row, column, source, line) for column in numbers],
                        [row[column] for column in texts],
                    )
        except ZIP_ERRORS as error:
            raise InputError(f"{source} cannot be read ({error}).", _REMEDY) from None
