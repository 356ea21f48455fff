"""A formula encoder with its collection, in memory: queries in batches of few shapes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

import gcl_jax
from gcl_jax.data import Formulas, forest_of
from gcl_jax.formulas.trees import Layout, Tree
from gcl_jax.inference import FormulaSearcher
from gcl_jax.model import LAYOUTS
from gcl_jax.scoring import query_vectors
from retrieval_jax.errors import InputError
from retrieval_jax.logs import read_metrics
from retrieval_jax.search import hold, top_k

Trees = Literal["slt", "opt", "fused"]
"""By which trees to compare: layout, operators, or both."""

SHAPES = ((2, 128), (2, 1024), (32, 1024), (32, 4096))
"""Graphs, and nodes of each layout, of a call to the encoder; one graph at least is filler."""


class FormulaQuery(NamedTuple):
    """A formula that was read, and by which of its trees to search."""

    slt: Tree
    opt: Tree
    trees: Trees


class FormulaAnswer(NamedTuple):
    """What the device finds.

    Attributes:
        vector: float32 `[dim]`, of the query.
        rows: of the index, best first.
        scores: of the rows.
    """

    vector: np.ndarray
    rows: np.ndarray
    scores: np.ndarray


class StoredFormula(NamedTuple):
    """A formula of the collection, once however often it occurs.

    Attributes:
        formula: LaTeX or MathML.
        sources: where it stands, all its places; an id where the collection does not say.
        about: a line on the first source, or "".
    """

    formula: str
    sources: tuple[str, ...]
    about: str


class FormulaIndex:
    """An encoder and the formulas that it has encoded: a row for all that are equal.

    Args:
        searcher: a run that was loaded with its store.
        title: of the collection, for the page.
        is_trained: whether the run has learnt anything, for the page.
        answers: that are wanted for a query, at most.
        slt_weight: share of layout trees in the fused score, as the store was made with.

    Attributes:
        title: as given.
        is_trained: as given.
        trees: by which the encoder can compare.

    Raises:
        InputError: the store is empty.
    """

    def __init__(
        self,
        searcher: FormulaSearcher,
        title: str,
        is_trained: bool,
        answers: int,
        slt_weight: float = 0.5,
    ) -> None:
        self.title, self.is_trained = title, is_trained
        self._searcher, self._rows, self._slt_weight = searcher, answers, slt_weight
        assert searcher.store is not None
        stored = searcher.store.read()
        if not stored.ids:
            raise InputError(f"the store in {searcher.store.location} is empty", "Index formulas.")
        firsts, self._formulas = _distinct(stored.ids, stored.metadata)
        self._documents, self._dim = hold(stored.vectors[firsts]), stored.vectors.shape[1]
        self._layouts: tuple[Layout, ...] = LAYOUTS[searcher.config.model.layout]
        self.trees: tuple[Trees, ...] = (
            ("fused", "slt", "opt") if len(self._layouts) > 1 else self._layouts
        )

    def __len__(self) -> int:
        """How many different formulas there are."""
        return len(self._formulas)

    def stored(self, row: int) -> StoredFormula:
        """The formula of a row."""
        return self._formulas[row]

    def compute(self, queries: Sequence[FormulaQuery]) -> list[FormulaAnswer]:
        """Answers queries; those that come together get what each gets alone."""
        answers = []
        for part, graphs, nodes in self._parts(queries):
            formulas = self._filled(part, graphs, nodes)
            vectors = self._searcher.encode_formulas(formulas)
            rows = np.zeros((graphs, self._dim), np.float32)
            for place, query in enumerate(part):
                of_query = {name: of[place : place + 1] for name, of in vectors.items()}
                rows[place] = self._query_vector(of_query, query.trees)
            scores, found = map(np.asarray, top_k(rows, self._documents, self._rows))
            answers += [
                FormulaAnswer(rows[place], found[place], scores[place])
                for place in range(len(part))
            ]
        return answers

    def warm_up(self) -> Iterator[str]:
        """Compiles every shape that `compute` uses, one a step."""
        for graphs, nodes in SHAPES:
            yield f"formulas, {graphs} graphs of {nodes} nodes"
            self._searcher.encode_formulas(self._filled([], graphs, nodes))
            top_k(np.zeros((graphs, self._dim), np.float32), self._documents, self._rows)

    def _query_vector(self, vectors: Mapping[str, np.ndarray], trees: Trees) -> np.ndarray:
        """A row whose product with the stored vectors, layouts side by side, is the score."""
        exponent = self._searcher.config.model.document_exponent
        if trees == "fused" or len(self._layouts) == 1:
            return query_vectors(vectors, exponent, self._slt_weight)[0]
        weight = self._slt_weight if trees == "slt" else 1 - self._slt_weight
        alone = query_vectors({trees: vectors[trees]}, exponent)[0] / max(weight, 1e-9) ** 0.5
        parts = [
            alone if layout == trees else np.zeros(of_layout.shape[1], np.float32)
            for layout, of_layout in vectors.items()  # in the order of the stored vectors
        ]
        return np.concatenate(parts)

    def _size(self, tree: Tree) -> int:
        """Nodes with the marks of ends, at most."""
        return len(tree) * (2 if self._searcher.config.data.end_marks else 1)

    def _parts(
        self, queries: Sequence[FormulaQuery]
    ) -> Iterator[tuple[list[FormulaQuery], int, int]]:
        """Cuts queries into calls, each with its number of graphs and of nodes."""
        part: list[FormulaQuery] = []
        totals = np.zeros(2, np.int64)
        for query in queries:
            sizes = np.array([self._size(query.slt), self._size(query.opt)])
            is_full = len(part) == SHAPES[-1][0] - 1
            if part and (is_full or (totals + sizes).max() > _room(*SHAPES[-1])):
                yield part, *_shape(len(part), int(totals.max()))
                part, totals = [], np.zeros(2, np.int64)
            part.append(query)
            totals = totals + sizes
        if part:
            yield part, *_shape(len(part), int(totals.max()))

    def _filled(self, queries: Sequence[FormulaQuery], graphs: int, nodes: int) -> Formulas:
        """The trees of queries, and fillers that bring them to a shape."""
        forests = []
        for layout in ("slt", "opt"):
            trees = [getattr(query, layout) for query in queries]
            small = [_star(layout, 0)] * (graphs - len(trees) - 1)
            used = sum(map(self._size, [*trees, *small]))
            leaf = self._size(small[0] if small else _star(layout, 0))
            trees += [*small, _star(layout, max((nodes - used) // leaf - 1, 0))]
            forests.append(forest_of(trees))
        return Formulas(tuple(map(str, range(graphs))), *forests)


def _distinct(
    ids: Sequence[str], metadata: Sequence[Mapping[str, Any]]
) -> tuple[list[int], list[StoredFormula]]:
    """The different formulas, and the first stored row of each; one without text is its own."""
    rows_of: dict[tuple[str, str], list[int]] = {}
    for row, (name, about) in enumerate(zip(ids, metadata, strict=True)):
        formula = str(about.get("formula", ""))
        rows_of.setdefault((formula, "" if formula else name), []).append(row)
    formulas = []
    for (formula, _), rows in rows_of.items():
        sources = [str(of) for row in rows for of in metadata[row].get("sources") or [ids[row]]]
        about = str(metadata[rows[0]].get("about", ""))
        formulas.append(StoredFormula(formula, tuple(dict.fromkeys(sources)), about))
    return [rows[0] for rows in rows_of.values()], formulas


def _star(layout: Layout, leaves: int) -> Tree:
    """A filler: a root with leaves, shallow however large."""
    edge = "a" if layout == "slt" else "0"
    return Tree(layout, ("V!x",) * (leaves + 1), (-1, *[0] * leaves), ("", *[edge] * leaves))


def _room(graphs: int, nodes: int) -> int:
    """Nodes that fillers leave."""
    return nodes - 2 * graphs


def _shape(queries: int, nodes: int) -> tuple[int, int]:
    """The first shape that holds them; for a formula beyond all, one of its own."""
    for graphs, of_shape in SHAPES:
        if graphs > queries and _room(graphs, of_shape) >= nodes:
            return graphs, of_shape
    graphs = SHAPES[-1][0]
    return graphs, 1 << (nodes + 2 * graphs - 1).bit_length()


def load_formulas(
    path: Path, answers: int, title: str | None = None, slt_weight: float = 0.5
) -> FormulaIndex:
    """Loads a run with its store.

    Args:
        path: run folder with a folder `store`, or that folder.
        answers: that are wanted for a query, at most.
        title: of the collection; by default the folder's name.
        slt_weight: as the store was made with.

    Raises:
        InputError: neither a run nor its store, a store of another encoder, or an empty one.
    """
    run, store = (path, path / "store") if (path / "config.json").is_file() else (path.parent, path)
    if not (run / "config.json").is_file():
        raise InputError(
            f"{path} is neither a run folder nor the store in one",
            "Train by python -m experiments.gcl.train.",
        )
    if not store.is_dir():
        raise InputError(
            f"the run {run} has no collection: no folder {store}",
            f"Index one: python -m experiments.gcl.search QUERY --run {run} --collection FILE",
        )
    searcher = gcl_jax.load(run, store, slt_weight)
    is_trained = bool(read_metrics(run))
    return FormulaIndex(searcher, title or path.name, is_trained, answers, slt_weight)
