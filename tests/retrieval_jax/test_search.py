import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from retrieval_jax import search
from retrieval_jax.errors import InputError
from retrieval_jax.search import hold, top_k


def reference(queries, documents, k):
    """All scores in float64, sorted stably."""
    scores = np.asarray(queries, np.float64) @ np.asarray(documents, np.float64).T
    indices = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, indices, axis=1), indices


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([1, 7, 12]),
    k=st.sampled_from([1, 4, 14]),
    block_size=st.sampled_from([3, 5, 12]),
    query_block=st.sampled_from([2, 5]),
)
def test_equals_a_stable_sort_of_all_scores(seed, n, k, block_size, query_block):
    # Small integers: exact products, and ties within and across blocks.
    rng = np.random.default_rng(seed)
    queries = rng.integers(-1, 2, (5, 2)).astype(np.float32)
    documents = rng.integers(-1, 2, (n, 2)).astype(np.float32)
    scores, indices = top_k(queries, documents, k, block_size, query_block)
    expected_scores, expected_indices = reference(queries, documents, k)
    np.testing.assert_array_equal(indices, expected_indices)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("block_size", [7, 64, 1000])
def test_real_vectors_on_host_and_device_agree(block_size):
    rng = np.random.default_rng(0)
    queries, documents = rng.normal(size=(9, 16)), rng.normal(size=(300, 16))
    expected_scores, expected_indices = reference(queries, documents, 20)
    for place in (np.asarray, jnp.asarray):
        scores, indices = top_k(place(queries), place(documents), 20, block_size, query_block=4)
        assert scores.dtype == jnp.float32
        assert indices.dtype == jnp.int32
        np.testing.assert_array_equal(indices, expected_indices)
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-5, atol=1e-5)


def test_k_beyond_the_documents_ranks_them_all():
    scores, indices = top_k(np.ones((1, 1)), np.array([[1.0], [3.0], [2.0]]), k=10, block_size=2)
    assert scores.tolist() == [[3.0, 2.0, 1.0]]
    assert indices.tolist() == [[1, 2, 0]]


def test_negative_and_positive_zero_tie():
    _, indices = top_k(np.array([[-1.0]]), np.array([[0.0], [-0.0], [0.0]]), k=3)
    assert indices.tolist() == [[0, 1, 2]]
    documents = np.full((2048, 1), -0.0)
    documents[:16] = 0.0
    _, indices = top_k(np.array([[-1.0]]), _held_in_groups(documents, 15), k=15)
    assert indices.tolist() == [list(range(15))]


def test_bfloat16_accumulates_in_float32():
    # In bfloat16 256 + 1 is 256: the sums would tie.
    documents = jnp.array([[256, 0, 0], [256, 1, 0], [256, 1, 1]], jnp.bfloat16)
    scores, indices = top_k(jnp.ones((1, 3), jnp.bfloat16), documents, k=3, block_size=2)
    assert scores.tolist() == [[258.0, 257.0, 256.0]]
    assert indices.tolist() == [[2, 1, 0]]


def test_documents_sharded_over_a_mesh():
    rng = np.random.default_rng(1)
    queries, documents = rng.integers(-2, 3, (3, 4)), rng.integers(-2, 3, (64, 4))
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    sharded = jax.device_put(
        documents.astype(np.float32), NamedSharding(mesh, PartitionSpec("data"))
    )
    _, indices = top_k(queries.astype(np.float32), sharded, k=10, block_size=24)
    np.testing.assert_array_equal(indices, reference(queries, documents, 10)[1])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"k": 0}, "k is 0"),
        ({"block_size": 0}, "block_size is 0"),
        ({"query_block": -1}, "query_block is -1"),
        ({"queries": np.ones(2)}, r"queries has shape \(2,\)"),
        ({"documents": np.ones((0, 2))}, r"documents has shape \(0, 2\)"),
        ({"documents": np.ones((4, 3))}, "queries have dim 2, documents 3"),
        ({"documents": np.array([[0, 0], [0, 0], [0, np.nan]])}, "documents: row 2 is not finite"),
        ({"queries": np.array([[np.inf, 0]])}, "queries: row 0 is not finite"),
    ],
)
def test_refuses_bad_input(change, problem):
    arguments = {"queries": np.ones((1, 2)), "documents": np.ones((4, 2)), "k": 1, "block_size": 2}
    with pytest.raises(InputError, match=problem):
        top_k(**{**arguments, **change})


