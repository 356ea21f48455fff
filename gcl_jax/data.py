"""Many formula trees as flat arrays: what baselines count and models read."""

import dataclasses
import functools
import itertools
import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from gcl_jax.formulas.trees import Layout, Tree
from retrieval_jax.errors import InputError

END_MARK = "0!"
"""Label of a mark that something ends: no next sign in a layout tree, no operand in an operator
tree. Tangent-CFT and the published graphs have them, a `Tree` has not."""

_ARRAYS = ("labels", "parents", "edges", "bounds")


class TreeRows:
    """Trees as rows of flat arrays: tree i has the rows `bounds[i]` to `bounds[i + 1]`."""

    bounds: np.ndarray

    def __len__(self) -> int:
        """The number of trees."""
        return len(self.bounds) - 1

    @property
    def sizes(self) -> np.ndarray:
        """int64 `[trees]`, nodes of each."""
        return np.diff(self.bounds)

    def rows(self, trees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of some trees, one after another, and where each of them begins and ends."""
        sizes = self.sizes[trees]
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        return np.repeat(self.bounds[trees] - bounds[:-1], sizes) + np.arange(bounds[-1]), bounds


@dataclasses.dataclass(frozen=True, eq=False)
class Forest(TreeRows):
    """Trees of one layout, one after another; tree i has the nodes `bounds[i]` to `bounds[i + 1]`.

    Attributes:
        layout: `slt` or `opt`.
        vocabulary: different labels of nodes; the index of a label is its id.
        edge_vocabulary: different labels of edges, "" (of roots) among them.
        labels: int32 `[nodes]` ids.
        parents: int32 `[nodes]` the parent's place within its tree, -1 for a root. A parent stands
            before its children.
        edges: int32 `[nodes]` ids of the edges from the parents.
        bounds: int64 `[trees + 1]`.
    """

    layout: Layout
    vocabulary: tuple[str, ...]
    edge_vocabulary: tuple[str, ...]
    labels: np.ndarray
    parents: np.ndarray
    edges: np.ndarray
    bounds: np.ndarray

    @functools.cached_property
    def tree_ids(self) -> np.ndarray:
        """int64 `[nodes]`, the tree of each."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @functools.cached_property
    def global_parents(self) -> np.ndarray:
        """int64 `[nodes]`, the parents' places among all nodes, -1 for roots."""
        return np.where(self.parents < 0, -1, self.parents + self.bounds[self.tree_ids])

    def tree(self, index: int) -> Tree:
        """One tree."""
        nodes = slice(int(self.bounds[index]), int(self.bounds[index + 1]))
        return Tree(
            self.layout,
            tuple(self.vocabulary[label] for label in self.labels[nodes].tolist()),
            tuple(self.parents[nodes].tolist()),
            tuple(self.edge_vocabulary[edge] for edge in self.edges[nodes].tolist()),
        )

    def subset(self, indices: Sequence[int] | np.ndarray) -> "Forest":
        """Some trees, in this order, with the whole vocabularies."""
        nodes, bounds = self.rows(np.asarray(indices, np.int64))
        return dataclasses.replace(
            self,
            labels=self.labels[nodes],
            parents=self.parents[nodes],
            edges=self.edges[nodes],
            bounds=bounds,
        )

    def relabel(self, function: Callable[[str], str]) -> "Forest":
        """The trees with other labels, each a function of the old one."""
        ids: dict[str, int] = {}
        new = [ids.setdefault(function(label), len(ids)) for label in self.vocabulary]
        return dataclasses.replace(
            self, vocabulary=tuple(ids), labels=np.array(new, np.int32)[self.labels]
        )

    def with_end_marks(self) -> "Forest":
        """The trees with `END_MARK`s, as Tangent-CFT and the published graphs have them.

        In a layout tree every node without a next one gets a mark by the edge `n`; in an operator
        tree every leaf gets one by the edge `0`. Marks stand behind all other nodes of their tree.
        """
        vocabulary, mark = _with(self.vocabulary, END_MARK)
        edge_vocabulary, edge = _with(self.edge_vocabulary, "n" if self.layout == "slt" else "0")
        children = self.global_parents >= 0
        if self.layout == "slt":
            children &= self.edges == edge
        open_nodes = np.ones(len(self.labels), bool)
        open_nodes[self.global_parents[children]] = False
        marked = np.flatnonzero(open_nodes)
        trees = np.concatenate([self.tree_ids, self.tree_ids[marked]])
        order = np.argsort(trees, kind="stable")

        def joined(old: np.ndarray, new: np.ndarray | int) -> np.ndarray:
            new = np.broadcast_to(new, len(marked))
            return np.concatenate([old, new]).astype(np.int32)[order]

        return dataclasses.replace(
            self,
            vocabulary=vocabulary,
            edge_vocabulary=edge_vocabulary,
            labels=joined(self.labels, mark),
            parents=joined(self.parents, marked - self.bounds[self.tree_ids[marked]]),
            edges=joined(self.edges, edge),
            bounds=np.searchsorted(trees[order], np.arange(len(self) + 1)),
        )


def _with(vocabulary: tuple[str, ...], label: str) -> tuple[tuple[str, ...], int]:
    """A vocabulary that has a label, and the label's id."""
    if label not in vocabulary:
        vocabulary = (*vocabulary, label)
    return vocabulary, vocabulary.index(label)


class ForestMaker:
    """Gathers trees into a `Forest`, one by one, in little more memory than the forest takes."""

    def __init__(self, layout: Layout) -> None:
        self._layout: Layout = layout
        self._ids: dict[str, int] = {}
        self._edge_ids: dict[str, int] = {"": 0}
        self._labels, self._parents, self._edges = array("i"), array("i"), array("i")
        self._sizes = array("q")

    def add(self, labels: Sequence[str], parents: Iterable[int], edges: Sequence[str]) -> None:
        """Adds a tree: labels, parents and edge labels as a `Tree` has them."""
        ids, edge_ids = self._ids, self._edge_ids
        self._labels.extend([ids.setdefault(label, len(ids)) for label in labels])
        self._parents.extend(parents)
        self._edges.extend([edge_ids.setdefault(edge, len(edge_ids)) for edge in edges])
        self._sizes.append(len(labels))

    def forest(self) -> Forest:
        """All trees so far."""
        sizes = np.array(self._sizes, np.int64)
        return Forest(
            self._layout,
            tuple(self._ids),
            tuple(self._edge_ids),
            np.array(self._labels, np.int32),
            np.array(self._parents, np.int32),
            np.array(self._edges, np.int32),
            np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
        )


def forest_of(trees: Sequence[Tree]) -> Forest:
    """Gathers `Tree`s.

    Raises:
        InputError: none, or trees of both layouts.
    """
    maker = ForestMaker(_one_layout("trees", [tree.layout for tree in trees]))
    for tree in trees:
        maker.add(tree.labels, tree.parents, tree.edge_labels)
    return maker.forest()


def concatenate(forests: Sequence[Forest]) -> Forest:
    """All trees of forests of one layout, with the vocabulary of all.

    Raises:
        InputError: no forest, or of both layouts.
    """
    layout = _one_layout("forests", [forest.layout for forest in forests])
    vocabulary, labels = _renumbered([(f.vocabulary, f.labels) for f in forests])
    edge_vocabulary, edges = _renumbered([(f.edge_vocabulary, f.edges) for f in forests])
    ends = np.cumsum(np.concatenate([forest.sizes for forest in forests]))
    return Forest(
        layout,
        vocabulary,
        edge_vocabulary,
        labels,
        np.concatenate([forest.parents for forest in forests]),
        edges,
        np.concatenate([[0], ends]),
    )


def _one_layout(name: str, layouts: Sequence[Layout]) -> Layout:
    if len(set(layouts)) != 1:
        raise InputError(
            f"{len(layouts)} {name} have the layouts {sorted(set(layouts))}",
            f"Give one or more {name}, all of one layout.",
        )
    return layouts[0]


def _renumbered(
    parts: Sequence[tuple[tuple[str, ...], np.ndarray]],
) -> tuple[tuple[str, ...], np.ndarray]:
    """The union of vocabularies, and all ids as ids of it."""
    vocabulary = tuple(dict.fromkeys(itertools.chain.from_iterable(words for words, _ in parts)))
    places = {word: place for place, word in enumerate(vocabulary)}
    return vocabulary, np.concatenate(
        [np.array([places[word] for word in words], np.int32)[ids] for words, ids in parts]
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Formulas:
    """Formulas with both their trees.

    Attributes:
        ids: of each formula.
        slt: their layout trees.
        opt: their operator trees.
    """

    ids: tuple[str, ...]
    slt: Forest
    opt: Forest

    def __len__(self) -> int:
        """The number of formulas."""
        return len(self.ids)

    def subset(self, indices: Sequence[int] | np.ndarray) -> "Formulas":
        """Some formulas, in this order."""
        return Formulas(
            tuple(self.ids[int(index)] for index in indices),
            self.slt.subset(indices),
            self.opt.subset(indices),
        )


def sample(formulas: Formulas, size: int | None, seed: int) -> Formulas:
    """So many formulas, drawn at random without replacement; all where there are no more."""
    if size is None or size >= len(formulas):
        return formulas
    drawn = np.random.default_rng(seed).choice(len(formulas), size, replace=False)
    return formulas.subset(np.sort(drawn))


def save_formulas(folder: Path, formulas: Formulas) -> None:
    """Writes formulas as NumPy arrays and JSON into an empty folder."""
    (folder / "ids.json").write_text(json.dumps(formulas.ids), encoding="utf-8")
    for name in ("slt", "opt"):
        forest: Forest = getattr(formulas, name)
        words = {"nodes": forest.vocabulary, "edges": forest.edge_vocabulary}
        (folder / f"{name}.json").write_text(json.dumps(words), encoding="utf-8")
        for part in _ARRAYS:
            np.save(folder / f"{name}_{part}.npy", getattr(forest, part), allow_pickle=False)


def load_formulas(folder: Path) -> Formulas:
    """Reads what `save_formulas` wrote; the arrays stay on disk until they are used."""
    forests = {}
    for name in ("slt", "opt"):
        words = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        arrays = {
            part: np.load(folder / f"{name}_{part}.npy", mmap_mode="r", allow_pickle=False)
            for part in _ARRAYS
        }
        forests[name] = Forest(name, tuple(words["nodes"]), tuple(words["edges"]), **arrays)
    ids = json.loads((folder / "ids.json").read_text(encoding="utf-8"))
    return Formulas(tuple(ids), **forests)
