"""Small files in the formats of the publishers, made for the tests, and films in memory."""

import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.films import FilmData, FilmSource, prepared_films

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def reviews_of(about: str, n: int = 5) -> list[str]:
    """Different reviews, a sentence of eight words each."""
    return [f"The {ordinal} review of {about} says quite enough." for ordinal in ORDINALS[:n]]


def write_imdb_folder(
    folder: Path,
    reviews: Sequence[tuple[int, str]],
    movies: Sequence[tuple[int, str, str]] = (),
    tags: Sequence[tuple[int, str, str]] = (),
    queries: Sequence[dict] = (),
    vocabulary: Sequence[str] = ("space",),
) -> Path:
    """The joined folder; movies are (imdb, movielens, title), tags (imdb, user, tag)."""
    folder.mkdir(parents=True)
    rows = [
        json.dumps({"imdb_id": film, "id": f"r/{i}", "text": text})
        for i, (film, text) in enumerate(reviews)
    ]
    (folder / "reviews.jsonl.xz").write_bytes(lzma.compress("\n".join(rows).encode()))
    table = ["imdb_id\tmovielens_id\ttitle\tgenres"]
    table += [f"{film}\t{movie}\t{title}\tDrama" for film, movie, title in movies]
    (folder / "movies.tsv").write_text("\n".join(table) + "\n")
    table = ["imdb_id\tuser\ttag\ttimestamp", *(f"{f}\t{user}\t{tag}\t1" for f, user, tag in tags)]
    (folder / "tags.tsv.xz").write_bytes(lzma.compress("\n".join(table).encode()))
    table = ["tag_id\ttag", *(f"{i}\t{tag}" for i, tag in enumerate(vocabulary, 1))]
    (folder / "genome_tags.tsv").write_text("\n".join(table) + "\n")
    lines = "\n".join(map(json.dumps, queries))
    (folder / "queries.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    return folder


def query(query_id: str, text: str, *relevant: int, title: str = "") -> dict:
    """A query of the joined folder; its id tells its source."""
    source = query_id.partition("-")[0]
    return {
        "id": query_id,
        "source": source,
        "title": title,
        "text": text,
        "relevant": list(relevant),
    }


MOVIES_CSV = """movieId,title,genres
10,"Matrix, The (1999)",Action|Sci-Fi
20,Seven Samurai (Shichinin no samurai) (1954),Drama
30,Unseen (2001),Drama
"""
TABLES = {
    "movies.csv": MOVIES_CSV,
    "links.csv": "movieId,imdbId,tmdbId\n10,0133093,603\n20,0047478,\n30,0000030,1\n",
    "tags.csv": "userId,movieId,tag,timestamp\n1,10,Space,1\n2,10,space,1\n2,20,noir,1\n3,30,x,1\n",
    "genome-tags.csv": "tagId,tag\n1,space\n2,western\n",
    "genome-scores.csv": "movieId,tagId,relevance\n10,1,0.75\n10,2,0.5\n30,1,0.1\n",
}


def write_movielens(path: Path, **changes: str) -> Path:
    """A MovieLens zip; changes replace tables, "" leaves one out."""
    tables = {**TABLES, **{name.replace("__", "-") + ".csv": t for name, t in changes.items()}}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in tables.items():
            if text:
                archive.writestr(f"ml-tiny/{name}", text)
    return path


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    """A tar.gz of these members, in this order."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def write_amazon(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Gzipped JSON lines; rows are (asin, text)."""
    lines = [json.dumps({"reviewerID": "A", "asin": a, "reviewText": t}) for a, t in rows]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


MAPPING_CSV = """asin,canon_asin,imdb_id,movielens_id,name,imdb_url
B1,B1,tt0133093,10,The Matrix,https://www.imdb.com/title/tt0133093/
B2,B1,tt0133093,10,The Matrix,
B3,B3,,,Some Show,
B4,B4,tt9,99,Ghost,
B5,B5,tt0047478,20.0,Seven Samurai,
"""


def film_data(
    source: FilmSource, keep_names: bool = False, processes: int | None = None
) -> FilmData:
    """Processes a source into memory; arguments and errors as `prepared_films`."""
    with prepared_films(source, keep_names, processes) as films:
        rows = list(films.sentences())
        corpus = EntityCorpus(
            entities=films.entities,
            sentences=tuple(sentence for _, sentence in rows),
            sentence_entities=np.array([entity for entity, _ in rows], np.int32),
            queries=films.queries,
            aliases=films.aliases,
            card=films.card,
        )
        return FilmData(
            corpus=corpus,
            film_ids=tuple(films.documents.film_ids),
            movielens_ids=films.movielens_ids,
            tags=films.tags,
            vocabulary=films.vocabulary,
        )
