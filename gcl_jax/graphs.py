"""Formula trees as padded graph batches, and the messages between their nodes.

The only file that knows jraph. Two properties of trees make batches fast. A node has one parent, so
what comes from the parent is a gather and an edge needs no row of its own: it is stored at its
child. And nodes stand level by level, so the parents of a batch are sorted and what comes from the
children is a sum over sorted segments.
"""

import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from flax import struct

from gcl_jax.data import Forest, TreeRows
from gcl_jax.formulas.trees import split_label
from retrieval_jax.errors import InputError

PADDING, MASK, UNKNOWN = 0, 1, 2
"""Ids without a symbol: of filler nodes and absent edges, of masked ones, of unknown ones."""

RESERVED = ("", "<mask>", "<unknown>")

UNKNOWN_LABELS = 1024
"""Ids behind a vocabulary's labels that unknown ones share, by their hash: two formulas with the
same unknown label have something in common, two with different ones nearly never."""


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """What nodes and edges are called; an id is an index, the first three are `RESERVED`.

    Attributes:
        types: `V!`, `N!`, `=`.
        labels: `V!x`, `N!3`, `=`.
        edges: of both layouts.
    """

    types: tuple[str, ...]
    labels: tuple[str, ...]
    edges: tuple[str, ...]

    @property
    def label_ids(self) -> int:
        """How many ids of labels there are, those of unknown ones included."""
        return len(self.labels) + UNKNOWN_LABELS

    def label_types(self) -> np.ndarray:
        """The id of each label's type, int32 `[labels]`."""
        ids = {name: index for index, name in enumerate(self.types)}
        real = [ids[split_label(label)[0]] for label in self.labels[len(RESERVED) :]]
        return np.array([*range(len(RESERVED)), *real], np.int32)


def make_vocabulary(forests: Sequence[Forest], min_count: int = 1) -> Vocabulary:
    """The symbols of forests, the most frequent first.

    Args:
        forests: of one layout or both.
        min_count: labels that occur less often are unknown; their types are known.
    """
    counts: dict[str, int] = {}
    for forest in forests:
        of_forest = np.bincount(forest.labels, minlength=len(forest.vocabulary))
        for label, count in zip(forest.vocabulary, of_forest.tolist(), strict=True):
            counts[label] = counts.get(label, 0) + count
    present = sorted((label for label, n in counts.items() if n), key=lambda x: (-counts[x], x))
    types = dict.fromkeys(split_label(label)[0] for label in present)
    edges = sorted({edge for forest in forests for edge in forest.edge_vocabulary} - {""})
    kept = [label for label in present if counts[label] >= min_count]
    return Vocabulary((*RESERVED, *types), (*RESERVED, *kept), (*RESERVED, *edges))


@dataclasses.dataclass(frozen=True, eq=False)
class GraphTable(TreeRows):
    """Trees as ids, one after another, the nodes of each level by level.

    Attributes:
        types: int32 `[nodes]`.
        labels: int32 `[nodes]`.
        edges: int32 `[nodes]`, of the edge from the parent; `PADDING` for a root.
        parents: int32 `[nodes]`, places within the tree; a root is its own parent.
        subtree_sizes: int32 `[nodes]`, nodes at and below each.
        bounds: int64 `[trees + 1]`; tree i has the nodes `bounds[i]` to `bounds[i + 1]`.
    """

    types: np.ndarray
    labels: np.ndarray
    edges: np.ndarray
    parents: np.ndarray
    subtree_sizes: np.ndarray
    bounds: np.ndarray

    def subset(self, trees: np.ndarray) -> "GraphTable":
        """Some trees, in this order."""
        nodes, bounds = self.rows(trees)
        columns = {name: getattr(self, name)[nodes] for name in NODE_COLUMNS}
        return GraphTable(**columns, bounds=bounds)


NODE_COLUMNS = ("types", "labels", "edges", "parents", "subtree_sizes")


