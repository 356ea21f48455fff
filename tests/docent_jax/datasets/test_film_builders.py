"""The builders on small folders, the configuration that names them, and the real folder."""

import dataclasses
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from docent_jax.config import DataConfig
from docent_jax.datasets.film_builders import (
    AmazonMovielens,
    FilmBuilder,
    ImdbMovielens,
    load_film_data,
    prepare,
)
from docent_jax.datasets.imdb_folder import read_imdb_folder
from docent_jax.datasets.load import load_documents, load_films
from retrieval_jax.errors import InputError
from tests.docent_jax.datasets.film_files import (
    MAPPING_CSV,
    film_data,
    query,
    reviews_of,
    write_amazon,
    write_imdb_folder,
    write_movielens,
    write_tar,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three films with reviews; the tags and one query are of two of them."""
    reviews = [
        (number, text) for number in (9, 5, 133093) for text in reviews_of(f"The Film{number}")
    ]
    return write_imdb_folder(
        tmp_path / "source" / "imdb_movielens",
        reviews,
        movies=[(133093, "10", "Film133093, The (1999)"), (5, "", ""), (9, "90", "Nine (1990)")],
        tags=[(133093, "m:1", "Space"), (133093, "m:2", "noir"), (9, "m:1", "space")],
        queries=[query("redial-1", "One about space", 9, 133093), query("redial-2", "x", 77)],
    )


def test_a_prepared_data_set_is_read_back_whole(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = prepare(ImdbMovielens, folder, tmp_path / "data", processes=1)
    assert builder.name == "imdb_movielens"
    output = capsys.readouterr().out
    assert "  entities: 3\n" in output
    assert "  queries dropped without a known answer: 1\n" in output
    read, made = load_film_data(builder), film_data(read_imdb_folder(folder), processes=1)
    assert read.corpus.fingerprint == made.corpus.fingerprint
    assert read.corpus.card == made.corpus.card
    assert read.corpus.aliases == made.corpus.aliases
    assert (read.film_ids, read.movielens_ids) == (made.film_ids, made.movielens_ids)
    assert read.vocabulary == made.vocabulary == ("space",)
    assert read.tags.tags == made.tags.tags == ("space", "noir")
    assert read.tags.votes(3).tolist() == made.tags.votes(3).tolist() == [[0, 0], [1, 0], [1, 1]]
    (one,) = [q for of_split in read.corpus.queries.values() for q in of_split]
    assert (one.query_id, one.entity_ids) == ("redial-1", (1, 2))
    # Nothing but the data set is left.
    assert not list((tmp_path / "data").rglob("*.jsonl"))
    assert [path.name for path in Path(builder.data_dir).parent.iterdir()] == ["1.0.0"]


def test_a_prepared_data_set_is_reused_until_files_change(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = prepare(ImdbMovielens, folder, tmp_path / "data", processes=1)
    capsys.readouterr()
    assert prepare(ImdbMovielens, folder, tmp_path / "data").data_dir == first.data_dir
    assert capsys.readouterr().out == ""
    kept = prepare(ImdbMovielens, folder, tmp_path / "data", keep_names=True, processes=1)
    assert kept.data_dir != first.data_dir
    assert "The Film133093" in " ".join(load_film_data(kept).corpus.sentences)
    with (folder / "movies.tsv").open("a") as file:
        file.write("77\t\t\t\n")
    assert prepare(ImdbMovielens, folder, tmp_path / "data", processes=1).data_dir != first.data_dir


def test_long_documents_take_several_rows(tmp_path: Path) -> None:
    reviews = [
        (film, f"Number {i} of the many reviews here.") for film in (1, 2) for i in range(250)
    ]
    folder = write_imdb_folder(tmp_path / "source", reviews)
    builder = prepare(ImdbMovielens, folder, tmp_path / "data")
    assert builder.info.splits["train"].num_examples == 6
    corpus = load_film_data(builder).corpus
    assert corpus.bounds.tolist() == [0, 250, 500]
    assert corpus.sentences == tuple(text for _, text in reviews)


def test_the_publishers_archives_make_the_same_kind_of_data(tmp_path: Path) -> None:
    urls = b"".join(b"http://www.imdb.com/title/tt%07d/\n" % f for f in (133093, 47478) * 5)
    texts = [text for pair in zip(reviews_of("x"), reviews_of("y"), strict=True) for text in pair]
    members = {f"aclImdb/train/pos/{i}_9.txt": text.encode() for i, text in enumerate(texts)}
    write_tar(tmp_path / "aclImdb_v1.tar.gz", {**members, "aclImdb/train/urls_pos.txt": urls})
    write_movielens(tmp_path / "ml-tiny.zip")
    films = load_film_data(prepare(ImdbMovielens, tmp_path, tmp_path / "data", processes=1))
    assert films.movielens_ids == (20, 10)
    assert films.tags.restrict(films.vocabulary).votes(2).tolist() == [[0, 0], [2, 0]]
    assert films.corpus.queries == {"dev": (), "test": ()}


def test_amazon(tmp_path: Path) -> None:
    # Two editions of one film have five reviews together, one of them twice.
    matrix, samurai = reviews_of("neo"), reviews_of("swords")
    rows = [("B1", text) for text in matrix[:3]] + [("B2", text) for text in matrix[2:]]
    write_amazon(tmp_path / "Movies_and_TV.json.gz", [*rows, *(("B5", text) for text in samurai)])
    (tmp_path / "Reviews2Movielens.csv").write_text(MAPPING_CSV)
    write_movielens(tmp_path / "ml-tiny.zip")
    builder = prepare(AmazonMovielens, tmp_path, tmp_path / "data", processes=1)
    films = load_film_data(builder)
    assert builder.name == "amazon_movielens"
    assert films.corpus.entities == ("The Matrix (1999) [B1]", "Seven Samurai (1954) [B5]")
    assert films.corpus.card["reviews dropped as duplicates"] == 1
    assert films.corpus.card["listed films without reviews"] == 2


@pytest.mark.parametrize(
    ("builder", "problem"),
    [
        (ImdbMovielens, r"holds no aclImdb_v1.tar.gz.\nPut into .*grouplens"),
        (AmazonMovielens, r"holds no reviews_Movies_and_TV.json\*.\nPut into .*research/docent"),
    ],
)
def test_missing_files_are_named_with_their_addresses(
    tmp_path: Path, builder: type[FilmBuilder], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        prepare(builder, tmp_path, tmp_path / "data")


def test_a_builder_without_a_folder_says_how_to_make_one(tmp_path: Path) -> None:
    builder = ImdbMovielens(data_dir=str(tmp_path), file_format="array_record")
    with pytest.raises(InputError, match="which folder"):
        builder.download_and_prepare()


def test_what_fails_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    (folder / "reviews.jsonl.xz").write_text("{")
    with pytest.raises(InputError, match="line 1: not JSON"):
        prepare(ImdbMovielens, folder, tmp_path / "data", processes=1)
    assert not list((tmp_path / "data").rglob("*.*record*"))
    assert not list((tmp_path / "data").rglob("*.jsonl"))


def test_the_configuration_names_the_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = DataConfig(source="imdb_movielens", folder=str(folder), entities=2)
    corpus = load_documents(config, tmp_path / "data")
    assert len(corpus.entities) == 2
    films = load_films(config, tmp_path / "data")
    assert films.corpus.fingerprint == corpus.fingerprint
    tags = load_films(config, tmp_path / "data").tags
    assert tags.votes(2).tolist() == films.tags.votes(2).tolist()
    by_variable = dataclasses.replace(config, folder=None)
    monkeypatch.setenv("RETRIEVAL_DATA", str(folder.parent))
    assert load_documents(by_variable, tmp_path / "data").fingerprint == corpus.fingerprint
    monkeypatch.delenv("RETRIEVAL_DATA")
    # Without a folder of the user's the prepared data's own is looked into, and what it needs said.
    with pytest.raises(InputError, match=r"data/sources/amazon_movielens holds no reviews_Movies"):
        load_documents(DataConfig(source="amazon_movielens"), tmp_path / "data")
    with pytest.raises(InputError, match="no films and no tags"):
        load_films(DataConfig(), tmp_path / "data")


REAL = (
    Path(os.environ.get("RETRIEVAL_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "imdb_movielens"
)


@pytest.mark.long
@pytest.mark.skipif(not REAL.is_dir(), reason="needs imdb_movielens in the folder RETRIEVAL_DATA")
def test_the_real_folder() -> None:
    films = film_data(read_imdb_folder(REAL))
    assert films.corpus.card == {
        "reviews read": 66_498,
        "reviews dropped as duplicates": 133,
        "films dropped under 5 reviews": 10,
        "reviews dropped with films under 5 reviews": 40,
        "reviews": 66_325,
        "entities": 6_406,
        "films in MovieLens": 4_192,
        "films without a known name": 2_226,
        "listed films without reviews": 10,
        "film names removed from reviews": 39_796,
        "sentences": 741_161,
        "words": 14_736_779,
        "answers of queries absent from the films": 0,
        "films named in queries removed": 106,
        "dev queries": 508,
        "test queries": 517,
        "tag applications": 28_134,
        "tag applications of the closed vocabulary": 14_748,
        "tag applications to films without reviews": 6,
        "films with tags": 1_418,
    }
    sources = Counter(
        (split, query.query_id.partition("-")[0])
        for split, queries in films.corpus.queries.items()
        for query in queries
    )
    assert sources == {
        ("dev", "reddit_tomt"): 398,
        ("test", "reddit_tomt"): 410,
        ("dev", "trec_tot"): 29,
        ("test", "trec_tot"): 27,
        ("dev", "redial"): 81,
        ("test", "redial"): 80,
    }
    votes = films.tags.restrict(films.vocabulary).votes(len(films.film_ids))
    # Of 6,080 pairs and 1,082 films in the tables: a film has four different reviews only.
    assert (np.count_nonzero(votes), np.count_nonzero(votes.any(axis=1))) == (6_079, 1_081)
    strong = votes > 2
    assert np.count_nonzero(strong) == 1_405
    assert (strong.any(axis=1).sum(), strong.any(axis=0).sum()) == (358, 578)
