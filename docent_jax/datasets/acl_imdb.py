"""aclImdb (Maas et al. 2011) as Stanford ships it, joined to MovieLens by IMDb numbers."""

import contextlib
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from docent_jax.datasets.film_documents import Review
from docent_jax.datasets.films import FilmSource
from docent_jax.datasets.imdb_folder import imdb_key
from docent_jax.datasets.movielens import MovieLens
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import require_file

ARCHIVE = "aclImdb_v1.tar.gz"
_REMEDY = f"Fetch {ARCHIVE} again from https://ai.stanford.edu/~amaas/data/sentiment/."
_MAX_REVIEW_BYTES = 1 << 20
_FILM = re.compile(r"/title/tt(\d+)")
_URLS = re.compile(r"aclImdb/(train|test)/urls_(pos|neg|unsup)\.txt")
_REVIEW = re.compile(r"aclImdb/(train|test)/(pos|neg|unsup)/(\d+)_\d+\.txt")


def read_acl_imdb(archive: Path, movielens: Path) -> FilmSource:
    """Opens both files; reviews are read when they are asked for. There are no queries.

    Raises:
        InputError: a file is missing or damaged.
    """
    counts: Counter[str] = Counter()
    tables = MovieLens(movielens)
    films = tables.films()
    keys = {movie: imdb_key(number) for movie, number in tables.imdb_ids().items()}
    counts["MovieLens links to unknown films"] = sum(movie not in films for movie in keys)
    return FilmSource(
        films={key: films[movie] for movie, key in keys.items() if movie in films},
        reviews=_reviews(require_file(archive, _REMEDY), counts),
        tags=((keys[movie], tag, user) for movie, tag, user in tables.tags() if movie in keys),
        vocabulary=tables.vocabulary(),
        counts=counts,
    )


def _reviews(path: Path, counts: Counter[str]) -> Iterator[Review]:
    """The lists of films may lie behind the reviews, so the archive is read twice."""
    films: dict[tuple[str, str], list[str]] = {}
    for name, text in _texts(path, _URLS, counts):
        urls = [_FILM.search(line) for line in text.splitlines()]
        films[name[1], name[2]] = [imdb_key(int(url[1])) if url else "" for url in urls]
    if not films:
        raise InputError(f"{path} holds no aclImdb/train/urls_pos.txt.", _REMEDY)
    counts["archive members outside of its folder"] = 0  # Seen again now.
    for name, text in _texts(path, _REVIEW, counts):
        of_folder = films.get((name[1], name[2]), [])
        number = int(name[3])
        if number < len(of_folder) and of_folder[number]:
            yield Review(of_folder[number], text)
        else:
            counts["reviews without a film"] += 1


def _texts(
    path: Path, wanted: re.Pattern[str], counts: Counter[str]
) -> Iterator[tuple[re.Match[str], str]]:
    """Names and texts of the wanted members; nothing is written to disk."""
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(tarfile.open(path, mode="r|*"))
            for member in archive:
                parts = PurePosixPath(member.name)
                if parts.is_absolute() or ".." in parts.parts:
                    counts["archive members outside of its folder"] += 1
                    continue
                name = wanted.fullmatch(str(parts))
                file = archive.extractfile(member) if name and member.isfile() else None
                if name is None or file is None:
                    continue
                if name.re is _REVIEW and member.size > _MAX_REVIEW_BYTES:
                    counts["reviews too long to be one"] += 1
                    continue
                yield name, _decoded(file.read(), counts)
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise InputError(f"{path} is damaged ({error}).", _REMEDY) from None


def _decoded(content: bytes, counts: Counter[str]) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        counts["reviews with bytes that are not UTF-8"] += 1
        return content.decode("utf-8", errors="replace")