def index_forest(forest: Forest, vocabulary: Vocabulary) -> GraphTable:
    """Looks the symbols of a forest up and puts its nodes in the order of levels."""
    label_ids = {name: index for index, name in enumerate(vocabulary.labels)}
    type_ids = {name: index for index, name in enumerate(vocabulary.types)}
    edge_ids = {name: index for index, name in enumerate(vocabulary.edges)} | {"": PADDING}
    new_labels = [
        label_ids.get(label, len(label_ids) + zlib.crc32(label.encode()) % UNKNOWN_LABELS)
        for label in forest.vocabulary
    ]
    new_types = [type_ids.get(split_label(label)[0], UNKNOWN) for label in forest.vocabulary]
    new_edges = [edge_ids.get(edge, UNKNOWN) for edge in forest.edge_vocabulary]

    parents = np.asarray(forest.global_parents)
    levels = _levels(parents)
    # Within a level nodes follow the order of their parents.
    rank = np.zeros(len(parents), np.int64)
    rank[levels[0]] = np.arange(len(levels[0]))
    depths = np.zeros(len(parents), np.int64)
    for depth, level in enumerate(levels[1:], 1):
        level = level[np.lexsort((level, rank[parents[level]]))]
        rank[level] = np.arange(len(level))
        depths[level] = depth
    subtree_sizes = np.ones(len(parents), np.int64)
    for level in reversed(levels[1:]):
        np.add.at(subtree_sizes, parents[level], subtree_sizes[level])

    order = np.lexsort((rank, depths, forest.tree_ids))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    starts = np.asarray(forest.bounds)[forest.tree_ids]
    new_parents = np.where(parents < 0, places, places[parents]) - starts
    return GraphTable(
        types=np.array(new_types, np.int32)[forest.labels[order]],
        labels=np.array(new_labels, np.int32)[forest.labels[order]],
        edges=np.array(new_edges, np.int32)[forest.edges[order]],
        parents=new_parents[order].astype(np.int32),
        subtree_sizes=subtree_sizes[order].astype(np.int32),
        bounds=np.asarray(forest.bounds),
    )


def _levels(parents: np.ndarray) -> list[np.ndarray]:
    """Indices of the roots, of their children, and so on."""
    depths, ancestors = np.zeros(len(parents), np.int64), parents.copy()
    below = np.flatnonzero(ancestors >= 0)
    while len(below):
        depths[below] += 1
        ancestors[below] = parents[ancestors[below]]
        below = below[ancestors[below] >= 0]
    order = np.argsort(depths, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depths))[:-1])


def equal_ids(tables: Sequence[GraphTable]) -> np.ndarray:
    """Numbers formulas so that those of equal trees, in all layouts, have equal numbers.

    Args:
        tables: of one layout each, aligned.

    Returns:
        int32 `[trees]`, counted from 0 in the order of first occurrence.
    """
    numbers: dict[bytes, int] = {}
    ids = np.empty(len(tables[0]), np.int32)
    columns = [np.stack([t.types, t.labels, t.edges, t.parents], axis=1) for t in tables]
    bounds = [table.bounds.tolist() for table in tables]
    for tree in range(len(ids)):
        key = b"".join(
            rows[b[tree] : b[tree + 1]].tobytes() for rows, b in zip(columns, bounds, strict=True)
        )
        ids[tree] = numbers.setdefault(key, len(numbers))
    return ids


class Graphs(struct.PyTreeNode):
    """Graphs of one batch, one after another, and filler nodes behind them.

    Attributes:
        types: int32 `[nodes]`.
        labels: int32 `[nodes]`.
        edges: int32 `[nodes]`, of the edge from the parent; `PADDING` where there is none.
        parents: int32 `[nodes]`, sorted; roots and fillers are their own.
        subtree_sizes: int32 `[nodes]`, before anything was dropped.
        graphs: int32 `[nodes]`, sorted; `num_graphs` for fillers.
        alive: bool `[nodes]`, False for fillers and dropped nodes.
        num_graphs: how many.
    """

    types: jax.Array
    labels: jax.Array
    edges: jax.Array
    parents: jax.Array
    subtree_sizes: jax.Array
    graphs: jax.Array
    alive: jax.Array
    num_graphs: int = struct.field(pytree_node=False)

    @property
    def has_edge(self) -> jax.Array:
        """bool `[nodes]`, whether a node hangs on its parent: neither end nor edge is dropped."""
        return (self.edges != PADDING) & self.alive & self.alive[self.parents]

    @property
    def is_root(self) -> jax.Array:
        """bool `[nodes]`, fillers included."""
        return self.parents == jnp.arange(len(self.parents))


def make_graphs(columns: dict[str, jax.Array], num_graphs: int) -> Graphs:
    """The graphs of what `pack` gave, of one chunk (`[nodes]` each)."""
    return Graphs(**columns, alive=columns["graphs"] < num_graphs, num_graphs=num_graphs)


