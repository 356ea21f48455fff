"""Formula trees: one immutable type for symbol layout trees (SLT) and operator trees (OPT).

Labels and edges are those of the Tangent family (Davila and Zanibbi, 2017; Mansouri et al., 2019).
A label is a type and a value: `V!x` a variable, `N!3` a number, `O!divide` a fraction, `U!eq` an
operator whose operands have no order. A sign of a layout tree has no type: `=`.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from gcl_jax.formulas import pictures
from retrieval_jax.errors import InputError

Layout: TypeAlias = Literal["slt", "opt"]
"""Symbol layout tree (how it is written) or operator tree (what it computes)."""

TYPES = frozenset(f"{letter}!" for letter in "VNTOMWEUFC+-$0")
"""Types that stand before a value; `?`, a wildcard, stands before its name."""

SLT_EDGES = "cdwouabne"
"""Edges of a layout tree, in the order of children: pre-above c, pre-below d, within w, over o,
under u, above a, below b, next n, element e. A node has at most one child for each."""

OPT_EDGES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""Edges of an operator tree: the child's number. From the 63rd child on the number in digits."""


class Edge(NamedTuple):
    """An edge with the labels of both ends.

    Attributes:
        parent: label of the parent.
        child: label of the child.
        edge: label of the edge.
    """

    parent: str
    child: str
    edge: str


Nested: TypeAlias = tuple[str, tuple[tuple[str, Any], ...]]
"""Canonical form: (label, ((edge label, subtree), ...))."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """A formula as a tree. Equal trees have equal layout, labels and edges.

    The constructor trusts its caller; `make_tree` checks.

    Attributes:
        layout: `slt` or `opt`.
        labels: label of each node, in pre-order; node 0 is the root.
        parents: parent of each node, -1 for the root. A parent stands before its children.
        edge_labels: label of the edge from the parent, "" for the root.
    """

    layout: Layout
    labels: tuple[str, ...]
    parents: tuple[int, ...]
    edge_labels: tuple[str, ...]

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges, in the order of their children."""
        labels = self.labels
        return tuple(
            Edge(labels[parent], child, edge)
            for parent, child, edge in zip(
                self.parents[1:], labels[1:], self.edge_labels[1:], strict=True
            )
        )

    @property
    def depth(self) -> int:
        """Edges from the root to the farthest node."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return max(depths)

    @property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Node numbers of the children of each node."""
        children: list[list[int]] = [[] for _ in self.labels]
        for node, parent in enumerate(self.parents[1:], 1):
            children[parent].append(node)
        return tuple(map(tuple, children))

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.labels)

    def to_nested(self) -> Nested:
        """Canonical form: nested tuples `(label, ((edge label, subtree), ...))`."""
        children: list[list[tuple[str, Nested]]] = [[] for _ in self.labels]
        for node in range(len(self.labels) - 1, 0, -1):
            subtree = (self.labels[node], tuple(reversed(children[node])))
            children[self.parents[node]].append((self.edge_labels[node], subtree))
        return self.labels[0], tuple(reversed(children[0]))

    @classmethod
    def from_nested(cls, layout: Layout, nested: Nested) -> "Tree":
        """The tree of a canonical form.

        Raises:
            InputError: see `make_tree`, or `nested` has another form.
        """
        labels: list[str] = []
        parents: list[int] = []
        edge_labels: list[str] = []
        stack: list[tuple[str, Any, int]] = [("", nested, -1)]
        try:
            while stack:
                edge, (label, children), parent = stack.pop()
                node = len(labels)
                labels.append(label)
                parents.append(parent)
                edge_labels.append(edge)
                stack.extend((edge, child, node) for edge, child in reversed(children))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"node {len(labels)} of a nested tree: {error}",
                "Give (label, ((edge label, subtree), ...)), as Tree.to_nested does.",
            ) from error
        return make_tree(layout, labels, parents, edge_labels)

    def __str__(self) -> str:
        """The tree as indented text, a node a line, its edge before it."""
        return pictures.to_text(self)

    def to_graphviz(self) -> str:
        """The tree in Graphviz's DOT language."""
        return pictures.to_graphviz(self)

    def to_svg(self) -> str:
        """The tree as an SVG picture."""
        return pictures.to_svg(self)


