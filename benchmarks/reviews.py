"""Real English to measure on: sentences of film reviews, in the order of the file."""

import dataclasses
import hashlib
import itertools
import json
import lzma
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import tyro

from benchmarks import measure
from retrieval_jax.data_folders import DATA_VARIABLE
from retrieval_jax.errors import InputError
from retrieval_jax.pretrained import DEFAULT_ENCODER

REVIEWS = Path("imdb_movielens/reviews.jsonl.xz")  # under the folder RETRIEVAL_DATA
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+|<br />")


@dataclasses.dataclass(frozen=True)
class SentenceCommand:
    """What benchmarks of sentences ask for.

    Attributes:
        options: how to measure.
        reviews: reviews.jsonl.xz; by default in the folder that RETRIEVAL_DATA names.
        encoder: BERT folder, package or hub name.
        max_length: word pieces at which texts are cut.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options()
    reviews: Path | None = None
    encoder: str = DEFAULT_ENCODER
    max_length: int = 128


def read_sentences(path: Path | None, count: int) -> list[str]:
    """The first `count` sentences; `path` as in `read_reviews`."""
    sentences = itertools.chain.from_iterable(read_reviews(path))
    return _exactly(count, sentences, "sentences")


def read_pairs(path: Path | None, count: int) -> list[str]:
    """The first `count` pairs of consecutive sentences of a review, no sentence in two pairs.

    Returns:
        `2 * count` sentences; 2 i and 2 i + 1 make pair i.
    """
    even = (review[: len(review) // 2 * 2] for review in read_reviews(path))
    return _exactly(2 * count, itertools.chain.from_iterable(even), "paired sentences")


def read_reviews(path: Path | None) -> Iterator[list[str]]:
    """Yields the sentences of each review, but for fragments of less than three words.

    Args:
        path: JSON lines with a `text`, compressed by xz; None = `REVIEWS` in the folder that the
            environment variable RETRIEVAL_DATA names.

    Raises:
        InputError: no such file.
    """
    if path is None:
        path = Path(os.environ.get(DATA_VARIABLE, ".")) / REVIEWS
    if not path.is_file():
        raise InputError(
            f"no reviews at {path}",
            f"Give the file as --reviews, or in {DATA_VARIABLE} the folder that holds {REVIEWS}.",
        )
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            sentences = END_OF_SENTENCE.split(json.loads(line)["text"])
            yield [sentence.strip() for sentence in sentences if len(sentence.split()) >= 3]


def describe(path: Path | None, sentences: Sequence[str], what: str) -> dict[str, str]:
    """Says what a benchmark ran on: the file, and SHA-256 of the texts (a line each)."""
    digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    name = REVIEWS if path is None else path.name
    return {"name": f"{name}: the first {len(sentences)} {what}", "fingerprint": digest}


def _exactly(count: int, sentences: Iterator[str], what: str) -> list[str]:
    taken = list(itertools.islice(sentences, count))
    if len(taken) < count:
        raise InputError(
            f"the reviews hold {len(taken)} {what}, not {count}", "Ask for fewer, or give more."
        )
    return taken
