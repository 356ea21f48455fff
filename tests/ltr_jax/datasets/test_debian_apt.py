import gzip
import itertools
import lzma
import shutil
import subprocess
from pathlib import Path

import pytest

from ltr_jax.datasets import apt_lists
from ltr_jax.datasets.apt_lists import (
    Description,
    fetch_lists,
    index_files,
    is_lists_folder,
    read_app_categories,
    read_packages,
    read_translations,
)
from ltr_jax.datasets.debian_apt import Article, masked_query, read_apt_lists
from ltr_jax.datasets.draws import split_of
from retrieval_jax.errors import InputError

DIST = "deb.example.org_debian_dists_stable_main"
PACKAGES = """\
Package: chess-ui
Source: chess (1.2)
Version: 1.2-3
Section: games
Depends: libchess1 (>= 1.0) | libgo1, libc6:any [amd64]
Suggests: go
Tag: game::board, interface::{graphical,x11},
 role::program, special::meta
Description: board game of chess
Description-md5: aa1

Package: libchess1
Source: chess
Section: libs
Description: rules of chess
Description-md5: aa2

Package: go
Section: games
Enhances: chess-ui
Tag: use::gameplaying
Description: game of stones
Description-md5: aa3

Package: libgo1
Source: go
Section: libs
Depends: tiny
Description: rules of stones
Description-md5: aa4

Package: tiny
Section: misc
Description: small thing
Description-md5: aa5
"""
ENGLISH = """\
Package: chess-ui
Description-md5: aa1
Description-en: board game of chess
 The chess program, version 2.0 plays well.  It has a clock.
 .
  * a list

Package: libchess1
Description-md5: aa2
Description-en: rules of chess
 Library.

Package: go
Description-md5: aa3
Description-en: game of stones
 An old game.

Package: tiny
Description-md5: aa5
Description-en: small thing
 It is small.
"""
GERMAN = """\
Package: chess-ui
Description-md5: aa1
Description-de: Brettspiel Schach
 Spielt gut.

Package: libchess1
Description-md5: old
Description-de: veraltet
 Anderes MD5.

Package: go
Description-md5: aa3
Description-de: Spiel der Steine
 Ein altes Spiel.
 .
 Sehr alt.

Package: libgo1
Description-md5: aa4
Description-de: <trans>
 <trans>

Package: tiny
Description-md5: aa5
Description-de: kleines Ding
 Es ist klein.
"""
DEP11 = """\
---
File: DEP-11
---
Type: desktop-application
ID: chess.desktop
Package: chess-ui
Name:
  C: Chess
  de:
  - no category
Categories:
- Game
- 'BoardGame'
Keywords:
  C:
  - play
---
Type: addon
Package: go
Categories:
- Game
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / f"{DIST}_binary-amd64_Packages").write_text(PACKAGES, encoding="utf-8")
    with lzma.open(tmp_path / f"{DIST}_i18n_Translation-en.xz", "wt", encoding="utf-8") as file:
        file.write(ENGLISH)
    (tmp_path / f"{DIST}_i18n_Translation-de").write_text(GERMAN, encoding="utf-8")
    with gzip.open(
        tmp_path / f"{DIST}_dep11_Components-amd64.yml.gz", "wt", encoding="utf-8"
    ) as file:
        file.write(DEP11)
    return tmp_path


def test_packages(folder) -> None:
    packages = read_packages(folder)
    chess = packages["chess-ui"]
    assert chess.source == "chess"
    assert chess.section == "games"
    assert chess.tags == (
        "game::board", "interface::graphical", "interface::x11", "role::program", "special::meta",
    )  # fmt: skip
    assert chess.links == ("libchess1", "libgo1", "libc6", "go")
    assert packages["tiny"].source == "tiny"


def test_translations(folder) -> None:
    german = read_translations(folder, "de")
    assert german["go", "aa3"] == Description("Spiel der Steine", "Ein altes Spiel.\nSehr alt.")
    assert ("libgo1", "aa4") not in german  # unfinished
    with pytest.raises(InputError, match="in 'fr', only in de, en"):
        read_translations(folder, "fr")


def test_app_categories(folder) -> None:
    assert read_app_categories(folder) == {"chess-ui": ("Game", "BoardGame"), "go": ("Game",)}


def test_the_collection(folder) -> None:
    collection = read_apt_lists(folder, "de")
    assert collection.name == "debian en-de"
    assert collection.documents.ids == ("chess", "go", "tiny")
    assert collection.documents.texts[0] == "Brettspiel Schach\nSpielt gut."
    assert collection.documents.categories[0] == (
        "app::BoardGame", "app::Game", "interface::graphical", "interface::x11", "role::program",
        "section::games",
    )  # fmt: skip
    judged = {
        q: dict(of) for topics in collection.splits.values() for q, of in topics.qrels.items()
    }
    # chess suggests go; tiny is needed by another package of the source go.
    assert judged["chess"] == {"chess": 2, "go": 1}
    assert judged["go"] == {"go": 2, "chess": 1, "tiny": 1}
    for split, topics in collection.splits.items():
        assert all(split_of(query) == split for query in topics.query_ids)
    categories = dict(zip(collection.queries.ids, collection.queries.categories, strict=True))
    assert categories["chess"] == ("game::board",)
    assert ("game::board", "facet:game") in collection.category_edges
    assert collection.fingerprint == read_apt_lists(folder, "de").fingerprint
    assert "small thing\nIt is small." in collection.corpus("en")


def article(source, package_name, short, long):
    package = apt_lists.Package(package_name, source, "", (), (), short, "")
    empty = Description("", "")
    return Article(source, package, Description(short, long), empty, (), ())


def test_the_category_graph_is_of_training_alone(folder, monkeypatch) -> None:
    splits = {"chess": "train", "go": "dev", "tiny": "test"}
    monkeypatch.setattr("ltr_jax.datasets.debian_apt.split_of", splits.__getitem__)
    edges = set(read_apt_lists(folder, "de").category_edges)
    facets = {edge for edge in edges if edge[1].startswith("facet:")}
    assert ("use::gameplaying", "facet:use") in facets and (
        "section::misc",
        "facet:section",
    ) in facets
    of_chess = (
        "app::BoardGame", "app::Game", "game::board", "interface::graphical", "interface::x11",
        "role::program", "section::games",
    )  # fmt: skip
    # Of go, in dev: use::gameplaying beside app::Game and section::games.
    assert edges - facets == set(itertools.combinations(of_chess, 2))


@pytest.mark.parametrize(
    ("names", "short", "long", "query"),
    [
        (
            ("chess", "chess-ui"),
            "board game of Chess",
            "The chess program of A. Smith, version 2.0, plays. It has a clock.",
            "board game of . The program of A. Smith, version 2.0, plays.",
        ),
        (("libfoo2", "libfoo2-dev"), "Foo library", "libfoo is small", "library. is small"),
        (("2048", "2048"), "the game 2048", "Play it\nMore", "the game 2048. Play it"),
        (("c++", "c++"), "c++ compiler", "Uses c++11", "compiler. Uses c++11"),
    ],
)
def test_names_are_masked(names, short, long, query) -> None:
    assert masked_query(article(*names, short, long)) == query


def test_hubs_are_not_linked(folder, monkeypatch) -> None:
    monkeypatch.setattr("ltr_jax.datasets.debian_apt.MAX_DEGREE", 1)
    collection = read_apt_lists(folder, "de")
    assert collection.card["hubs, whose links are left out"] == 1
    assert "links" not in collection.card


def test_folders_that_lack_indexes(tmp_path, folder) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert is_lists_folder(folder)
    assert not is_lists_folder(empty)
    with pytest.raises(InputError, match="no index of packages"):
        read_apt_lists(empty, "de")
    with pytest.raises(InputError, match="only in de, en"):
        read_apt_lists(folder, "ja")


def test_indexes_that_apt_packs(folder, monkeypatch) -> None:
    monkeypatch.setattr(apt_lists, "_APT_HELPER", Path("/none"))
    plain = folder / f"{DIST}_binary-amd64_Packages"
    plain.rename(folder / f"{plain.name}.lz4")
    with pytest.raises(InputError, match="packed as lz4"):
        read_packages(folder)


@pytest.mark.skipif(
    shutil.which("lz4") is None or not apt_lists._APT_HELPER.is_file(),
    reason="needs apt and lz4",
)
def test_apt_unpacks_its_indexes(folder) -> None:
    before = read_packages(folder)
    plain = folder / f"{DIST}_binary-amd64_Packages"
    subprocess.run(["lz4", "-q", "--rm", str(plain), f"{plain}.lz4"], check=True)
    assert index_files(folder, "Packages")[0].suffix == ".lz4"
    assert read_packages(folder) == before


@pytest.fixture
def apt_get(monkeypatch):
    """Stands in for apt-get: its commands, and what it says and returns."""

    def stand_in(said, returned):
        commands = []

        def run(command, **_):
            commands.append(command)
            return subprocess.CompletedProcess(command, returned, "", said)

        monkeypatch.setattr(subprocess, "run", run)
        return commands

    return stand_in


def test_fetching(folder, apt_get, caplog) -> None:
    commands = apt_get("E: no such repository", 100)
    fetch_lists(folder, ["de"])  # what was asked for is there
    assert "E: no such repository" in caplog.text
    assert commands[0][:2] == ["apt-get", "update"]
    assert "Acquire::Languages=en,de,none" in commands[0]
    assert f"Dir::State::lists={folder}" in commands[0]
    with pytest.raises(InputError, match="is no language"):
        fetch_lists(folder, ["de; x"])


@pytest.mark.parametrize("returned", [0, 100])
def test_fetching_nothing(tmp_path, folder, apt_get, returned) -> None:
    apt_get("W: no network", returned)
    with pytest.raises(InputError, match=r"no packages, descriptions in 'en',(.|\n)*no network"):
        fetch_lists(tmp_path / "lists", ["de"])
    with pytest.raises(InputError, match=r"fetched no descriptions in 'ja'\."):
        fetch_lists(folder, ["de", "ja"])
