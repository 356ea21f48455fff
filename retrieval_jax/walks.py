"""Random walks over a graph, all at once; walks are sentences for `retrieval_jax.word_vectors`.

DeepWalk (Perozzi et al. 2014) is skip-gram over the nodes of walks; over their labels it gives
vectors of symbols. The names of `word_vectors` are here too.
"""

import dataclasses

import numpy as np

from retrieval_jax.errors import InputError
from retrieval_jax.word_vectors import (
    LabelledWalks,
    Subwords,
    WordVectors,
    load_vectors,
    save_vectors,
    train_fasttext,
    train_skipgram,
)

__all__ = [
    "Graph",
    "LabelledWalks",
    "Subwords",
    "WordVectors",
    "load_vectors",
    "make_graph",
    "random_walks",
    "save_vectors",
    "train_fasttext",
    "train_skipgram",
]

# Walks that advance together: their arrays stay in the processor's cache.
_WALKS_AT_ONCE = 16_384


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """A graph in compressed sparse rows: node i's neighbours are `neighbours[o[i]:o[i + 1]]`.

    A forest of many small trees is one graph.

    Attributes:
        offsets: `[nodes + 1]` int64, from 0, never falling.
        neighbours: `[arcs]` int32 node numbers; one named twice is twice as likely.

    Raises:
        InputError: no node, offsets that fall or do not span `neighbours`, or a neighbour that is
            no node.
    """

    offsets: np.ndarray
    neighbours: np.ndarray

    def __post_init__(self) -> None:
        """Checks the graph."""
        offsets = _integers("offsets", self.offsets, 1).astype(np.int64)
        if len(offsets) < 2:
            raise InputError("the graph has no nodes", "Give one or more nodes.")
        falls = np.flatnonzero(np.diff(offsets) < 0)
        if len(falls):
            raise InputError(
                f"offsets fall after place {falls[0]}: {offsets[falls[0]]}, "
                f"{offsets[falls[0] + 1]}",
                "Each must be at least the one before; make_graph makes them from edges.",
            )
        if offsets[0] != 0 or offsets[-1] != len(self.neighbours):
            raise InputError(
                f"offsets go from {offsets[0]} to {offsets[-1]}, neighbours from 0 to "
                f"{len(self.neighbours)}",
                "The first must be 0, the last the number of neighbours.",
            )
        neighbours = _nodes("neighbours", self.neighbours, len(offsets) - 1)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "neighbours", neighbours)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.offsets) - 1


def make_graph(edges: np.ndarray, num_nodes: int, directed: bool = False) -> Graph:
    """Makes a graph from its edges.

    Args:
        edges: `[edges, 2]` integers, source and target; a repeated edge counts as often.
        num_nodes: nodes are 0 to this - 1; one without an edge is fine.
        directed: walks follow edges from source to target only; else both ways (an edge from a
            node to itself is one way in either case).

    Returns:
        The graph; a node's neighbours in the order of the edges, those over reversed edges last.

    Raises:
        InputError: no node, or an edge that is no pair of nodes, named by its row.
    """
    edges = np.asarray(edges)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise InputError(f"edges have shape {edges.shape}", "Their shape must be [edges, 2].")
    if num_nodes < 1:
        raise InputError("the graph has no nodes", "Give one or more nodes.")
    edges = _nodes("edges", edges, num_nodes)
    if not directed:
        edges = np.concatenate([edges, edges[edges[:, 0] != edges[:, 1]][:, ::-1]])
    order = np.argsort(edges[:, 0], kind="stable")
    degrees = np.bincount(edges[:, 0], minlength=num_nodes)
    return Graph(np.concatenate([[0], np.cumsum(degrees)]), edges[order, 1])


def random_walks(graph: Graph, starts: np.ndarray, length: int, seed: int) -> np.ndarray:
    """Walks at random, each step to any neighbour with the same probability.

    Args:
        graph: where to walk.
        starts: `[walks]` the node at which each begins; for DeepWalk every node several times, in
            random order.
        length: nodes of a walk, the first included.
        seed: the same graph, starts and seed give the same walks.

    Returns:
        `[walks, length]` int32 nodes; -1 after a node without neighbours, where a walk ends.

    Raises:
        InputError: no start, a start that is no node, or a length below 1.
    """
    if length < 1:
        raise InputError(f"length is {length}", "A walk has 1 node or more.")
    starts = _nodes("starts", _integers("starts", starts, 1), graph.num_nodes)
    if not len(starts):
        raise InputError("there is no node to start from", "Give one or more starts.")
    rng = np.random.default_rng(seed)
    degrees = np.diff(graph.offsets)
    walks = np.empty((len(starts), length), np.int32)
    for first in range(0, len(starts), _WALKS_AT_ONCE):
        block = walks[first : first + _WALKS_AT_ONCE]
        block[:] = _walk_block(graph, degrees, starts[first : first + _WALKS_AT_ONCE], length, rng)
    return walks


def _walk_block(
    graph: Graph, degrees: np.ndarray, starts: np.ndarray, length: int, rng: np.random.Generator
) -> np.ndarray:
    """One step of all walks at a time, `[walks, length]`."""
    steps = np.full((length, len(starts)), -1, np.int32)
    steps[0] = nodes = starts
    walking = np.arange(len(starts))
    for step in steps[1:]:
        degree = degrees[nodes]
        if not degree.all():
            walking, nodes, degree = (of[degree > 0] for of in (walking, nodes, degree))
        choice = (rng.random(len(nodes)) * degree).astype(np.int64)
        nodes = graph.neighbours[graph.offsets[nodes] + choice]
        step[walking] = nodes
    return steps.T


def _integers(name: str, values: np.ndarray, dimensions: int) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != dimensions:
        raise InputError(f"{name} have shape {values.shape}", f"They have {dimensions} dimension.")
    if values.size and not np.issubdtype(values.dtype, np.integer):
        raise InputError(f"{name} are {values.dtype}", "They must be integers.")
    return values


def _nodes(name: str, values: np.ndarray, num_nodes: int) -> np.ndarray:
    """The values as int32 once each is known to be a node."""
    values = _integers(name, values, np.ndim(values))
    wrong = np.argwhere((values < 0) | (values >= num_nodes))
    if len(wrong):
        row = wrong[0, 0]
        raise InputError(
            f"{name}, row {row}: {values[row]} in a graph of {num_nodes} nodes",
            f"Nodes are 0 to {num_nodes - 1}.",
        )
    return values.astype(np.int32)
