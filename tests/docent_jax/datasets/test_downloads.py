"""Downloads from a real server on this machine: whole, in parts, wrong, and out of reach."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from docent_jax.datasets import downloads, film_builders
from docent_jax.datasets.downloads import PublishedFile, fetch
from docent_jax.datasets.film_builders import AmazonMovielens, ImdbMovielens
from retrieval_jax.errors import InputError
from tests.docent_jax.datasets.film_files import MAPPING_CSV, write_amazon, write_movielens

CONTENT = bytes(range(256)) * 40


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` everywhere.

    Attributes:
        content: what it serves.
        cut: bytes of an answer's body after which the connection ends; None = all.
        ranges: whether it can go on in the middle.
        asked: the `Range` of each request, "" for none.
    """

    content: bytes = CONTENT
    cut: int | None = None
    ranges: bool = True
    asked: list[str]

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version: ClassVar[str] = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = self.headers.get("Range", "")
        self.server.asked.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.ranges else 0
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def published(server: Server, name: str = "data.zip", content: bytes = CONTENT) -> PublishedFile:
    return PublishedFile(server.address(name), len(content), hashlib.sha256(content).hexdigest())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole_and_once(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert fetch(published(server), folder).read_bytes() == CONTENT
    assert names(folder) == ["data.zip"]
    fetch(published(server), folder)
    assert server.asked == [""]


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_is_taken_up(server: Server, tmp_path: Path, ranges: bool) -> None:
    server.cut, server.ranges = 4000, ranges
    with pytest.raises(InputError, match=r"after 4,000 of 10,240 bytes(.|\n)*Call again"):
        fetch(published(server), tmp_path)
    assert names(tmp_path) == ["data.zip.part"]
    server.cut = None
    assert fetch(published(server), tmp_path).read_bytes() == CONTENT
    assert server.asked == ["", "bytes=4000-"]
    assert names(tmp_path) == ["data.zip"]


def test_two_at_a_time_fetch_it_once(server: Server, tmp_path: Path) -> None:
    file = published(server)
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(file, tmp_path), range(4)))
    assert {path.read_bytes() for path in paths} == {CONTENT}
    assert server.asked == [""]


def test_a_part_that_is_whole_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.zip.part").write_bytes(CONTENT)
    fetch(published(server), tmp_path)
    assert server.asked == []


@pytest.mark.parametrize("content", [bytes(len(CONTENT)), CONTENT + b"more" * 1000])
def test_another_file_is_refused_and_removed(
    server: Server, tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "CHUNK", 1024)
    server.content = content
    with pytest.raises(InputError, match=r"data.zip gave a file of .* SHA-256"):
        fetch(published(server), tmp_path)
    assert names(tmp_path) == []


def test_what_is_out_of_reach_says_what_to_do(server: Server, tmp_path: Path) -> None:
    nowhere = PublishedFile("http://127.0.0.1:1/data.zip", 1, "0" * 64)
    with pytest.raises(InputError, match=r"cannot be fetched(.|\n)*by hand to .*data.zip \(SHA"):
        fetch(nowhere, tmp_path)


def test_films_are_fetched_where_nobody_has_put_them(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    movielens = write_movielens(tmp_path / "ml.zip").read_bytes()
    server.content = movielens
    monkeypatch.setitem(
        film_builders.PUBLISHED, film_builders.MOVIELENS, published(server, "ml-25m.zip", movielens)
    )
    folder = tmp_path / "amazon"
    folder.mkdir()
    # First what a person has to put there.
    with pytest.raises(InputError, match=r"no reviews_Movies_and_TV(.|\n)*fetch amazon_movielens"):
        AmazonMovielens.source_files(folder, download=True)
    write_amazon(folder / "Movies_and_TV.json.gz", [("B1", "one")])
    (folder / "Reviews2Movielens.csv").write_text(MAPPING_CSV)
    with pytest.raises(InputError, match=r"holds no ml-\*.zip"):
        AmazonMovielens.source_files(folder)
    assert server.asked == []
    assert AmazonMovielens.source_files(folder, download=True)[2] == folder / "ml-25m.zip"
    # Another MovieLens that is there already is taken.
    (tmp_path / "imdb").mkdir()
    (tmp_path / "imdb" / "aclImdb_v1.tar.gz").touch()
    write_movielens(tmp_path / "imdb" / "ml-20m.zip")
    assert ImdbMovielens.source_files(tmp_path / "imdb", download=True)[1].name == "ml-20m.zip"
    assert server.asked == [""]
