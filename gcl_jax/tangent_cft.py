"""Tangent-CFT: vectors of formulas from fastText over tuples (Mansouri et al., ICTIR 2019).

A tuple is two nodes of a tree and the edges between them. Its "characters" are the nodes' types and
values and the edges, so that tuples of unknown symbols still get a vector from what they share with
known ones. A formula's vector is the mean of its tuples', and the sum of three models': layout
tree, operator tree, layout tree without values.
"""

import dataclasses
import itertools
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse

from gcl_jax.data import END_MARK, Forest, Formulas
from gcl_jax.formulas.trees import split_label
from gcl_jax.paths import tree_paths
from retrieval_jax.errors import InputError
from retrieval_jax.walks import WordVectors, load_vectors, save_vectors, train_fasttext

PARTS = ("slt", "opt", "slt_types")
"""The three models."""

# Characters that stand for tokens: beyond those of any text, without surrogates.
_KNOWN, _UNKNOWN, _UNKNOWN_CHARACTERS = 0x10000, 0xF0000, 0xFFFE
_EDGE = "\x00"


@dataclasses.dataclass(frozen=True)
class TangentCftConfig:
    """How the three models are trained; the defaults are the authors'.

    Attributes:
        path_length: edges of the longest path of a tuple (their "window").
        dim: width of a vector.
        window: farthest context tuple.
        negative: tuples drawn against each.
        epochs: passes.
        min_n: shortest run of tokens that has a vector.
        max_n: longest.
        min_count: rarer tuples are not trained themselves; their tokens give them a vector.
        buckets: vectors that the runs of tokens share.
        seed: of training.
    """

    path_length: int = 2
    dim: int = 300
    window: int = 5
    negative: int = 20
    epochs: int = 30
    min_n: int = 3
    max_n: int = 6
    min_count: int = 1
    buckets: int = 200_000
    seed: int = 0


class Sentences:
    """Formulas as sentences of tuples, each a word of token characters; can be read again.

    Attributes:
        words: the different tuples.
        word_ids: int32 `[tuples]`, formula by formula, in the order of the upper node.
        bounds: int64 `[formulas + 1]`.
    """

    def __init__(self, words: Sequence[str], word_ids: np.ndarray, bounds: np.ndarray) -> None:
        self.words = np.array(words, object)
        self.word_ids, self.bounds = word_ids, bounds

    def __iter__(self) -> Iterator[list[str]]:
        """Gives the words of each formula."""
        for start, end in itertools.pairwise(self.bounds.tolist()):
            yield self.words[self.word_ids[start:end]].tolist()

    def __len__(self) -> int:
        """The number of formulas."""
        return len(self.bounds) - 1


@dataclasses.dataclass(frozen=True)
class Alphabet:
    """Characters for tokens: types, values, edges.

    Attributes:
        tokens: known ones. Others get a character by their hash, the same every time.
    """

    tokens: tuple[str, ...]

    def characters(self, tokens: Sequence[str]) -> dict[str, str]:
        """The character of each of some tokens."""
        known = {token: chr(_KNOWN + place) for place, token in enumerate(self.tokens)}

        def unknown(token: str) -> str:
            return chr(_UNKNOWN + zlib.crc32(token.encode()) % _UNKNOWN_CHARACTERS)

        return {token: known.get(token) or unknown(token) for token in tokens}


def make_alphabet(forest: Forest) -> Alphabet:
    """An alphabet of all tokens of some trees.

    Raises:
        InputError: more tokens than there are characters for.
    """
    marked = forest.with_end_marks()
    tokens = tuple(dict.fromkeys(_tokens(marked)))
    if len(tokens) > _UNKNOWN - _KNOWN:
        raise InputError(f"{len(tokens)} different types, values and edges", "Give fewer formulas.")
    return Alphabet(tokens)


