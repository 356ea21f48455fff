"""Vectors of words: skip-gram and fastText trained by gensim, kept without pickle."""

import collections
import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from retrieval_jax.errors import InputError, check_at_least_1
from retrieval_jax.files import whole_file

# gensim silently drops what a sentence has beyond so many words.
_SENTENCE_WORDS = 10_000
_WALKS_AT_ONCE = 16_384
_FORMAT = "retrieval_jax word vectors 1"


class LabelledWalks:
    """Walks as sentences: the labels of their nodes, named as they are read, any number of times.

    Args:
        walks: `[walks, length]` integers, -1 after the end of a walk.
        labels: the word of each node; None = its number.

    Raises:
        InputError: walks that are no matrix of integers, or a node without label.
    """

    def __init__(self, walks: np.ndarray, labels: Sequence[str] | None = None) -> None:
        if walks.ndim != 2 or not np.issubdtype(walks.dtype, np.integer):
            raise InputError(
                f"walks have shape {walks.shape}, {walks.dtype}",
                "They must be integers [walks, length], as of random_walks.",
            )
        nodes = int(walks.max(initial=-1)) + 1
        if labels is not None and len(labels) < nodes:
            raise InputError(
                f"{len(labels)} labels for walks up to node {nodes - 1}", "Give one for each node."
            )
        self._walks = walks
        self._labels = np.array([*(map(str, range(nodes)) if labels is None else labels)], object)

    def __iter__(self) -> Iterator[list[str]]:
        """Gives the words of each walk."""
        for start in range(0, len(self._walks), _WALKS_AT_ONCE):
            block = self._walks[start : start + _WALKS_AT_ONCE]
            lengths = (block >= 0).sum(axis=1).tolist()
            # Where a walk has ended, -1 names the last label, which is cut off.
            for words, length in zip(self._labels[block].tolist(), lengths, strict=True):
                yield words[:length]


@dataclasses.dataclass(frozen=True)
class Subwords:
    """fastText's vectors of character n-grams (Bojanowski et al. 2017).

    Attributes:
        vectors: `[buckets, dim]` float32.
        min_n: shortest n-gram, in characters; a word stands between "<" and ">".
        max_n: longest n-gram.
    """

    vectors: np.ndarray
    min_n: int
    max_n: int

    def encode(self, word: str) -> np.ndarray:
        """The mean of a word's n-grams, `[dim]` float32; zeros if it is too short for any.

        Equal to gensim's vector of a word outside the vocabulary.
        """
        buckets = ngram_buckets(word, self.min_n, self.max_n, len(self.vectors))
        total = np.zeros(self.vectors.shape[1], np.float32)
        for bucket in buckets:
            total += self.vectors[bucket]
        return total / np.float32(max(len(buckets), 1))


