"""Vectors of single words: word2vec trained on a corpus, or GloVe read from a file."""

import contextlib
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from retrieval_jax import word_vectors
from retrieval_jax.errors import InputError
from retrieval_jax.files import whole_file
from retrieval_jax.text_files import ZIP_ERRORS

_WORD = re.compile(r"\w+")


class WordVectors(word_vectors.WordVectors):
    """Words in lower case and their vectors, for texts of several words."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Encodes texts by the mean of their words' vectors.

        Args:
            texts: any; unknown words do not count.

        Returns:
            float32 [texts, dim]; zeros for a text of unknown words.
        """
        analyzer: Any = split_words  # the stubs know names of analyzers only
        counter = CountVectorizer(analyzer=analyzer, vocabulary=self.vocabulary)
        counts = counter.transform(texts)
        totals = np.asarray(counts.sum(axis=1), np.float32).reshape(-1, 1)
        return (counts @ self.vectors / np.maximum(totals, 1)).astype(np.float32)


def split_words(text: str) -> list[str]:
    """The words of a text: runs of letters and digits, in lower case."""
    return _WORD.findall(text.lower())


def train_word2vec(
    sentences: Sequence[str],
    dim: int = 100,
    min_count: int = 5,
    epochs: int = 5,
    seed: int = 0,
) -> WordVectors:
    """Trains word2vec (skip-gram, negative sampling; Mikolov et al. 2013) by gensim.

    Deterministic, as `retrieval_jax.word_vectors.train_skipgram` says.

    Args:
        sentences: texts.
        dim: width of a vector.
        min_count: rarer words have none.
        epochs: passes.
        seed: of initialisation and sampling.

    Raises:
        InputError: gensim is not installed, or no word is frequent enough.
    """
    trained = word_vectors.train_skipgram(
        [split_words(sentence) for sentence in sentences],
        dim=dim,
        window=5,
        negative=5,
        epochs=epochs,
        seed=seed,
        min_count=min_count,
    )
    return WordVectors(trained.words, trained.vectors)


def write_word2vec(path: Path, names: Sequence[str], vectors: np.ndarray) -> None:
    """Writes vectors in word2vec's text format, exact to float32; whole or not at all.

    Args:
        path: file to write.
        names: `[n]`; white space, which separates fields, becomes "_".
        vectors: `[n, dim]` float32.
    """
    with whole_file(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(vectors)} {vectors.shape[1]}\n")
        for name, row in zip(names, vectors.tolist(), strict=True):
            file.write(f"{'_'.join(name.split())} {' '.join(f'{value:.9g}' for value in row)}\n")


def read_word_vectors(path: Path, words: frozenset[str] | None = None) -> WordVectors:
    """Reads GloVe's text format, or word2vec's, which begins with a line of the two sizes.

    Args:
        path: the file, or a zip as GloVe's publisher ships it, whose largest member is read.
        words: keep only these, in lower case, for memory; None = all.

    Raises:
        InputError: no such file, a damaged zip, no word kept, or a malformed line.
    """
    if not path.is_file():
        raise InputError(
            f"no {path}",
            "Give a text file of word2vec or GloVe, or GloVe's zip, which"
            " `python -m docent_jax fetch glove` fetches.",
        )
    rows: dict[str, np.ndarray] = {}
    dim: int | None = None
    stated: int | None = None  # vectors, by the line of sizes
    number = 0
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            fields = line.rstrip("\r\n").rstrip(" ").split(" ")
            if number == 1 and len(fields) == 2 and all(map(str.isdecimal, fields)):
                stated = int(fields[0])
                continue
            dim = dim or len(fields) - 1
            # Some words of GloVe's largest file hold spaces: the numbers are the last fields.
            word = " ".join(fields[:-dim]).lower() if dim else ""
            if words is not None and word not in words:
                continue
            try:
                row = np.array(fields[-dim:], np.float32)
            except ValueError:
                row = np.empty(0)
            if not word or len(row) != dim or not np.isfinite(row).all():
                raise InputError(
                    f"{path}, line {number} is no word with {dim} numbers",
                    "Is it a text file of word vectors, whole?",
                )
            # The first of several, as in every reader of GloVe: they are in order of frequency.
            rows.setdefault(word, row)
    if stated is not None and stated != number - 1:
        raise InputError(
            f"{path} holds {number - 1:,} vectors; its first line says {stated:,}",
            "Fetch or make the file again.",
        )
    if not rows:
        raise InputError(f"{path} holds no vector of these words", "Give another file.")
    return WordVectors(tuple(rows), np.stack(list(rows.values())))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """The text of a file, or of a zip's largest member: of GloVe's the longest vectors."""
    if not zipfile.is_zipfile(path):
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            yield file
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if not members:
                raise InputError(f"{path} is empty", "Fetch it again.")
            largest = max(members, key=lambda member: member.file_size)
            with archive.open(largest) as member:
                yield io.TextIOWrapper(member, encoding="utf-8", errors="replace", newline="\n")
    except ZIP_ERRORS as error:
        raise InputError(f"{path} cannot be read ({error})", "Fetch it again.") from error
