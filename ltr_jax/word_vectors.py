"""Word vectors of each language, trained on its texts alone and then frozen (section 3.1)."""

import dataclasses
import importlib.metadata
import itertools
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from ltr_jax.datasets.collection import Collection
from ltr_jax.datasets.corpora import read_corpus
from ltr_jax.tokenizers import tokenize, tokenizer
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import files_fingerprint
from retrieval_jax.kept import content_name, keep
from retrieval_jax.word_vectors import WordVectors, load_vectors, save_vectors, train_skipgram

_VECTORS, _TIME = "vectors.safetensors", "time.json"
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class WordVectorConfig:
    """How word vectors are trained; word2vec and the width are published, the rest is ours.

    Attributes:
        method: "word2vec" of each language's texts alone, or "pairs" of the training pairs, both
            languages in one space (`pair_vectors`), which has no use for window, negative, epochs.
        dim: width of a vector.
        window: farthest context word.
        negative: words drawn against each context word.
        epochs: passes over the texts.
        min_count: rarer words have no vector.
        seed: of initialisation and sampling.
    """

    method: Literal["word2vec", "pairs"] = "word2vec"
    dim: int = 100
    window: int = 5
    negative: int = 5
    epochs: int = 5
    min_count: int = 2
    seed: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedVectors:
    """Vectors and what they took.

    Attributes:
        vectors: names and their vectors.
        seconds: of training, which may have been in an earlier process.
    """

    vectors: WordVectors
    seconds: float


def train_word_vectors(
    collection: Collection, language: str, config: WordVectorConfig, folder: Path
) -> TrainedVectors:
    """Trains word2vec on all texts of a collection in one language, or finds what was trained.

    Texts of a file (`Collection.corpus_files`) are never all in memory: their words are written to
    a temporary file in `folder`, which each epoch reads.

    Args:
        collection: whose texts.
        language: of the words.
        config: how.
        folder: where vectors are kept by what they were trained on: runs of other seeds share them.

    Raises:
        InputError: no text in the language, no tokenizer for it, no word frequent enough, gensim is
            not installed, or what `read_corpus` refuses.
    """
    texts, file = collection.corpus(language), collection.corpus_files.get(language)
    if not texts and file is None:
        raise InputError(
            f"{collection.name} has no text in {language!r}.",
            f"Its languages are {collection.queries.language} and {collection.documents.language}.",
        )

    def train(sentences: Iterable[Sequence[str]]) -> WordVectors:
        return train_skipgram(
            sentences,
            dim=config.dim,
            window=config.window,
            negative=config.negative,
            epochs=config.epochs,
            seed=config.seed,
            min_count=config.min_count,
        )

    def train_on_all() -> WordVectors:
        if file is None:
            return train(tokenize(texts, language))
        split = tokenizer(language)
        with tempfile.NamedTemporaryFile("w+", dir=folder, encoding="utf-8") as words:
            for text in itertools.chain(texts, read_corpus(file)):
                words.write(" ".join(split(text)) + "\n")
            words.flush()
            return train(_WordLines(Path(words.name)))

    made_of = ["words", language, repr(config), *texts]
    if file is not None:
        made_of.append(files_fingerprint([file]))
    return kept_vectors(made_of, train_on_all, folder)


@dataclasses.dataclass(frozen=True)
class _WordLines:
    """Lists of words in a file, one a line, read again each time."""

    path: Path

    def __iter__(self) -> Iterator[list[str]]:
        with self.path.open(encoding="utf-8") as file:
            yield from map(str.split, file)


def kept_vectors(
    made_of: Sequence[str], train: Callable[[], WordVectors], folder: Path
) -> TrainedVectors:
    """Trains vectors unless `folder` holds those that were made of the same.

    Args:
        made_of: all that decides them.
        train: makes them.
        folder: made if absent; several processes may share it.

    Raises:
        InputError: they cannot be written or read, or what `train` raises.
    """

    def write(unfinished: Path) -> None:
        start = time.perf_counter()
        vectors = train()
        seconds = time.perf_counter() - start
        save_vectors(vectors, unfinished / _VECTORS)
        (unfinished / _TIME).write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
        _log.info("%d vectors trained in %.1f s", len(vectors.words), seconds)

    # Its random numbers are gensim's own.
    kept = keep(folder, content_name([_gensim_version(), *made_of]), write)
    times = json.loads((kept / _TIME).read_text(encoding="utf-8"))
    return TrainedVectors(load_vectors(kept / _VECTORS), times["seconds"])


def _gensim_version() -> str:
    try:
        return importlib.metadata.version("gensim")
    except importlib.metadata.PackageNotFoundError:
        return ""  # training will say what to install
