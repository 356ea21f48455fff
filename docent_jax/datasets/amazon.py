"""Amazon reviews, their mapping to MovieLens and Reddit's movie suggestions, as published."""

import ast
import csv
import json
import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docent_jax.datasets.film_documents import Review
from docent_jax.datasets.film_queries import FilmRequest
from docent_jax.datasets.films import Film, FilmSource
from docent_jax.datasets.movielens import MovieLens
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import stable_hash
from retrieval_jax.text_files import checked_rows, integer, read_lines, require_file

MAPPING = "Reviews2Movielens.csv"
REDDIT = "reddit.json"
REDDIT_SOURCE = "reddit_movie_suggestions"
_REMEDY = "See the README of https://goo.gle/research-docent for where to fetch it."
_MAX_LINE = 1 << 20  # Characters; the longest review has 33,000.
_log = logging.getLogger(__name__)


def read_amazon(
    reviews: Path, mapping: Path, movielens: Path, reddit: Path | None = None
) -> FilmSource:
    """Opens the files; reviews are read when they are asked for.

    Editions of a film are one entity, that of their `canon_asin`; an item that is not in the
    mapping is its own.

    Args:
        reviews: JSON lines of Amazon, 2014 or 2018 (gzip or plain), or the older lines that are
            Python literals.
        mapping: Reviews2Movielens.csv.
        movielens: MovieLens' zip, for titles and tags.
        reddit: Reddit Movie Suggestions, a JSON list or JSON lines; None: no queries.

    Raises:
        InputError: a file is missing or cannot be read.
    """
    counts: Counter[str] = Counter()
    tables = MovieLens(movielens)
    canonical, films, by_movie = _mapping(require_file(mapping, _REMEDY), tables.films(), counts)
    return FilmSource(
        films=films,
        reviews=_reviews(require_file(reviews, _REMEDY), canonical, counts),
        requests=_requests(require_file(reddit, _REMEDY), canonical, counts) if reddit else (),
        tags=(
            (film_id, tag, user)
            for movie, tag, user in tables.tags()
            for film_id in by_movie.get(movie, ())
        ),
        vocabulary=tables.vocabulary(),
        counts=counts,
    )


def _mapping(
    path: Path, movielens: Mapping[int, Film], counts: Counter[str]
) -> tuple[dict[str, str], dict[str, Film], dict[int, tuple[str, ...]]]:
    """Item -> canonical item, what is known of each canonical item, MovieLens id -> these."""
    canonical: dict[str, str] = {}
    films: dict[str, Film] = {}
    by_movie: defaultdict[int, dict[str, None]] = defaultdict(dict)
    lines = (f"{line}\n" for _, line in read_lines(path, counts))
    columns = ("asin", "canon_asin", "movielens_id", "name")
    for number, row in checked_rows(csv.reader(lines), path, columns):
        film_id = row["canon_asin"] or row["asin"]
        canonical[row["asin"]] = film_id
        known = Film(row["name"])
        if row["movielens_id"]:
            # Some copies were written by pandas: "2571.0".
            plain = {"movielens_id": row["movielens_id"].removesuffix(".0")}
            movie = integer(plain, "movielens_id", path, number)
            if movie in movielens:
                known = movielens[movie]
                by_movie[movie][film_id] = None
            else:
                counts["items mapped to films absent from MovieLens"] += 1
        before = films.get(film_id, Film())
        if before.movielens_id is None and (known.title or not before.title):
            films[film_id] = known
    return canonical, films, {movie: tuple(of_movie) for movie, of_movie in by_movie.items()}


def _reviews(path: Path, canonical: Mapping[str, str], counts: Counter[str]) -> Iterator[Review]:
    """Streams; lines that are no review are counted, the first one logged."""
    n_reviews = 0
    for number, line in read_lines(path, counts):
        if not line.strip():
            continue
        row = _parsed(line) if len(line) <= _MAX_LINE else None
        item = row.get("asin") if row else None
        if row is None or not isinstance(item, str):
            if not counts["lines that are no review"]:
                _log.warning("%s, line %d is no review: %.80r", path, number, line)
            counts["lines that are no review"] += 1
            continue
        text = row.get("reviewText")
        if not isinstance(text, str):
            counts["reviews without text"] += 1
            continue
        n_reviews += 1
        yield Review(canonical.get(item, item), text)
    if not n_reviews:
        raise InputError(
            f"{path}: no line is a review with `asin` and `reviewText`.",
            "Give Amazon's reviews_Movies_and_TV.json.gz or Movies_and_TV.json.gz.",
        )


def _parsed(line: str) -> dict[str, Any] | None:
    """A line in JSON or, as in the oldest files, a literal of Python; nothing is evaluated."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        if not line.startswith("{'"):
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Of backslashes in the text.
                row = ast.literal_eval(line)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None
    return row if isinstance(row, dict) else None


def _requests(path: Path, canonical: Mapping[str, str], counts: Counter[str]) -> list[FilmRequest]:
    """Requests without an id: theirs is a hash of the text, so that splits stay as they are."""
    requests: dict[str, FilmRequest] = {}
    for place, item in _json_items(path, counts):
        try:
            text = item["request"]["query_full"]
            answers = [answer["asin"] for answer in item["response"]["result"]]
            query_id = f"{REDDIT_SOURCE}-{stable_hash(text):032x}"
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}, {place}: not a request with its response ({error!r} is missing or of "
                "another type).",
                "Fetch reddit.json again; " + _REMEDY[0].lower() + _REMEDY[1:],
            ) from None
        if query_id in requests:
            counts["queries asked twice"] += 1
            answers.extend(requests[query_id].film_ids)
        films = dict.fromkeys(canonical.get(answer, answer) for answer in answers)
        requests[query_id] = FilmRequest(query_id, text, tuple(films))
    return list(requests.values())


def _json_items(path: Path, counts: Counter[str]) -> Iterator[tuple[str, Any]]:
    """The items of a JSON list, or of JSON lines, with their places."""
    lines = list(read_lines(path, counts))
    try:
        items = json.loads("\n".join(line for _, line in lines))
    except (ValueError, RecursionError):
        items = None
    if isinstance(items, list):
        yield from ((f"item {number}", item) for number, item in enumerate(items, 1))
        return
    for number, line in lines:
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{path}, line {number}: not JSON ({error}).", "Fetch the file again."
                ) from None
