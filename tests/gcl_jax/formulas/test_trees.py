"""Trees: checked, equal by structure, in canonical form and back, drawn, at any depth."""

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcl_jax.formulas import parse
from gcl_jax.formulas.trees import (
    OPT_EDGES,
    Edge,
    Tree,
    make_tree,
    opt_edge,
    split_label,
    tree_from_edges,
)
from retrieval_jax.errors import InputError

SUM = make_tree(
    "opt",
    ["U!eq", "V!x", "U!plus", "N!1", "V!y"],
    [-1, 0, 0, 2, 2],
    ["", "0", "1", "0", "1"],
)
DEEP = make_tree("slt", ["V!x"] * 10_000, range(-1, 9_999), ["", *["a"] * 9_999])

labels = st.text(min_size=1, max_size=5)


@st.composite
def trees(draw):
    size = draw(st.integers(1, 20))
    path, parents = [0], [-1]
    for node in range(1, size):
        path = path[: draw(st.integers(1, len(path)))]
        parents.append(path[-1])
        path.append(node)
    names = [draw(labels) for _ in range(size)]
    return make_tree("opt", names, parents, ["", *(draw(labels) for _ in range(size - 1))])


def test_edges_depth_children_and_size():
    assert SUM.edges == (
        Edge("U!eq", "V!x", "0"),
        Edge("U!eq", "U!plus", "1"),
        Edge("U!plus", "N!1", "0"),
        Edge("U!plus", "V!y", "1"),
    )
    assert SUM.depth == 2
    assert SUM.children == ((1, 2), (), (3, 4), (), ())
    assert len(SUM) == 5


def test_labels_are_split_into_type_and_value():
    cases = {
        "V!x": ("V!", "x"),
        "+!O": ("+!", "O"),
        "M!()1x2": ("M!", "()1x2"),
        "?a": ("?", "a"),
        "=": ("=", ""),
        "!": ("!", ""),
        "W!": ("W!", ""),
    }
    assert {label: split_label(label) for label in cases} == cases


def test_children_are_numbered_by_digits_letters_and_then_numbers():
    assert [opt_edge(index) for index in (0, 9, 10, 35, 36, 61, 62)] == [
        *("0", "9", "A", "Z", "a", "z", "62")
    ]
    assert len(OPT_EDGES) == 62


@settings(deadline=None)
@given(trees())
def test_canonical_form_and_back(tree):
    assert Tree.from_nested(tree.layout, tree.to_nested()) == tree


@settings(deadline=None)
@given(trees(), st.randoms())
def test_edge_lists_in_any_order_make_the_tree(tree, random):
    order = list(range(len(tree)))
    random.shuffle(order)
    place = {node: index for index, node in enumerate(order)}
    edges = [
        (place[parent], place[node], opt_edge(tree.children[parent].index(node)))
        for node, parent in enumerate(tree.parents)
        if parent >= 0
    ]
    random.shuffle(edges)
    made = tree_from_edges("opt", [tree.labels[node] for node in order], edges)
    assert made.labels == tree.labels
    assert made.parents == tree.parents


@settings(deadline=None)
@given(trees())
def test_pictures_are_well_formed_whatever_the_labels(tree):
    picture = ElementTree.fromstring(tree.to_svg())
    boxes = [element for element in picture.iter() if element.tag.endswith("rect")]
    assert len(boxes) == len(tree)
    assert len(str(tree).split("\n")) == len(tree)
    assert tree.to_graphviz().count(" -> ") >= len(tree) - 1


def test_text_graphviz_and_svg_of_a_tree():
    assert str(SUM) == "U!eq\n  0 V!x\n  1 U!plus\n    0 N!1\n    1 V!y"
    chain = make_tree("slt", ["V!x", "N!2", "=", "N!4"], [-1, 0, 0, 2], ["", "a", "n", "n"])
    assert str(chain) == "V!x\n  a N!2\nn =\nn N!4"
    assert '  2 -> 3 [label="0"];' in SUM.to_graphviz()
    quoted = make_tree("slt", ['T!"<&\\'], [-1], [""])
    assert '0 [label="T!\\"<&\\\\"];' in quoted.to_graphviz()
    assert ">T!&quot;&lt;&amp;\\</text>" in quoted.to_svg()


def test_depth_is_no_matter_of_recursion():
    assert DEEP.depth == 9_999
    assert Tree.from_nested("slt", DEEP.to_nested()) == DEEP
    edges = [(node, node + 1, "a") for node in range(9_999)]
    assert tree_from_edges("slt", DEEP.labels, edges) == DEEP
    assert len(str(DEEP)) < 1_500_000
    assert DEEP.to_svg().count("<rect") == 10_000
    assert len(DEEP.to_graphviz().split("\n")) > 19_000


@pytest.mark.parametrize(
    ("names", "parents", "edges", "problem"),
    [
        ([], [], [], "0 labels"),
        (["a"], [-1, 0], [""], "1 labels, 2 parents"),
        (["a"], [0], [""], "node 0 has parent 0"),
        (["a", "b", "c", "d"], [-1, 0, 0, 1], ["", "0", "1", "0"], "too far from its parent 1"),
        (["a", "b"], [-1, 1], ["", "0"], "too far from its parent 1"),
        (["a", "b"], [-1, 0], ["", ""], "has the edge ''"),
        (["a", ""], [-1, 0], ["", "0"], "has the label ''"),
        (["a", 3], [-1, 0], ["", "0"], "has the label 3"),
    ],
)
def test_what_is_no_tree_is_refused(names, parents, edges, problem):
    with pytest.raises(InputError, match="not a tree") as error:
        make_tree("opt", names, parents, edges)
    assert problem in error.value.problem


def test_edge_lists_that_make_no_tree_are_refused():
    with pytest.raises(InputError, match="2 roots"):
        tree_from_edges("opt", ["a", "b"], [])
    with pytest.raises(InputError, match="edge 0 -> 5"):
        tree_from_edges("opt", ["a", "b"], [(0, 5, "0")])
    with pytest.raises(InputError, match="a cycle: 2 nodes"):
        tree_from_edges("opt", ["a", "b", "c"], [(1, 2, "0"), (2, 1, "0")])
    with pytest.raises(InputError, match="edge 2 -> 1 among"):
        tree_from_edges("opt", ["a", "b", "c"], [(0, 1, "0"), (2, 1, "1")])
    with pytest.raises(InputError, match="layout 'tree'"):
        make_tree("tree", ["a"], [-1], [""])
    with pytest.raises(InputError, match="nested tree"):
        Tree.from_nested("opt", ("a", 3))


def test_the_50th_argument_of_an_operator_is_indented_as_the_others():
    tree = parse("+".join(["x"] * 52), "opt")
    assert "n" in tree.edge_labels
    lines = str(tree).split("\n")
    assert [line for line in lines if not line.startswith("  ")] == lines[:1]
