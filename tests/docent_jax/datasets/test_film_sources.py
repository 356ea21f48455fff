"""Readers of the published formats, on small files of them, whole and bad."""

import gzip
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from docent_jax.datasets.acl_imdb import read_acl_imdb
from docent_jax.datasets.amazon import read_amazon
from docent_jax.datasets.film_documents import Review
from docent_jax.datasets.films import Film
from docent_jax.datasets.imdb_folder import read_imdb_folder
from docent_jax.datasets.movielens import MovieLens
from retrieval_jax.errors import InputError
from tests.docent_jax.datasets.film_files import (
    MAPPING_CSV,
    query,
    write_amazon,
    write_imdb_folder,
    write_movielens,
    write_tar,
)


def test_the_joined_folder(tmp_path: Path) -> None:
    folder = write_imdb_folder(
        tmp_path / "films",
        reviews=[(133093, 'He says "é".<br />'), (5, "x")],
        movies=[(133093, "10", "Matrix, The (1999)"), (5, "", "")],
        tags=[(133093, "ml10m:1", "space")],
        queries=[query("redial-a", "text", 133093, title="title")],
    )
    source = read_imdb_folder(folder)
    assert list(source.reviews) == [
        Review("tt0133093", 'He says "é".<br />'),
        Review("tt0000005", "x"),
    ]
    assert source.films == {"tt0133093": Film("Matrix, The (1999)", 10), "tt0000005": Film()}
    assert list(source.tags) == [("tt0133093", "space", "ml10m:1")]
    assert source.vocabulary == ("space",)
    (request,) = source.requests
    assert (request.query_id, request.film_ids) == ("redial-a", ("tt0133093",))
    assert request.text.split() == ["title", "text"]


def test_query_ids_begin_with_their_source(tmp_path: Path) -> None:
    row = {**query("redial-7", "text", 5), "id": "7"}
    source = read_imdb_folder(write_imdb_folder(tmp_path / "films", [(5, "x")], queries=[row]))
    assert source.requests[0].query_id == "redial-7"


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"movies": [("x", "", "")]}, "movies.tsv, line 2: imdb_id is 'x'"),
        ({"movies": [(1, "ten", "")]}, "movies.tsv, line 2: movielens_id is 'ten'"),
        ({"tags": [(1, "u", "a\tb")]}, "tags.tsv.xz, line 2: 5 fields where the header has 4"),
        ({"queries": [query("r-1", "a", 1), query("r-1", "b", 1)]}, "line 2: the query 'r-1'"),
        ({"queries": [{**query("r-1", "a"), "relevant": "5"}]}, "line 1: relevant is '5'"),
        ({"queries": [{**query("r-1", "a"), "text": None}]}, "line 1: text is None"),
        ({"reviews": [(1, None)]}, "reviews.jsonl.xz, line 1: text is None"),
        ({"reviews": [(None, "x")]}, "reviews.jsonl.xz, line 1: imdb_id is None"),
    ],
)
def test_bad_rows_of_the_joined_folder_are_named(tmp_path: Path, parts, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        source = read_imdb_folder(
            write_imdb_folder(tmp_path / "films", **{"reviews": [(1, "x")], **parts})
        )
        list(source.reviews)
        list(source.tags)


def test_movielens_tables(tmp_path: Path) -> None:
    tables = MovieLens(write_movielens(tmp_path / "ml.zip"))
    assert tables.films()[10] == Film("Matrix, The (1999)", 10)
    assert tables.imdb_ids() == {10: 133093, 20: 47478, 30: 30}
    assert list(tables.tags())[:2] == [(10, "Space", "1"), (10, "space", "2")]
    assert tables.vocabulary() == ("space", "western")
    scores = tables.genome_scores((20, None, 10), ("western", "absent", "space"))
    twice = tables.genome_scores((10, 20, 10), ("western", "absent", "space"))
    np.testing.assert_array_equal(twice, scores[[2, 0, 2]])  # editions of one film
    nan = np.nan
    np.testing.assert_array_equal(scores, [[nan] * 3, [nan] * 3, [0.5, nan, 0.75]])
    assert scores.dtype == np.float32


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tags": "userId,movieId,tag,timestamp\n1,x,y,1\n"}, "ml.zip:tags.csv, line 2: movieId"),
        ({"tags": "userId,movieId,tag,timestamp\n1,2\n"}, "tags.csv, line 2: 2 fields"),
        ({"tags": "userId,movieId\n"}, "tags.csv, line 1: the header has no column tag"),
        ({"tags": ""}, "holds no tags.csv"),
    ],
)
def test_bad_movielens_tables_are_named(tmp_path: Path, changes, problem: str) -> None:
    tables = MovieLens(write_movielens(tmp_path / "ml.zip", **changes))
    with pytest.raises(InputError, match=problem):
        list(tables.tags())


