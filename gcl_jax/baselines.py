"""Overlap of trees: Dice over edges, over paths, and weighted towards covering the query.

Every tree is a multiset of tuples: edges (parent, child, edge label), or paths (ancestor,
descendant, edge labels between them) up to a length. Multisets become rows of a sparse matrix of
zeros and ones, in which the second occurrence of a tuple has a column of its own; the size of the
intersection of two multisets is then the product of their rows, and all pairs are one product of
sparse matrices.
"""

import dataclasses
from collections import Counter

import numpy as np
import scipy.sparse

from gcl_jax.data import END_MARK, Forest, Formulas, concatenate
from gcl_jax.formulas.trees import Tree, split_label
from gcl_jax.paths import combine, tree_paths
from retrieval_jax.errors import InputError, check_fields

# Documents compared at a time: some 100 MiB of paths up to four edges.
_BLOCK = 20_000


@dataclasses.dataclass(frozen=True)
class Overlap:
    """How two trees are compared.

    Attributes:
        path_length: edges of the longest path that counts; 1 = edges alone.
        query_weight: the weight w in `overlap / (w query + (1 - w) document)` (Tversky, 1977, with
            weights that sum to 1); .5 is Dice's coefficient.
        types_only: leave the values out: `V!` for `V!x`.
        end_marks: count the ends of lines and of operators as nodes too, as the published graphs
            do; without them formulas of one node have no tuple.

    Raises:
        InputError: a length below 1, or a weight outside 0 to 1.
    """

    path_length: int = 1
    query_weight: float = 0.5
    types_only: bool = False
    end_marks: bool = True

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_fields(self, ("path_length",), at_least=1)
        check_fields(self, ("query_weight",), at_least=0, at_most=1)


def edge_dice(tree_a: Tree, tree_b: Tree, end_marks: bool = True) -> float:
    """Dice's coefficient of the multisets of edges of two trees: 2 |A and B| / (|A| + |B|).

    An edge is (label of the parent, label of the child, label of the edge).

    Args:
        tree_a: one tree.
        tree_b: the other, of the same layout.
        end_marks: as in `Overlap`; two trees of one node have no edge without, and compare as
            equal or not.

    Raises:
        InputError: trees of different layouts.
    """
    if tree_a.layout != tree_b.layout:
        raise InputError(
            f"the trees are {tree_a.layout} and {tree_b.layout}", "Compare trees of one layout."
        )
    edges_a, edges_b = _edges(tree_a, end_marks), _edges(tree_b, end_marks)
    total = edges_a.total() + edges_b.total()
    if not total:
        return float(tree_a.labels == tree_b.labels)
    return 2 * (edges_a & edges_b).total() / total


def _edges(tree: Tree, end_marks: bool) -> Counter[tuple[str, str, str]]:
    edges = Counter[tuple[str, str, str]](tree.edges)
    if end_marks:
        mark = "n" if tree.layout == "slt" else "0"
        continued = {
            parent
            for parent, edge in zip(tree.parents, tree.edge_labels, strict=True)
            if tree.layout == "opt" or edge == "n"
        }
        edges.update(
            (label, END_MARK, mark)
            for node, label in enumerate(tree.labels)
            if node not in continued
        )
    return edges


def overlap_scores(queries: Forest, documents: Forest, overlap: Overlap) -> np.ndarray:
    """Compares every query with every document.

    Args:
        queries: trees of the queries.
        documents: trees of the documents, of the same layout.
        overlap: how to compare.

    Returns:
        float64 `[queries, documents]`, from 0 to 1; 0 where neither tree has a tuple.

    Raises:
        InputError: different layouts.
    """
    blocks = []
    for start in range(0, len(documents), _BLOCK):
        block = documents.subset(np.arange(start, min(start + _BLOCK, len(documents))))
        blocks.append(_block_scores(queries, block, overlap))
    return np.concatenate([np.zeros((len(queries), 0)), *blocks], axis=1)


def _block_scores(queries: Forest, documents: Forest, overlap: Overlap) -> np.ndarray:
    rows = _multisets(concatenate([queries, documents]), overlap)
    of_queries, of_documents = rows[: len(queries)], rows[len(queries) :]
    shared = (of_queries @ of_documents.T).toarray().astype(np.float64)
    w = overlap.query_weight
    sizes = w * _sizes(of_queries)[:, None] + (1 - w) * _sizes(of_documents)
    return np.divide(shared, sizes, out=np.zeros_like(shared), where=sizes > 0)


def both_overlap_scores(queries: Formulas, documents: Formulas, overlap: Overlap) -> np.ndarray:
    """The sum of `overlap_scores` of layout trees and of operator trees."""
    slt = overlap_scores(queries.slt, documents.slt, overlap)
    return slt + overlap_scores(queries.opt, documents.opt, overlap)


def _sizes(rows: scipy.sparse.csr_array) -> np.ndarray:
    return np.diff(rows.indptr).astype(np.float64)


def _multisets(forest: Forest, overlap: Overlap) -> scipy.sparse.csr_array:
    """The multisets of all trees, `[trees, tuples]` of float32 ones."""
    if overlap.end_marks:
        forest = forest.with_end_marks()
    if overlap.types_only:
        forest = forest.relabel(lambda label: split_label(label)[0])
    paths = tree_paths(forest, overlap.path_length)
    trees, codes = forest.tree_ids[paths.nodes], paths.codes
    order = np.lexsort((codes, trees))
    trees, codes = trees[order], codes[order]
    occurrences = _places_in_runs(combine(trees, codes))
    columns = np.unique(combine(codes, occurrences), return_inverse=True)[1]
    shape = len(forest), int(columns.max(initial=-1)) + 1
    ones = np.ones(len(trees), np.float32)
    return scipy.sparse.csr_array((ones, (trees, columns)), shape=shape)


def _places_in_runs(values: np.ndarray) -> np.ndarray:
    """For sorted values, how many equal ones stand before each."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    lengths = np.diff(starts, append=len(values))
    return np.arange(len(values)) - np.repeat(starts, lengths)