def pack(table: GraphTable, trees: np.ndarray, num_nodes: int) -> dict[str, np.ndarray]:
    """Lays trees one after another, chunk by chunk, filled up to `num_nodes`.

    Args:
        table: where the trees are.
        trees: int `[chunks, graphs]`.
        num_nodes: of a chunk.

    Returns:
        `NODE_COLUMNS` and `graphs`, int32 `[chunks, num_nodes]`.
    """
    chunks, num_graphs = trees.shape
    columns = {name: np.zeros((chunks, num_nodes), np.int32) for name in NODE_COLUMNS}
    columns["parents"][:] = np.arange(num_nodes)
    columns["graphs"] = np.full((chunks, num_nodes), num_graphs, np.int32)
    for chunk, of_chunk in enumerate(trees):
        nodes, bounds = table.rows(of_chunk)
        sizes, total = np.diff(bounds), len(nodes)
        for name in NODE_COLUMNS:
            columns[name][chunk, :total] = getattr(table, name)[nodes]
        columns["parents"][chunk, :total] += np.repeat(bounds[:-1], sizes).astype(np.int32)
        columns["graphs"][chunk, :total] = np.repeat(np.arange(num_graphs), sizes)
    return columns


class PaddingBudget(NamedTuple):
    """The numbers of node slots that batches may have; few, so that few programs are compiled.

    Attributes:
        sizes: ascending.
    """

    sizes: tuple[int, ...]

    def fit(self, nodes: int) -> int:
        """The least size that holds so many nodes; beyond the largest on a grid of 5 %."""
        size = next((size for size in self.sizes if size >= nodes), self.sizes[-1])
        while size < nodes:
            size = _slots(size * 1.05)
        return size

    def waste(self, nodes: Sequence[int]) -> float:
        """The share of node slots that batches of so many nodes leave empty."""
        return 1 - sum(nodes) / sum(map(self.fit, nodes))


def estimate_budget(
    nodes: Sequence[int], max_sizes: int = 4, allowed_waste: float = 0.02
) -> PaddingBudget:
    """As few sizes as waste little of a sample of batches, each where it wastes least.

    Args:
        nodes: of each batch of the sample.
        max_sizes: how many sizes at most: programs are compiled for each.
        allowed_waste: share of empty slots with which no further size is added.

    Raises:
        InputError: an empty sample.
    """
    if not nodes:
        raise InputError("no batch to estimate a padding budget from", "Give one or more.")
    wanted = np.sort([_slots(size) for size in nodes])
    ends = np.flatnonzero(np.append(np.diff(wanted) > 0, True)) + 1  # counts up to each size
    sizes = wanted[ends - 1]
    # cost[j]: slots for the batches up to size j by the sizes chosen so far, the last being j.
    cost, choices, total = sizes * ends, [], sum(nodes)
    while len(choices) < min(max_sizes, len(sizes)) - 1 and cost[-1] * (1 - allowed_waste) > total:
        # [i, j]: a size i before the last one j.
        through = cost[:, None] + sizes[None, :] * (ends[None, :] - ends[:, None])
        i, j = np.indices(through.shape)
        through = np.where(i < j, through, np.where(i == j, cost, np.inf))
        choices.append(through.argmin(axis=0))
        cost = through.min(axis=0)
    chosen = [len(sizes) - 1]
    for choice in reversed(choices):
        chosen.append(int(choice[chosen[-1]]))
    return PaddingBudget(tuple(int(sizes[index]) for index in sorted(set(chosen))))


def _slots(nodes: float) -> int:
    """Rounds up to what vector units like."""
    return -(-int(np.ceil(nodes)) // 8) * 8


def from_parents(states: jax.Array, graphs: Graphs) -> jax.Array:
    """What each node's parent sends it, `[nodes, dim]`; 0 without an edge."""
    return jnp.where(graphs.has_edge[:, None], states[graphs.parents], 0.0)


def from_children(states: jax.Array, graphs: Graphs) -> jax.Array:
    """The sum of what each node's children send it, `[nodes, dim]`."""
    sent = jnp.where(graphs.has_edge[:, None], states, 0.0)
    return jraph.segment_sum(sent, graphs.parents, len(sent), indices_are_sorted=True)


def sum_by_graph(states: jax.Array, graphs: Graphs) -> jax.Array:
    """Sums `[nodes, dim]` over the living nodes of each graph, `[num_graphs, dim]`."""
    present = jnp.where(graphs.alive[:, None], states, 0.0)
    sums = jraph.segment_sum(present, graphs.graphs, graphs.num_graphs + 1, indices_are_sorted=True)
    return sums[:-1]


def softmax_by_graph(logits: jax.Array, graphs: Graphs) -> jax.Array:
    """Softmax of `[nodes]` over the living nodes of each graph."""
    alive = jnp.where(graphs.alive, logits, -1e9)
    size = graphs.num_graphs + 1
    weights: Any = jraph.segment_softmax(alive, graphs.graphs, size, True)
    return jnp.where(graphs.alive, weights, 0.0)