def split_label(label: str) -> tuple[str, str]:
    """Type and value of a label: `V!x` -> (`V!`, `x`), `?a` -> (`?`, `a`), `=` -> (`=`, ``)."""
    if label[:2] in TYPES:
        return label[:2], label[2:]
    if label[:1] == "?":
        return "?", label[1:]
    return label, ""


def opt_edge(index: int) -> str:
    """Label of the edge to child number `index`, counted from 0."""
    return OPT_EDGES[index] if index < len(OPT_EDGES) else str(index)


def make_tree(
    layout: Layout, labels: Sequence[str], parents: Sequence[int], edge_labels: Sequence[str]
) -> Tree:
    """A checked tree.

    Args:
        layout: `slt` or `opt`.
        labels: label of each node, in pre-order.
        parents: parent of each node, -1 for the root.
        edge_labels: label of the edge from the parent, "" for the root.

    Raises:
        InputError: no node, lengths that differ, not in pre-order, or a label that is not text.
    """
    if layout not in ("slt", "opt"):
        raise _tree_error(f"layout {layout!r}")
    if not labels or not len(labels) == len(parents) == len(edge_labels):
        raise _tree_error(
            f"{len(labels)} labels, {len(parents)} parents, {len(edge_labels)} edge labels"
        )
    if parents[0] != -1 or edge_labels[0] != "":
        raise _tree_error(f"node 0 has parent {parents[0]!r} and edge {edge_labels[0]!r}")
    path = [0]
    for node, (label, parent, edge) in enumerate(zip(labels, parents, edge_labels, strict=True)):
        if not isinstance(label, str) or not label:
            raise _tree_error(f"node {node} has the label {label!r}")
        if node == 0:
            continue
        while path and path[-1] != parent:
            path.pop()
        if not path:
            raise _tree_error(f"node {node} stands too far from its parent {parent!r}")
        if not isinstance(edge, str) or not edge:
            raise _tree_error(f"node {node} has the edge {edge!r}")
        path.append(node)
    return Tree(layout, tuple(labels), tuple(map(int, parents)), tuple(edge_labels))


def tree_from_edges(
    layout: Layout, labels: Sequence[str], edges: Iterable[tuple[int, int, str]]
) -> Tree:
    """The tree of an edge list in any order; children are put in the order of their edges.

    Args:
        layout: `slt` or `opt`.
        labels: label of each node, numbered in any way.
        edges: (parent, child, label of the edge).

    Raises:
        InputError: the edges do not make one tree of all nodes.
    """
    children: list[list[tuple[int, str]]] = [[] for _ in labels]
    is_child = [False] * len(labels)
    for parent, child, edge in edges:
        if not (0 <= parent < len(labels) and 0 <= child < len(labels)) or is_child[child]:
            raise _tree_error(f"edge {parent} -> {child} among {len(labels)} nodes")
        is_child[child] = True
        children[parent].append((child, edge))
    if is_child.count(False) != 1:
        raise _tree_error(f"{is_child.count(False)} roots")
    names = SLT_EDGES if layout == "slt" else OPT_EDGES
    rank = {name: place for place, name in enumerate(names)}
    order: list[int] = []
    parents: list[int] = []
    edge_labels: list[str] = []
    stack = [(is_child.index(False), -1, "")]
    while stack:
        node, parent, edge = stack.pop()
        parents.append(parent)
        edge_labels.append(edge)
        ranked = sorted(children[node], key=lambda pair: (rank.get(pair[1], len(rank)), pair[1]))
        stack.extend((child, len(order), edge) for child, edge in reversed(ranked))
        order.append(node)
    if len(order) != len(labels):
        raise _tree_error(f"a cycle: {len(labels) - len(order)} nodes have no way to the root")
    return make_tree(layout, [labels[node] for node in order], parents, edge_labels)


def _tree_error(problem: str) -> InputError:
    return InputError(
        f"not a tree: {problem}",
        "Nodes stand in pre-order, each with a label and an edge from its parent; the root has "
        'parent -1 and edge "".',
    )
