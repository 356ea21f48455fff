"""Published files with a stable address: fetched, taken up where they stopped, and checked."""

import dataclasses
import fcntl
import hashlib
import http.client
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rich.progress import track

from retrieval_jax.errors import InputError

CHUNK = 1 << 20
TIMEOUT_S = 60  # without a byte


@dataclasses.dataclass(frozen=True)
class PublishedFile:
    """A file that its publisher keeps at one address, the same bytes for good.

    Attributes:
        url: the address; the file is called as its last part.
        size: bytes.
        sha256: of the contents, in hexadecimal.
    """

    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """What the file is called."""
        return self.url.rpartition("/")[2]

    def __str__(self) -> str:
        """Name, address and checksum, for a person who fetches it by hand."""
        return f"{self.name} ({self.url}, SHA-256 {self.sha256})"


ACL_IMDB = PublishedFile(
    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    84_125_825,
    "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
)
MOVIELENS_25M = PublishedFile(
    "https://files.grouplens.org/datasets/movielens/ml-25m.zip",
    261_978_986,
    "8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa",
)
GLOVE_6B = PublishedFile(
    "https://nlp.stanford.edu/data/glove.6B.zip",
    862_182_613,
    "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
)


def fetch(file: PublishedFile, folder: Path) -> Path:
    """The file in a folder; fetched if it is not there.

    What has come lies in `NAME.part` until all of it is there and has the right checksum. So an
    interrupted download is taken up where it stopped, if the server can, and `NAME` is never a part
    of the file.

    Args:
        file: which.
        folder: made if absent.

    Raises:
        InputError: it cannot be fetched, or what came is another file.
    """
    if (path := folder / file.name).is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two processes the second finds what the first fetched
        return _fetch(file, folder)
    finally:
        os.close(lock)


def _fetch(file: PublishedFile, folder: Path) -> Path:
    path = folder / file.name
    if path.is_file():
        return path
    part = folder / f"{file.name}.part"
    _receive(file, part)
    size = part.stat().st_size
    if size < file.size:
        raise InputError(
            f"{file.url}: the connection ended after {size:,} of {file.size:,} bytes.",
            f"Call again to go on from there, or fetch it by hand to {path}.",
        )
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != file.sha256:
        part.unlink()
        raise InputError(
            f"{file.url} gave a file of {size:,} bytes with SHA-256 {found}, not {file.size:,}"
            f" bytes with {file.sha256}; it was removed.",
            f"Call again. If it comes the same, its publisher has changed it: find"
            f" {file.name} elsewhere and put it into {folder}.",
        )
    part.replace(path)
    return path


def _receive(file: PublishedFile, part: Path) -> None:
    """Adds to the part what is missing, or as much as comes."""
    start = part.stat().st_size if part.exists() else 0
    if start >= file.size:
        return
    headers = {"Range": f"bytes={start}-"} if start else {}
    request = urllib.request.Request(file.url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            # A server that cannot go on in the middle answers 200 with the whole file.
            start = start if answer.status == http.HTTPStatus.PARTIAL_CONTENT else 0
            chunks = _chunks(answer, file.size - start)
            steps = -(-(file.size - start) // CHUNK)
            with part.open("ab" if start else "wb") as out:
                for chunk in track(chunks, f"fetching {file.name}", total=steps):
                    out.write(chunk)
    except (OSError, http.client.HTTPException) as error:
        raise InputError(
            f"{file.url} cannot be fetched: {error}.",
            f"Call again when it can be reached, or fetch it by hand to"
            f" {part.with_suffix('')} (SHA-256 {file.sha256}).",
        ) from error


def _chunks(answer: http.client.HTTPResponse, expected: int) -> Iterator[bytes]:
    """The answer in pieces; what goes beyond the expected size shows once, and is not read on."""
    while expected >= 0 and (chunk := answer.read(CHUNK)):
        expected -= len(chunk)
        yield chunk
