"""Trees to arrays, padding, and messages between nodes."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcl_jax.data import forest_of
from gcl_jax.formulas.trees import Tree
from gcl_jax.graphs import (
    PADDING,
    RESERVED,
    UNKNOWN,
    GraphTable,
    equal_ids,
    estimate_budget,
    from_children,
    from_parents,
    index_forest,
    make_graphs,
    make_vocabulary,
    pack,
    softmax_by_graph,
    sum_by_graph,
)
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_graphs import random_formulas, to_graphs_tuple

# a + b ^ 2 as a layout tree, and x alone.
SUM = Tree("slt", ("V!a", "+", "V!b", "N!2"), (-1, 0, 1, 2), ("", "n", "n", "a"))
ONE = Tree("slt", ("V!x",), (-1,), ("",))
# A fraction: its children stand before the rest of the line in pre-order, not level by level.
FRACTION = Tree(
    "slt",
    ("O!divide", "V!a", "+", "V!b", "V!c", "="),
    (-1, 0, 1, 2, 0, 0),
    ("", "o", "n", "n", "u", "n"),
)


def table_of(*trees, min_count=1):
    forest = forest_of(trees)
    vocabulary = make_vocabulary([forest], min_count)
    return index_forest(forest, vocabulary), vocabulary


def batch_of(table, trees, num_nodes):
    columns = pack(table, np.array([trees]), num_nodes)
    return make_graphs({k: jnp.asarray(v[0]) for k, v in columns.items()}, len(trees))


def test_vocabulary_has_the_most_frequent_first_and_types_of_rare_labels():
    _, vocabulary = table_of(SUM, FRACTION, min_count=2)
    assert vocabulary.labels == (*RESERVED, "+", "V!a", "V!b")
    assert set(vocabulary.types) == {*RESERVED, "+", "V!", "N!", "O!", "="}
    assert vocabulary.edges == (*RESERVED, "a", "n", "o", "u")
    types = [vocabulary.types[index] for index in vocabulary.label_types()[len(RESERVED) :]]
    assert types == ["+", "V!", "V!"]


def test_nodes_stand_level_by_level_and_unknown_labels_keep_their_type():
    forest = forest_of([FRACTION])
    vocabulary = make_vocabulary([forest_of([SUM])])
    table = index_forest(forest, vocabulary)
    assert table.parents.tolist() == [0, 0, 0, 0, 1, 4]
    known = dict(enumerate(vocabulary.labels))
    names = [known.get(index) for index in table.labels.tolist()]
    assert names == [None, "V!a", None, None, "+", "V!b"]
    unknown = [index for index in table.labels.tolist() if index not in known]
    assert len(set(unknown)) == 3
    assert max(unknown) < vocabulary.label_ids
    types = [vocabulary.types[index] for index in table.types]
    assert types == ["<unknown>", "V!", "V!", "<unknown>", "+", "V!"]
    assert [vocabulary.edges[i] for i in table.edges] == ["", *["<unknown>"] * 2, "n", "n", "n"]
    assert table.subtree_sizes.tolist() == [6, 3, 1, 1, 2, 1]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_indexing_keeps_the_trees(seed):
    formulas = random_formulas(5, seed)
    forest = formulas.slt.with_end_marks()
    vocabulary = make_vocabulary([forest])
    table = index_forest(forest, vocabulary)
    assert (np.diff(table.parents + np.repeat(table.bounds[:-1], table.sizes)) >= 0).all()
    for index in range(len(forest)):
        nodes = slice(int(table.bounds[index]), int(table.bounds[index + 1]))
        parents = table.parents[nodes].tolist()
        names = [vocabulary.labels[label] for label in table.labels[nodes]]
        edges = [vocabulary.edges[edge] for edge in table.edges[nodes]]
        got = [(names[p], n, e) for n, p, e in zip(names, parents, edges, strict=True)][1:]
        # Not `forest.tree(...).edges`: with marks it is not in pre-order.
        tree = forest.tree(index)
        expected = [
            (tree.labels[p], tree.labels[n], tree.edge_labels[n])
            for n, p in enumerate(tree.parents)
            if p >= 0
        ]
        assert sorted(got) == sorted(expected)
        assert edges[0] == "" and parents[0] == 0


def test_equal_trees_have_equal_ids_in_all_layouts_only():
    slt, _ = table_of(SUM, ONE, SUM, ONE)
    other, _ = table_of(SUM, SUM, SUM, ONE)
    assert equal_ids([slt]).tolist() == [0, 1, 0, 1]
    assert equal_ids([slt, other]).tolist() == [0, 1, 0, 2]
    assert (
        slt.subset(np.array([2, 1])).labels.tolist()
        == np.concatenate([slt.labels[5:9], slt.labels[4:5]]).tolist()
    )


def test_packing_fills_up_with_nodes_that_belong_to_no_graph():
    table, _ = table_of(SUM, ONE)
    graphs = batch_of(table, [1, 0], 8)
    assert graphs.graphs.tolist() == [0, 1, 1, 1, 1, 2, 2, 2]
    assert graphs.parents.tolist() == [0, 1, 1, 2, 3, 5, 6, 7]
    assert graphs.alive.tolist() == [True] * 5 + [False] * 3
    assert graphs.has_edge.tolist() == [False, False, True, True, True, False, False, False]
    assert (graphs.edges[5:] == PADDING).all()


def test_messages_by_hand():
    table, _ = table_of(ONE, FRACTION)
    graphs = batch_of(table, [0, 1], 8)
    states = jnp.arange(1.0, 9.0)[:, None]  # x = 1, divide = 2, its children 3 4 5, then 6, 7
    assert from_parents(states, graphs)[:, 0].tolist() == [0, 0, 2, 2, 2, 3, 6, 0]
    assert from_children(states, graphs)[:, 0].tolist() == [0, 12, 6, 0, 0, 7, 0, 0]
    assert sum_by_graph(states, graphs)[:, 0].tolist() == [1, 27]
    weights = softmax_by_graph(jnp.zeros(8), graphs)
    np.testing.assert_allclose(weights, [1, *[1 / 6] * 6, 0], rtol=1e-6)


def test_messages_equal_those_of_jraph():
    formulas = random_formulas(6, 3)
    vocabulary = make_vocabulary([formulas.opt])
    graphs = batch_of(index_forest(formulas.opt, vocabulary), range(6), 64)
    states = jax.random.normal(jax.random.key(0), (64, 4))
    theirs = to_graphs_tuple(graphs)

    def message(edges, senders, receivers, globals_):
        return senders * edges[:, None]

    network = jraph.GraphNetwork(message, lambda nodes, sent, received, globals_: received)
    reference = theirs._replace(nodes=states, edges=theirs.edges["alive"].astype(jnp.float32))
    expected = network(reference).nodes
    got = from_parents(states, graphs) + from_children(states, graphs)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert int(theirs.n_node.sum()) == 64
    assert theirs.n_node[:-1].tolist() == formulas.opt.sizes.tolist()


def test_the_budget_has_few_sizes_and_little_waste():
    nodes = (1000 + 60 * np.random.default_rng(0).normal(size=64)).astype(int).tolist()
    budget = estimate_budget(nodes)
    assert len(budget.sizes) <= 4
    assert len(estimate_budget(nodes, allowed_waste=0.0).sizes) == 4
    assert budget.waste(nodes) < 0.03
    assert all(budget.fit(n) >= n for n in nodes)
    # Beyond the sample on a grid of 5 %.
    largest = budget.sizes[-1]
    beyond = {budget.fit(n) for n in range(largest + 1, 2 * largest)}
    assert len(beyond) <= 16
    assert budget.fit(largest + 1) <= 1.06 * largest
    assert estimate_budget([10, 10]).sizes == (16,)
    assert estimate_budget([8, 8, 8, 80], max_sizes=2).sizes == (8, 80)
    assert estimate_budget([8, 8, 8, 80], max_sizes=1).sizes == (80,)
    with pytest.raises(InputError, match="no batch"):
        estimate_budget([])


def test_three_sizes_are_the_best_three():
    sample = [8, 8, 40, 48, 96, 104, 104]
    budget = estimate_budget(sample, max_sizes=3, allowed_waste=0.0)
    assert budget.sizes == (8, 48, 104)


def test_a_table_is_made_of_arrays():
    table, _ = table_of(ONE)
    assert isinstance(table, GraphTable)
    assert len(table) == 1
    assert table.labels.tolist() != [UNKNOWN]