@pytest.mark.parametrize("relevance", ["", "x", "nan", "inf"])
def test_a_relevance_that_is_no_number_is_named(tmp_path: Path, relevance: str) -> None:
    scores = f"movieId,tagId,relevance\n10,1,0.75\n10,2,{relevance}\n"
    tables = MovieLens(write_movielens(tmp_path / "ml.zip", genome__scores=scores))
    problem = f"ml.zip:genome-scores.csv, line 3: relevance is '{relevance}', not a finite number"
    with pytest.raises(InputError, match=problem):
        tables.genome_scores((10,), ("space", "western"))


def test_a_file_that_is_no_zip(tmp_path: Path) -> None:
    (tmp_path / "ml.zip").write_bytes(b"PK no")
    with pytest.raises(InputError, match=r"ml.zip cannot be read as a zip(.|\n)*grouplens"):
        MovieLens(tmp_path / "ml.zip")


def damage(path: Path, kind: str) -> None:
    """Makes the first member of a zip unreadable."""
    if kind in ("encrypted", "unknown method"):
        with zipfile.ZipFile(path, "a") as archive:
            (member, *_) = archive.infolist()
            if kind == "encrypted":
                member.flag_bits |= 1
            else:
                member.compress_type = 9
            archive.writestr("note.txt", "writes the directory anew")
        return
    content = bytearray(path.read_bytes())
    if kind == "header":
        content[0] ^= 0xFF
    else:
        with zipfile.ZipFile(path) as archive:
            start = 30 + len(archive.infolist()[0].filename)
        content[start : start + 20] = b"\xff" * 20
    path.write_bytes(content)


@pytest.mark.parametrize("kind", ["encrypted", "unknown method", "header", "deflated text"])
def test_a_member_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    with zipfile.ZipFile(tmp_path / "ml.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ml-tiny/tags.csv", "userId,movieId,tag\n" + "1,2,a tag\n" * 100)
    damage(tmp_path / "ml.zip", kind)
    with pytest.raises(InputError, match=r"ml.zip:tags.csv cannot be read(.|\n)*grouplens"):
        list(MovieLens(tmp_path / "ml.zip").tags())


def test_a_zip_without_a_genome_has_no_vocabulary(tmp_path: Path) -> None:
    changes = {"genome__tags": "", "genome__scores": ""}
    assert MovieLens(write_movielens(tmp_path / "ml.zip", **changes)).vocabulary() == ()


URLS = b"http://www.imdb.com/title/tt0133093/usercomments\nhttp://nowhere\n"


