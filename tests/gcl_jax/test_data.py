"""Forests: trees in and out, end marks, vocabularies, files."""

import random
from pathlib import Path

import numpy as np
import pytest

from gcl_jax.data import (
    END_MARK,
    Formulas,
    concatenate,
    forest_of,
    load_formulas,
    sample,
    save_formulas,
)
from gcl_jax.formulas.trees import Tree
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_trees import random_tree

RNG = random.Random(0)
SLTS = [random_tree(RNG, "slt", size) for size in (1, 5, 30, 2)]
OPTS = [random_tree(RNG, "opt", size) for size in (3, 1, 70, 2)]


def test_trees_come_back() -> None:
    for trees in (SLTS, OPTS):
        forest = forest_of(trees)
        assert len(forest) == 4
        assert [forest.tree(i) for i in range(4)] == trees
        assert forest.tree_ids.tolist() == [i for i, t in enumerate(trees) for _ in range(len(t))]
        some = forest.subset([2, 0, 2])
        assert [some.tree(i) for i in range(3)] == [trees[2], trees[0], trees[2]]
        assert len(forest.subset([])) == 0


def test_global_parents() -> None:
    forest = forest_of([SLTS[3], SLTS[3]])
    assert forest.global_parents.tolist() == [-1, 0, -1, 2]


def test_end_marks_of_a_layout_tree_end_its_lines() -> None:
    # x^2 + 1: the exponent's line ends, and the whole line does.
    tree = Tree(
        "slt", ("V!x", "N!2", "+", "N!1"), (-1, 0, 0, 2), ("", "a", "n", "n")
    )  # fmt: skip
    marked = forest_of([SLTS[0], tree]).with_end_marks()
    assert marked.sizes.tolist() == [2, 6]
    assert marked.tree(1) == Tree(
        "slt",
        (*tree.labels, END_MARK, END_MARK),
        (*tree.parents, 1, 3),
        (*tree.edge_labels, "n", "n"),
    )
    assert marked.tree(0) == Tree("slt", (*SLTS[0].labels, END_MARK), (-1, 0), ("", "n"))


def test_end_marks_of_an_operator_tree_stand_below_leaves() -> None:
    tree = Tree("opt", ("U!plus", "V!x", "O!SUP", "V!y", "N!2"), (-1, 0, 0, 2, 2), ("", *"0101"))
    marked = forest_of([tree]).with_end_marks()
    assert marked.tree(0).labels[5:] == (END_MARK,) * 3
    assert marked.tree(0).parents[5:] == (1, 3, 4)
    assert marked.tree(0).edge_labels[5:] == ("0",) * 3


def test_forests_of_different_vocabularies_are_joined() -> None:
    first, second = forest_of(SLTS[:2]), forest_of(SLTS[2:])
    joined = concatenate([second, first])
    assert [joined.tree(i) for i in range(4)] == SLTS[2:] + SLTS[:2]
    for forests in ([], [first, forest_of(OPTS)]):
        with pytest.raises(InputError, match="layouts"):
            concatenate(forests)
    for trees in ([], [SLTS[0], OPTS[0]]):
        with pytest.raises(InputError, match="layouts"):
            forest_of(trees)


def test_relabel() -> None:
    forest = forest_of(SLTS).relabel(str.upper)
    assert forest.tree(1).labels == tuple(label.upper() for label in SLTS[1].labels)
    one = forest_of(SLTS).relabel(lambda _: "x")
    assert one.vocabulary == ("x",)


def test_formulas_on_disk(tmp_path: Path) -> None:
    formulas = Formulas(("a", "é", "", "d"), forest_of(SLTS), forest_of(OPTS))
    save_formulas(tmp_path, formulas)
    read = load_formulas(tmp_path)
    assert read.ids == formulas.ids
    assert [read.slt.tree(i) for i in range(4)] == SLTS
    assert [read.opt.tree(i) for i in range(4)] == OPTS
    assert isinstance(read.slt.labels, np.memmap)


def test_samples() -> None:
    formulas = Formulas(tuple("abcd"), forest_of(SLTS), forest_of(OPTS))
    assert sample(formulas, 9, 0) is sample(formulas, None, 0) is formulas
    drawn = sample(formulas, 2, 0)
    assert drawn.ids == sample(formulas, 2, 0).ids
    assert len(set(drawn.ids)) == 2
    assert drawn.slt.tree(0) == SLTS["abcd".index(drawn.ids[0])]
