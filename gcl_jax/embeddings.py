"""Features of nodes (section 2, token embedding generator): random walks, fastText over them.

A node's features are a vector of its type beside one of its value, 100 dimensions each in the
authors' code. Both come from the same walks; subwords give unknown symbols a vector.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gcl_jax.data import Forest
from gcl_jax.formulas.trees import split_label
from retrieval_jax.errors import check_at_least_1
from retrieval_jax.walks import (
    LabelledWalks,
    WordVectors,
    load_vectors,
    make_graph,
    random_walks,
    save_vectors,
    train_fasttext,
)

_FILES = ("types", "values")


@dataclasses.dataclass(frozen=True)
class NodeEmbeddingConfig:
    """How vectors of types and values are trained.

    Attributes:
        dim: width of either vector (authors' code: 100).
        walks_per_node: walks that begin at each node (ours).
        walk_length: nodes of a walk (ours).
        window: farthest context node of fastText (ours).
        negative: nodes drawn against each (ours).
        epochs: passes over the walks (ours).
        min_n: shortest run of characters that has a vector (fastText's default).
        max_n: longest (fastText's default).
        buckets: vectors that runs of characters share (ours).
        seed: of walks and training.
    """

    dim: int = 100
    walks_per_node: int = 2
    walk_length: int = 10
    window: int = 3
    negative: int = 5
    epochs: int = 3
    min_n: int = 3
    max_n: int = 6
    buckets: int = 20_000
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class NodeEmbeddings:
    """Vectors of types and of values.

    Attributes:
        types: `V!`, `N!`, `=`.
        values: `x`, `3`; of a label without one, such as `=`, the label.
    """

    types: WordVectors
    values: WordVectors

    def encode(self, labels: Sequence[str]) -> np.ndarray:
        """Features of labels, `[labels, 2 dim]` float32: type, then value.

        Gather from the features of a vocabulary rather than encode every node.
        """
        types, values = zip(*map(label_words, labels), strict=True) if labels else ((), ())
        return np.concatenate([self.types.lookup(types), self.values.lookup(values)], axis=1)

    def save(self, folder: Path) -> None:
        """Writes the vectors as two safetensors files into a folder, made if absent."""
        for name, vectors in zip(_FILES, (self.types, self.values), strict=True):
            save_vectors(vectors, folder / f"{name}.safetensors")


def load_node_embeddings(folder: Path) -> NodeEmbeddings:
    """Reads what `NodeEmbeddings.save` wrote.

    Raises:
        InputError: a file is missing or holds something else.
    """
    return NodeEmbeddings(*(load_vectors(folder / f"{name}.safetensors") for name in _FILES))


def train_node_embeddings(forest: Forest, config: NodeEmbeddingConfig) -> NodeEmbeddings:
    """Trains the vectors on walks over all trees at once.

    Args:
        forest: the trees; layout and operator trees have vectors of their own.
        config: sizes and seed; the same give the same vectors.

    Raises:
        InputError: no tree, gensim is not installed, or a setting is out of range.
    """
    check_at_least_1(walks_per_node=config.walks_per_node)
    walks = walk_trees(forest, config.walks_per_node, config.walk_length, config.seed)
    settings = {
        name: getattr(config, name)
        for name in ("dim", "window", "negative", "epochs", "seed", "min_n", "max_n", "buckets")
    }
    words = [label_words(label) for label in forest.vocabulary]
    of_nodes = forest.labels.tolist()
    return NodeEmbeddings(
        *(
            train_fasttext(LabelledWalks(walks, [words[i][part] for i in of_nodes]), **settings)
            for part in range(2)
        )
    )


def walk_trees(forest: Forest, walks_per_node: int, length: int, seed: int) -> np.ndarray:
    """Random walks that begin at each node, int32 `[walks_per_node * nodes, length]`.

    They go up and down the edges of a tree, and end after one node in a tree of one; -1 follows.
    """
    children = np.flatnonzero(forest.global_parents >= 0)
    edges = np.stack([forest.global_parents[children], children], axis=1)
    graph = make_graph(edges, len(forest.labels))
    starts = np.tile(np.arange(graph.num_nodes), walks_per_node)
    rng = np.random.default_rng(seed)
    return random_walks(graph, rng.permutation(starts), length, seed)


def label_words(label: str) -> tuple[str, str]:
    """The words for the type and the value of a label."""
    kind, value = split_label(label)
    return kind, value or label