def tuple_sentences(forest: Forest, alphabet: Alphabet, path_length: int) -> Sentences:
    """The tuples of trees: paths, and a mark where something ends, which only its own node has."""
    marked = forest.with_end_marks()
    paths = tree_paths(marked, path_length)
    is_mark = np.array([label == END_MARK for label in marked.vocabulary])
    kept = (paths.lengths == 1) | ~is_mark[marked.labels[paths.nodes]]
    order = np.flatnonzero(kept)[np.lexsort((paths.nodes[kept], paths.tops[kept]))]
    _, first, word_ids = np.unique(paths.codes[order], return_index=True, return_inverse=True)
    characters = alphabet.characters(_tokens(marked))
    nodes = ["".join(map(characters.__getitem__, _node(label))) for label in marked.vocabulary]
    edges = [characters[_EDGE + edge] for edge in marked.edge_vocabulary]
    words = []
    for top, node in zip(
        paths.tops[order[first]].tolist(), paths.nodes[order[first]].tolist(), strict=True
    ):
        way = ""
        at = node
        while at != top:
            way = edges[marked.edges[at]] + way
            at = marked.global_parents[at]
        words.append(nodes[marked.labels[top]] + nodes[marked.labels[node]] + way)
    trees = marked.tree_ids[paths.tops[order]]
    bounds = np.searchsorted(trees, np.arange(len(marked) + 1))
    return Sentences(words, word_ids.astype(np.int32), bounds)


def _node(label: str) -> list[str]:
    """Type and value of a label, without what is empty."""
    return [token for token in split_label(label) if token]


def _tokens(forest: Forest) -> list[str]:
    nodes = [token for label in forest.vocabulary for token in _node(label)]
    return [*nodes, *(_EDGE + edge for edge in forest.edge_vocabulary)]


@dataclasses.dataclass(frozen=True)
class TupleModel:
    """One of the three models.

    Attributes:
        alphabet: characters of its tuples.
        path_length: edges of the longest path of a tuple.
        vectors: of tuples.
    """

    alphabet: Alphabet
    path_length: int
    vectors: WordVectors

    def encode(self, forest: Forest) -> np.ndarray:
        """The mean vector of each tree's tuples, `[trees, dim]` float32."""
        sentences = tuple_sentences(forest, self.alphabet, self.path_length)
        sizes = np.diff(sentences.bounds)
        shares = np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32)
        means = scipy.sparse.csr_array(
            (shares, sentences.word_ids, sentences.bounds),
            shape=(len(sentences), len(sentences.words)),
        )
        return means @ self.vectors.lookup(sentences.words.tolist())


@dataclasses.dataclass(frozen=True)
class TangentCft:
    """A trained Tangent-CFT.

    Attributes:
        parts: the models, by the names of `PARTS`.
    """

    parts: dict[str, TupleModel]

    def encode(self, formulas: Formulas) -> np.ndarray:
        """The vector of each formula, the sum of the three models', `[formulas, dim]` float32."""
        vectors = [self.parts[part].encode(_forest(formulas, part)) for part in PARTS]
        return np.sum(vectors, axis=0)

    def save(self, folder: Path) -> None:
        """Writes the models into a folder, which is made if absent."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, part in self.parts.items():
            save_vectors(part.vectors, folder / f"{name}.safetensors")
            described = {"tokens": part.alphabet.tokens, "path_length": part.path_length}
            (folder / f"{name}.json").write_text(json.dumps(described), encoding="utf-8")


def load_tangent_cft(folder: Path) -> TangentCft:
    """Reads what `TangentCft.save` wrote.

    Raises:
        InputError: a file is missing or holds something else.
    """
    parts = {}
    for name in PARTS:
        vectors = load_vectors(folder / f"{name}.safetensors")
        try:
            described = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            alphabet = Alphabet(tuple(map(str, described["tokens"])))
            parts[name] = TupleModel(alphabet, int(described["path_length"]), vectors)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{folder / name}.json describes no model: {error}", "Train it again."
            ) from error
    return TangentCft(parts)


def train_tangent_cft(formulas: Formulas, config: TangentCftConfig) -> TangentCft:
    """Trains the three models.

    Args:
        formulas: their trees.
        config: sizes and seed; the same give the same models.

    Raises:
        InputError: gensim is not installed, a setting is out of range, or nothing to train on.
    """
    return TangentCft({part: _train(_forest(formulas, part), config) for part in PARTS})


def _train(forest: Forest, config: TangentCftConfig) -> TupleModel:
    alphabet = make_alphabet(forest)
    sentences = tuple_sentences(forest, alphabet, config.path_length)
    settings = dataclasses.asdict(config)
    path_length = settings.pop("path_length")
    return TupleModel(alphabet, path_length, train_fasttext(sentences, **settings))


def _forest(formulas: Formulas, part: str) -> Forest:
    """The trees that a model reads."""
    if part == "opt":
        return formulas.opt
    return formulas.slt if part == "slt" else formulas.slt.relabel(lambda x: split_label(x)[0])