def ngram_buckets(word: str, min_n: int, max_n: int, buckets: int) -> list[int]:
    """The buckets of a word's character n-grams, as fastText and gensim number them.

    32-bit FNV-1a over the bytes of UTF-8, each taken as signed.

    Raises:
        InputError: text that UTF-8 cannot hold.
    """
    text = f"<{word}>"
    try:
        characters = [character.encode() for character in text]
    except UnicodeEncodeError as error:
        raise InputError(
            f"a word that is no text: {word!a:.80}", "Remove its lone surrogates."
        ) from error
    found = []
    for start in range(len(characters)):
        state = 2_166_136_261
        for n, character in enumerate(characters[start : start + max_n], start=1):
            for byte in character:
                signed = byte if byte < 128 else byte | 0xFFFFFF00
                state = (state ^ signed) * 16_777_619 & 0xFFFFFFFF
            is_bracket = n == 1 and start in (0, len(characters) - 1)
            if n >= min_n and not is_bracket:
                found.append(state % buckets)
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors.

    Attributes:
        words: different words.
        vectors: `[words, dim]` float32.
        subwords: for words outside the vocabulary; None = they have no vector.
    """

    words: tuple[str, ...]
    vectors: np.ndarray
    subwords: Subwords | None = None

    @functools.cached_property
    def vocabulary(self) -> dict[str, int]:
        """Word -> row of `vectors`."""
        return {word: row for row, word in enumerate(self.words)}

    def lookup(self, words: Sequence[str]) -> np.ndarray:
        """The vectors of words, `[k, dim]` float32.

        A word outside the vocabulary has that of its subwords, or zeros if there are none.

        Raises:
            InputError: one text instead of several, or text that UTF-8 cannot hold.
        """
        if isinstance(words, str):
            raise InputError(f"words are one text: {words[:80]!r}", "Give a list of texts.")
        rows = np.array([self.vocabulary.get(word, -1) for word in words], np.intp)
        found = self.vectors[rows]
        for place in np.flatnonzero(rows < 0).tolist():
            found[place] = 0 if self.subwords is None else self.subwords.encode(words[place])
        return found


def train_skipgram(
    sentences: np.ndarray | Iterable[Sequence[str]],
    dim: int,
    window: int,
    negative: int,
    epochs: int,
    seed: int,
    min_count: int = 1,
    subsample: float = 1e-3,
) -> WordVectors:
    """Trains skip-gram with negative sampling (word2vec, Mikolov et al. 2013) by gensim.

    The same input gives the same vectors, in any process of a machine. This takes one thread, the
    price of which is the time that gensim's more threads would save.

    Args:
        sentences: lists of words, read several times; or walks `[walks, length]`, -1 after the end
            of each, whose words are the numbers of nodes (`LabelledWalks` names nodes).
        dim: width of a vector.
        window: farthest context word; for each word a random one up to it is taken.
        negative: words drawn against each context word.
        epochs: passes.
        seed: of initialisation and sampling.
        min_count: rarer words have no vector.
        subsample: words of a larger share are left out at times (`sample` of gensim); 0 = never,
            as in DeepWalk.

    Returns:
        Words by falling frequency, equally frequent ones in alphabetical order.

    Raises:
        InputError: gensim is not installed, no word is frequent enough, something that is no
            sentence, or a setting below 1.
    """
    check_at_least_1(dim=dim, window=window, negative=negative, epochs=epochs, min_count=min_count)
    model = _trained("Word2Vec", sentences, min_count, epochs, seed, {
        "vector_size": dim, "window": window, "negative": negative, "sample": subsample,
    })  # fmt: skip
    return WordVectors(tuple(model.wv.index_to_key), np.array(model.wv.vectors, np.float32))


def train_fasttext(
    sentences: np.ndarray | Iterable[Sequence[str]],
    dim: int,
    window: int,
    negative: int,
    epochs: int,
    seed: int,
    min_count: int = 1,
    min_n: int = 3,
    max_n: int = 6,
    buckets: int = 50_000,
    subsample: float = 1e-3,
) -> WordVectors:
    """Trains fastText (Bojanowski et al. 2017) by gensim: skip-gram with subwords.

    Deterministic, at the price that `train_skipgram` names.

    Args:
        sentences: as in `train_skipgram`, and so are the other arguments.
        dim: width of a vector.
        window: farthest context word.
        negative: words drawn against each context word.
        epochs: passes.
        seed: of initialisation and sampling.
        min_count: rarer words are not trained; subwords give them a vector.
        min_n: shortest n-gram, in characters.
        max_n: longest n-gram.
        buckets: vectors that the n-grams share; each is `dim` numbers in memory and on disk.
        subsample: share above which words are left out at times.

    Returns:
        As `train_skipgram`, with subwords.

    Raises:
        InputError: as `train_skipgram`, or n-grams longest shorter than shortest.
    """
    check_at_least_1(dim=dim, window=window, negative=negative, epochs=epochs, min_count=min_count)
    check_at_least_1(min_n=min_n, buckets=buckets)
    if max_n < min_n:
        raise InputError(
            f"max_n is {max_n}, min_n {min_n}", "The longest is at least the shortest."
        )
    model = _trained("FastText", sentences, min_count, epochs, seed, {
        "vector_size": dim, "window": window, "negative": negative, "sample": subsample,
        "min_n": min_n, "max_n": max_n, "bucket": buckets,
    })  # fmt: skip
    wv = model.wv
    subwords = Subwords(np.array(wv.vectors_ngrams, np.float32), min_n, max_n)
    return WordVectors(tuple(wv.index_to_key), np.array(wv.vectors, np.float32), subwords)


def save_vectors(vectors: WordVectors, path: Path | str) -> None:
    """Saves vectors as one safetensors file, whole or not at all; the folder is made if absent.

    The words are in it as JSON, in UTF-8.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    words = np.frombuffer(json.dumps(vectors.words).encode(), np.uint8)
    tensors = {"vectors": np.ascontiguousarray(vectors.vectors, np.float32), "words": words}
    settings = {"format": _FORMAT}
    if vectors.subwords is not None:
        tensors["ngrams"] = np.ascontiguousarray(vectors.subwords.vectors, np.float32)
        settings |= {"min_n": str(vectors.subwords.min_n), "max_n": str(vectors.subwords.max_n)}
    with whole_file(path) as partial:
        save_file(tensors, partial, settings)


