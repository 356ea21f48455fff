"""Random trees, and overlaps counted one by one."""

import random
from collections import Counter

from gcl_jax.data import END_MARK
from gcl_jax.formulas.trees import Layout, Tree, opt_edge, split_label, tree_from_edges

LABELS = ("V!x", "V!y", "N!1", "=", "O!divide", "U!plus")


def random_tree(rng: random.Random, layout: Layout, size: int) -> Tree:
    """A tree of so many nodes with few different labels."""
    labels = [rng.choice(LABELS) for _ in range(size)]
    edges: list[tuple[int, int, str]] = []
    free = {0: list("nabou")}
    for node in range(1, size):
        parent = rng.choice([n for n, names in free.items() if names])
        if layout == "opt":
            edge = opt_edge(sum(1 for a, _, _ in edges if a == parent))
        else:
            edge = free[parent].pop(rng.randrange(len(free[parent])))
        edges.append((parent, node, edge))
        free[node] = list("nabou")
    return tree_from_edges(layout, labels, edges)


def paths(tree: Tree, length: int, types_only: bool, end_marks: bool) -> Counter:
    """The multiset of (ancestor, descendant, edges between) up to a length."""
    labels, parents, edges = list(tree.labels), list(tree.parents), list(tree.edge_labels)
    if end_marks:
        mark = "n" if tree.layout == "slt" else "0"
        going_on = {
            p for p, e in zip(parents, edges, strict=True) if tree.layout == "opt" or e == "n"
        }
        for node in range(len(tree)):
            if node not in going_on:
                labels.append(END_MARK)
                parents.append(node)
                edges.append(mark)
    if types_only:
        labels = [split_label(label)[0] for label in labels]
    found: Counter = Counter()
    for node in range(len(labels)):
        at, way = node, ()
        for _ in range(length):
            if parents[at] < 0:
                break
            way = (edges[at], *way)
            at = parents[at]
            found[labels[at], labels[node], way] += 1
    return found