@pytest.mark.parametrize(("block_size", "shape"), [(8, (3, 7, 3)), (1000, (1, 20, 3))])
def test_held_documents_give_the_same_answer(block_size, shape):
    # Negative scores: the zeros that fill the last block would come before them.
    rng = np.random.default_rng(2)
    queries = rng.integers(1, 3, (7, 3)).astype(np.float32)
    documents = rng.integers(-2, 0, (20, 3)).astype(np.float32)
    held = hold(documents, block_size)
    assert np.stack(held.blocks).shape == shape
    assert held.count == 20
    for query_block in (2, 512):
        scores, indices = top_k(queries, held, 20, query_block=query_block)
        expected_scores, expected_indices = reference(queries, documents, 20)
        np.testing.assert_array_equal(indices, expected_indices)
        np.testing.assert_array_equal(scores, expected_scores)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([2000, 2049, 4111]),
    k=st.sampled_from([1, 7, 15]),
)
def test_groups_of_neighbours_keep_equal_documents_in_order(seed, n, k):
    # Few values: ties within and across groups.
    rng = np.random.default_rng(seed)
    queries = rng.integers(-2, 3, (3, 4)).astype(np.float32)
    documents = rng.integers(-2, 3, (n, 4)).astype(np.float32)
    scores, indices = top_k(queries, _held_in_groups(documents, k), k)
    expected_scores, expected_indices = reference(queries, documents, k)
    np.testing.assert_array_equal(indices, expected_indices)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("n", [2041, 2049])
def test_zeros_that_fill_groups_displace_no_group(n):
    # One good document in each group, and zeros would be better: they fill half a group, or that
    # and one more.
    documents = np.full((n, 1), -3, np.float32)
    documents[3::16, 0] = np.linspace(-2, -1, len(documents[3::16]))
    scores, indices = top_k(np.ones((1, 1)), _held_in_groups(documents, 15), 15)
    assert indices.tolist() == [np.arange(3, n, 16)[::-1][:15].tolist()]
    np.testing.assert_array_equal(scores, documents[indices, 0])


def _held_in_groups(documents, k):
    held = hold(documents, 2048)
    size = len(held.blocks[0])
    assert size % search._GROUP == 0
    assert size >= 4 * search._GROUP * (k + 1)
    return held


def test_held_documents_are_scored_by_so_few_queries_that_scores_fit(monkeypatch):
    monkeypatch.setattr(search, "_SCORES", 40)
    shapes = []
    merge = search._merge

    def spy(best_scores, best_indices, queries, documents, *place):
        shapes.append((len(queries), len(documents)))
        return merge(best_scores, best_indices, queries, documents, *place)

    monkeypatch.setattr(search, "_merge", spy)
    top_k(np.ones((5, 1)), hold(np.ones((20, 1))), 3)
    assert shapes == [(2, 20), (2, 20), (1, 20)]


def test_equal_documents_are_ordered_by_index_wherever_they_are():
    # Lengths that leave a remainder in every vector width.
    rng = np.random.default_rng(3)
    documents = np.tile(rng.normal(size=(1, 301)).astype(np.float32), (4099, 1))
    for number, block_size in ((1, 4099), (20, 3000)):
        queries = rng.normal(size=(number, 301)).astype(np.float32)
        scores, indices = top_k(queries, hold(documents, block_size), 4099)
        np.testing.assert_array_equal(indices, np.tile(np.arange(4099), (number, 1)))
        assert (scores == scores[:, :1]).all()


@pytest.mark.parametrize(
    ("documents", "block_size", "problem"),
    [
        (np.ones(3), 1, r"documents has shape \(3,\)"),
        (np.ones((3, 0)), 1, r"documents has shape \(3, 0\)"),
        (np.ones((3, 1)), 0, "block_size is 0"),
        (np.array([[0], [0], [np.nan]]), 2, "documents: row 2 is not finite"),
    ],
)
def test_documents_that_cannot_be_held(documents, block_size, problem):
    with pytest.raises(InputError, match=problem):
        hold(documents, block_size)


def test_queries_of_another_dim_than_the_held_documents():
    with pytest.raises(InputError, match="queries have dim 2, documents 3"):
        top_k(np.ones((1, 2)), hold(np.ones((4, 3))), 1)
