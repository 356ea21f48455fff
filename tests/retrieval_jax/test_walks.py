"""Walks on hand-made graphs: where they go, how often, and where they end."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_jax import walks
from retrieval_jax.errors import InputError
from retrieval_jax.walks import Graph, make_graph, random_walks

EDGES = np.array([[0, 1], [2, 0], [0, 2], [0, 1], [3, 3]])


def test_a_directed_graph_follows_its_edges():
    graph = make_graph(EDGES, 5, directed=True)
    assert (graph.offsets.dtype, graph.neighbours.dtype) == (np.int64, np.int32)
    np.testing.assert_array_equal(graph.offsets, [0, 3, 3, 4, 5, 5])
    np.testing.assert_array_equal(graph.neighbours, [1, 2, 1, 0, 3])


def test_an_undirected_graph_goes_both_ways_and_has_loops_once():
    graph = make_graph(EDGES, 5)
    np.testing.assert_array_equal(graph.offsets, [0, 4, 6, 8, 9, 9])
    np.testing.assert_array_equal(graph.neighbours, [1, 2, 1, 2, 0, 0, 0, 0, 3])


def test_a_graph_without_edges_has_walks_of_one_node():
    graph = make_graph(np.empty((0, 2), np.int64), 2)
    walked = random_walks(graph, np.array([1, 0]), 3, seed=0)
    assert walked.dtype == np.int32
    np.testing.assert_array_equal(walked, [[1, -1, -1], [0, -1, -1]])


def test_walks_end_at_leaves_of_a_directed_forest():
    # Two paths, 0 -> 1 -> 2 and 3 -> 4.
    graph = make_graph(np.array([[0, 1], [1, 2], [3, 4]]), 5, directed=True)
    walked = random_walks(graph, np.arange(5), 4, seed=1)
    expected = [[0, 1, 2, -1], [1, 2, -1, -1], [2, -1, -1, -1], [3, 4, -1, -1], [4, -1, -1, -1]]
    np.testing.assert_array_equal(walked, expected)
    np.testing.assert_array_equal(random_walks(graph, np.arange(5), 1, 1), np.arange(5)[:, None])


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), nodes=st.integers(1, 9), directed=st.booleans())
def test_every_step_is_an_edge_and_ends_are_nodes_without_one(seed, nodes, directed):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, nodes, (rng.integers(0, 12), 2))
    allowed = {(a, b) for a, b in edges.tolist()}
    allowed |= set() if directed else {(b, a) for a, b in allowed}
    walked = random_walks(make_graph(edges, nodes, directed), rng.integers(0, nodes, 20), 6, seed)
    for walk in walked.tolist():
        for a, b in itertools.pairwise(walk):
            if b == -1:
                assert a == -1 or not any(source == a for source, _ in allowed)
            else:
                assert (a, b) in allowed


def test_neighbours_are_equally_likely_and_repeated_ones_twice_as_much():
    graph = Graph(np.array([0, 4, 4, 4, 4]), np.array([1, 2, 3, 3]))
    seen = np.bincount(random_walks(graph, np.zeros(40_000, int), 2, seed=0)[:, 1])
    # Four standard deviations of a binomial.
    np.testing.assert_allclose(seen / 40_000, [0, 0.25, 0.25, 0.5], atol=0.01)


def test_steps_do_not_depend_on_the_steps_before():
    graph = make_graph(np.array([[0, 1], [0, 0], [1, 0], [1, 1]]), 2, directed=True)
    walked = random_walks(graph, np.zeros(40_000, int), 3, seed=0)
    pairs = np.bincount(walked[:, 1] * 2 + walked[:, 2])
    np.testing.assert_allclose(pairs / 40_000, 0.25, atol=0.01)


def test_walks_repeat_with_their_seed_only(monkeypatch):
    graph = make_graph(np.random.default_rng(0).integers(0, 50, (200, 2)), 50)
    starts = np.tile(np.arange(50), 4)
    first = random_walks(graph, starts, 8, seed=3)
    np.testing.assert_array_equal(random_walks(graph, starts, 8, seed=3), first)
    assert (random_walks(graph, starts, 8, seed=4) != first).any()
    monkeypatch.setattr(walks, "_WALKS_AT_ONCE", 33)
    in_blocks = random_walks(graph, starts, 8, seed=3)
    np.testing.assert_array_equal(in_blocks[:, 0], starts)
    assert not (in_blocks[:33] == in_blocks[50:83]).all()


@pytest.mark.parametrize(
    ("offsets", "neighbours", "problem"),
    [
        ([0], [], "no nodes"),
        ([0, 2, 1], [0], "offsets fall after place 1: 2, 1"),
        ([0, 1], [0, 0], "from 0 to 1, neighbours from 0 to 2"),
        ([1, 1], [0], "from 1 to 1"),
        ([0, 1], [1], "neighbours, row 0: 1 in a graph of 1 nodes"),
        ([0, 1], [-1], "neighbours, row 0: -1"),
        ([0.0, 1.0], [0], "offsets are float64"),
        ([[0, 1]], [0], r"offsets have shape \(1, 2\)"),
    ],
)
def test_graphs_that_are_none(offsets, neighbours, problem):
    with pytest.raises(InputError, match=problem):
        Graph(np.array(offsets), np.array(neighbours, int))


@pytest.mark.parametrize(
    ("edges", "nodes", "problem"),
    [
        ([[0, 1], [0, 2]], 2, r"edges, row 1: \[0 2\] in a graph of 2 nodes"),
        ([[-1, 0]], 2, "edges, row 0"),
        ([[0, 1, 2]], 3, r"edges have shape \(1, 3\)"),
        ([[0, 2**32]], 1, "edges, row 0"),
        ([[0.5, 1.0]], 2, "edges are float64"),
        (np.empty((0, 2), int), 0, "no nodes"),
    ],
)
def test_edges_that_make_no_graph(edges, nodes, problem):
    with pytest.raises(InputError, match=problem):
        make_graph(np.array(edges), nodes)


@pytest.mark.parametrize(
    ("starts", "length", "problem"),
    [
        ([0, 2], 3, "starts, row 1: 2 in a graph of 2 nodes"),
        ([], 3, "no node to start from"),
        ([0], 0, "length is 0"),
        ([[0]], 3, r"starts have shape \(1, 1\)"),
    ],
)
def test_walks_that_cannot_start(starts, length, problem):
    graph = make_graph(np.array([[0, 1]]), 2)
    with pytest.raises(InputError, match=problem):
        random_walks(graph, np.array(starts, int), length, seed=0)
