"""The folder `imdb_movielens`: IMDb reviews joined to MovieLens tags, with queries."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from docent_jax.datasets.film_documents import Review
from docent_jax.datasets.film_queries import FilmRequest
from docent_jax.datasets.films import Film, FilmSource
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import (
    integer,
    read_json_lines,
    read_table,
    require_file,
    string,
)

REVIEWS = "reviews.jsonl.xz"
_REMEDY = (
    "Give the folder with reviews.jsonl.xz, movies.tsv, tags.tsv.xz, genome_tags.tsv and "
    "queries.jsonl.xz."
)


def imdb_key(imdb_id: int) -> str:
    """IMDb's own way to write a number: tt0133093."""
    return f"tt{imdb_id:07}"


def read_imdb_folder(folder: Path) -> FilmSource:
    """Opens the folder; reviews are read when they are asked for.

    Raises:
        InputError: a file is missing or has a line that cannot be read.
    """
    counts: Counter[str] = Counter()
    reviews, movies, tags, genome, queries = (
        require_file(folder / name, _REMEDY)
        for name in (REVIEWS, "movies.tsv", "tags.tsv.xz", "genome_tags.tsv", "queries.jsonl.xz")
    )
    return FilmSource(
        films=_films(movies, counts),
        reviews=_reviews(reviews, counts),
        requests=_requests(queries, counts),
        tags=_tags(tags, counts),
        vocabulary=tuple(row["tag"] for _, row in read_table(genome, ("tag",), counts)),
        counts=counts,
    )


def _films(path: Path, counts: Counter[str]) -> dict[str, Film]:
    films = {}
    for number, row in read_table(path, ("imdb_id", "movielens_id", "title"), counts):
        in_movielens = bool(row["movielens_id"])
        films[imdb_key(integer(row, "imdb_id", path, number))] = Film(
            row["title"],
            integer(row, "movielens_id", path, number) if in_movielens else None,
        )
    return films


def _reviews(path: Path, counts: Counter[str]) -> Iterator[Review]:
    for number, row in read_json_lines(path, counts):
        text = string(row, "text", path, number)
        yield Review(imdb_key(integer(row, "imdb_id", path, number)), text)


def _tags(path: Path, counts: Counter[str]) -> Iterator[tuple[str, str, str]]:
    for number, row in read_table(path, ("imdb_id", "user", "tag"), counts):
        yield imdb_key(integer(row, "imdb_id", path, number)), row["tag"], row["user"]


def _requests(path: Path, counts: Counter[str]) -> list[FilmRequest]:
    requests: dict[str, FilmRequest] = {}
    for number, row in read_json_lines(path, counts):
        query_id, source = (string(row, field, path, number) for field in ("id", "source"))
        query_id = query_id if query_id.startswith(f"{source}-") else f"{source}-{query_id}"
        if query_id in requests:
            raise InputError(
                f"{path}, line {number}: the query {query_id!r} is there twice.",
                "Give each query its own id.",
            )
        relevant = row.get("relevant")
        if not isinstance(relevant, list) or not all(type(film) is int for film in relevant):
            raise InputError(
                f"{path}, line {number}: relevant is {relevant!r}, not a list of IMDb numbers.",
                "Fetch the file again, or mend the line.",
            )
        # Title and text are paragraphs of their own.
        text = "\n\n".join(string(row, field, path, number) for field in ("title", "text"))
        requests[query_id] = FilmRequest(query_id, text, tuple(map(imdb_key, relevant)))
    return list(requests.values())