def load_vectors(path: Path | str) -> WordVectors:
    """Loads what `save_vectors` saved.

    Raises:
        InputError: no such file, or one that holds something else.
    """
    if not Path(path).is_file():
        raise InputError(f"no {path}", "Check the path; train the vectors first.")
    try:
        with safe_open(path, "numpy") as file:
            settings = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if settings.get("format") != _FORMAT:
            raise ValueError(f"its format is {settings.get('format')!r}")
        words = json.loads(tensors["words"].tobytes())
        subwords = None
        if "ngrams" in tensors:
            sizes = int(settings["min_n"]), int(settings["max_n"])
            subwords = Subwords(tensors["ngrams"], *sizes)
        vectors = tensors["vectors"]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("its words are no list of texts")
        if not len(words) == len(set(words)) == len(vectors):
            raise ValueError(f"{len(set(words))} words for {len(vectors)} vectors")
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} holds no word vectors: {error}", "Give a file of save_vectors, whole."
        ) from error
    return WordVectors(tuple(words), vectors, subwords)


class _GensimSentences:
    """Sentences as gensim reads them, again in each epoch, in pieces that it does not cut."""

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self._sentences = sentences

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self._sentences:
            for start in range(0, len(sentence), _SENTENCE_WORDS):
                yield list(sentence[start : start + _SENTENCE_WORDS])


def _trained(
    kind: str,
    sentences: np.ndarray | Iterable[Sequence[str]],
    min_count: int,
    epochs: int,
    seed: int,
    settings: dict[str, Any],
) -> Any:
    """A trained model of gensim."""
    try:
        import gensim.models
    except ImportError as error:
        raise InputError(
            "word vectors need gensim, which is not installed",
            "pip install 'retrieval-jax[word2vec]'",
        ) from error
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}", "It must be from 0 to 2**32 - 1.")
    if isinstance(sentences, np.ndarray):
        sentences = LabelledWalks(sentences)
    counts = _count_words(sentences)
    frequent = {word: count for word, count in counts.items() if count >= min_count}
    if not frequent:
        raise InputError(
            f"no word occurs {min_count} times; there are {len(counts)} different words",
            "Give more text or a lower min_count.",
        )
    # gensim's own sort of equal counts differs between processors.
    frequent = dict(sorted(frequent.items(), key=lambda item: (-item[1], item[0])))
    corpus = _GensimSentences(sentences)
    # gensim starts vectors from the seed alone, so Python's hash does not matter.
    model = getattr(gensim.models, kind)(
        sg=1, workers=1, seed=seed, min_count=1, sorted_vocab=0, **settings
    )
    pieces = sum(1 for _ in corpus)
    model.build_vocab_from_freq(frequent, corpus_count=pieces)
    model.train(corpus, total_examples=pieces, epochs=epochs)
    return model


def _count_words(sentences: Iterable[Sequence[str]]) -> collections.Counter[str]:
    """Counts words; refuses what is no list of lists of words."""
    if isinstance(sentences, str) or iter(sentences) is sentences:
        raise InputError(
            f"sentences are a {type(sentences).__name__}",
            "Give a list of lists of words: they are read several times.",
        )
    counts: collections.Counter[str] = collections.Counter()
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            raise InputError(
                f"sentence {number} is one text: {sentence[:80]!r}", "Split it into words."
            )
        counts.update(sentence)
    for word in counts:
        try:
            usable = isinstance(word, str) and word.encode() is not None
        except UnicodeEncodeError:
            usable = False
        if not usable:
            first = next(n for n, sentence in enumerate(sentences) if word in sentence)
            raise InputError(f"sentence {first} has the word {word!a:.80}", "Give texts.")
    return counts
