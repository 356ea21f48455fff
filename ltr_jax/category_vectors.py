"""Vectors of categories: random walks over their graph, then skip-gram (DeepWalk; section 2.2)."""

import dataclasses
import json
import logging
from pathlib import Path

import numpy as np

from ltr_jax.datasets.collection import Collection
from ltr_jax.word_vectors import TrainedVectors, kept_vectors
from retrieval_jax.errors import InputError
from retrieval_jax.walks import make_graph, random_walks
from retrieval_jax.word_vectors import LabelledWalks, WordVectors, train_skipgram

_SHOWN = 5
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class CategoryVectorConfig:
    """How category vectors are trained; width, length and number of walks are published.

    Attributes:
        dim: width of a vector.
        walk_length: categories of a walk.
        walks: that begin at each category; one is enough for the graphs of Wikipedia, of hundreds
            of thousands of categories, and few for a small one.
        window: farthest context category.
        negative: categories drawn against each context category.
        epochs: passes over the walks.
        seed: of walks and training.
    """

    dim: int = 30
    walk_length: int = 40
    walks: int = 1
    window: int = 5
    negative: int = 5
    epochs: int = 5
    seed: int = 0


def train_category_vectors(
    collection: Collection, config: CategoryVectorConfig, folder: Path
) -> TrainedVectors:
    """Trains the vectors of a collection's category graph, or finds what was trained.

    Edges are walked both ways, all with the same probability. The graph may have cycles and several
    parts. Categories of texts that are not in it have no vector; they are logged.

    Args:
        collection: with a category graph.
        config: how.
        folder: where vectors are kept by what they were trained on.

    Raises:
        InputError: the graph has no edge, or gensim is not installed.
    """
    if not collection.category_edges:
        raise InputError(
            f"{collection.name} has no category graph.",
            "Give its source's categories, or train a model of text alone.",
        )
    absent = absent_categories(collection)
    if absent:
        shown = ", ".join(absent[:_SHOWN])
        _log.warning(
            "%d categories of texts are not in the graph and have no vector: %s%s",
            len(absent),
            shown,
            " ..." if len(absent) > _SHOWN else "",
        )

    def train() -> WordVectors:
        return deepwalk(collection.category_edges, config)

    edges = json.dumps(collection.category_edges)
    return kept_vectors(["categories", repr(config), edges], train, folder)


def deepwalk(edges: tuple[tuple[str, str], ...], config: CategoryVectorConfig) -> WordVectors:
    """Trains vectors of a graph's nodes.

    Args:
        edges: undirected.
        config: how.
    """
    names = sorted({name for edge in edges for name in edge})
    number = {name: i for i, name in enumerate(names)}
    graph = make_graph(np.array([[number[a], number[b]] for a, b in edges], np.int64), len(names))
    rng = np.random.default_rng(config.seed)
    starts = np.concatenate([rng.permutation(len(names)) for _ in range(config.walks)])
    walks = random_walks(graph, starts, config.walk_length, config.seed)
    return train_skipgram(
        LabelledWalks(walks, names),
        dim=config.dim,
        window=config.window,
        negative=config.negative,
        epochs=config.epochs,
        seed=config.seed,
        subsample=0.0,
    )


def absent_categories(collection: Collection) -> tuple[str, ...]:
    """Categories of queries or documents that the category graph lacks, sorted."""
    nodes = {name for edge in collection.category_edges for name in edge}
    sides = (collection.queries, collection.documents)
    used = {name for side in sides for names in side.categories for name in names}
    return tuple(sorted(used - nodes))