def test_acl_imdb_is_joined_by_imdb_numbers(tmp_path: Path) -> None:
    members = {
        "aclImdb/train/pos/0_9.txt": "A good café.".encode(),
        "aclImdb/train/urls_pos.txt": URLS,
        "aclImdb/train/pos/1_9.txt": b"Of no film.",
        "aclImdb/train/pos/2_9.txt": b"Beyond the list.",
        "aclImdb/test/urls_neg.txt": URLS.replace(b"0133093", b"0000030"),
        "aclImdb/test/neg/0_1.txt": b"Bad \xff bytes.",
        "aclImdb/README": b"no review",
        "aclImdb/train/pos/../../../outside.txt": b"outside",
        "/etc/outside": b"outside",
    }
    archive = write_tar(tmp_path / "aclImdb_v1.tar.gz", members)
    source = read_acl_imdb(archive, write_movielens(tmp_path / "ml.zip"))
    assert list(source.reviews) == [
        Review("tt0133093", "A good café."),
        Review("tt0000030", "Bad \ufffd bytes."),
    ]
    assert source.films["tt0047478"].movielens_id == 20
    assert ("tt0047478", "noir", "2") in list(source.tags)
    assert source.counts["reviews without a film"] == 2
    assert source.counts["reviews with bytes that are not UTF-8"] == 1
    assert source.counts["archive members outside of its folder"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aclImdb_v1.tar.gz", "ml.zip"]


def test_a_damaged_tar_is_named(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "a.tar.gz", {"aclImdb/train/urls_pos.txt": URLS * 100_000})
    archive.write_bytes(archive.read_bytes()[:-2000])
    source = read_acl_imdb(archive, write_movielens(tmp_path / "ml.zip"))
    with pytest.raises(InputError, match=r"a.tar.gz is damaged"):
        list(source.reviews)
    source = read_acl_imdb(write_tar(archive, {"x": b""}), tmp_path / "ml.zip")
    with pytest.raises(InputError, match=r"holds no aclImdb/train/urls_pos.txt"):
        list(source.reviews)


@pytest.fixture
def amazon(tmp_path: Path) -> dict[str, Path]:
    """A mapping, MovieLens, reviews of five items, and requests."""
    (tmp_path / "Reviews2Movielens.csv").write_text(MAPPING_CSV)
    rows = [("B1", "one"), ("B2", "two"), ("B3", "three"), ("B9", "nine"), ("B5", "five")]
    requests = [
        {
            "request": {"query_full": "Space films", "query_title": "Space"},
            "response": {"result": [{"score": 2.0, "asin": "B2"}, {"score": 1.0, "asin": "B9"}]},
        }
    ]
    (tmp_path / "reddit.json").write_text(json.dumps(requests))
    return {
        "reviews": write_amazon(tmp_path / "reviews.json.gz", rows),
        "mapping": tmp_path / "Reviews2Movielens.csv",
        "movielens": write_movielens(tmp_path / "ml.zip"),
        "reddit": tmp_path / "reddit.json",
    }


def test_amazon_editions_become_one_film(amazon: dict[str, Path]) -> None:
    source = read_amazon(**amazon)
    assert [review.film_id for review in source.reviews] == ["B1", "B1", "B3", "B9", "B5"]
    assert source.films["B1"] == Film("Matrix, The (1999)", 10)
    assert source.films["B3"] == Film("Some Show")
    assert source.films["B5"].movielens_id == 20
    assert source.films["B4"] == Film("Ghost")
    assert source.counts["items mapped to films absent from MovieLens"] == 1
    assert ("B1", "Space", "1") in list(source.tags)
    assert source.vocabulary == ("space", "western")
    (request,) = source.requests
    assert (request.text, request.film_ids) == ("Space films", ("B1", "B9"))
    assert request.query_id.startswith("reddit_movie_suggestions-")
    del amazon["reddit"]
    assert read_amazon(**amazon).requests == ()


def test_reddit_in_json_lines(amazon: dict[str, Path]) -> None:
    (request,) = read_amazon(**amazon).requests
    (item,) = json.loads(amazon["reddit"].read_text())
    amazon["reddit"].write_text(f"{json.dumps(item)}\n{json.dumps(item)}\n")
    source = read_amazon(**amazon)
    assert source.requests == [request]
    assert source.counts["queries asked twice"] == 1
    amazon["reddit"].write_text('{"request": {}}')
    with pytest.raises(InputError, match=r"reddit.json, line 1: not a request"):
        read_amazon(**amazon)
    amazon["reddit"].write_text("{}\n{")
    with pytest.raises(InputError, match=r"reddit.json, line"):
        read_amazon(**amazon)


def test_amazon_lines_of_every_kind(amazon: dict[str, Path]) -> None:
    lines = [
        "{'asin': 'B1', 'reviewText': \"It's \\ old\", 'helpful': [0, 1]}",
        '{"asin": "B3", "overall": 5.0}',
        "{'asin': __import__('os').getcwd()}",
        "[1, 2]",
        "{'a'" * 5000,
        '{"asin": 7}',
        "",
        '{"asin": "B9", "reviewText": "new"}',
    ]
    amazon["reviews"].write_bytes(gzip.compress("\n".join(lines).encode()))
    source = read_amazon(**amazon)
    assert list(source.reviews) == [Review("B1", "It's \\ old"), Review("B9", "new")]
    assert source.counts["lines that are no review"] == 4
    assert source.counts["reviews without text"] == 1


def test_reviews_before_the_damage_are_kept(
    amazon: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = write_amazon(amazon["reviews"], [("B1", f"{i * i} reviews") for i in range(5000)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + bytes(100) + whole[len(whole) // 2 + 100 :])
    source = read_amazon(**amazon)
    texts = [review.text for review in source.reviews]
    assert 1000 < len(texts) < 4900
    assert texts[:1000] == [f"{i * i} reviews" for i in range(1000)]
    assert source.counts["damaged places in compressed files"] == 1
    (offset,) = re.findall(r"reviews.json.gz is damaged at byte (\d+)", caplog.text)
    assert len(whole) // 2 <= int(offset) < len(whole)


def test_a_file_without_reviews_is_named(amazon: dict[str, Path]) -> None:
    amazon["reviews"].write_bytes(b"{}\n{}")
    with pytest.raises(InputError, match=r"reviews.json.gz: no line is a review"):
        list(read_amazon(**amazon).reviews)
    with pytest.raises(InputError, match="There is no file"):
        read_amazon(**{**amazon, "mapping": Path("nowhere.csv")})
