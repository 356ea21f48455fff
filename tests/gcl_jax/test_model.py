"""Encoders: closed forms, parity with jraph, and what must not change a vector."""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest

from gcl_jax.config import DataConfig, ModelConfig
from gcl_jax.data import forest_of
from gcl_jax.encoding import encode_tables, index_formulas, jit_encoder
from gcl_jax.formulas.trees import Tree
from gcl_jax.graphs import index_forest, make_graphs, make_vocabulary, pack
from gcl_jax.model import FEATURES, init_params, make_encoder, unit_vectors
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_graphs import random_formulas, to_graphs_tuple

FORMULAS = random_formulas(9, 1)
VOCABULARY = make_vocabulary([FORMULAS.slt, FORMULAS.opt])
TINY = ModelConfig(hidden=8, dim=64, depth=2)
GIN = dataclasses.replace(TINY, encoder="gin")
MODELS = {
    "paths": TINY,
    "gin": GIN,
    "published": dataclasses.replace(GIN, edges="none", direction=False, layout="slt"),
    "scale": dataclasses.replace(GIN, edges="scale", pooling="attention", layout="opt"),
    "mean": dataclasses.replace(GIN, pooling="mean", norm="none", direction=False),
}


def graphs_of(forest, num_nodes):
    table = index_forest(forest, VOCABULARY)
    columns = pack(table, np.arange(len(forest))[None], num_nodes)
    return make_graphs({k: jnp.asarray(v[0]) for k, v in columns.items()}, len(forest))


def encoder_of(config):
    encoder = make_encoder(config, VOCABULARY, config.hidden)
    return encoder, jax.jit(functools.partial(init_params, encoder))(jax.random.key(0))


@pytest.mark.parametrize("name", MODELS)
def test_a_vector_depends_on_its_formula_alone(name):
    encoder, params = encoder_of(MODELS[name])
    encode = jit_encoder(encoder)
    tables = index_formulas(FORMULAS, VOCABULARY, MODELS[name].layout, DataConfig())
    together = encode_tables(encode, params, tables)
    for index in (0, 5):
        alone = encode_tables(
            encode, params, {n: t.subset(np.array([index])) for n, t in tables.items()}
        )
        for layout, vectors in together.items():
            np.testing.assert_allclose(alone[layout][0], vectors[index], rtol=1e-4, atol=1e-5)
    widths = {"paths": 64}
    assert {v.shape for v in together.values()} == {(9, widths.get(name, 16))}
    unit = unit_vectors({n: jnp.asarray(v) for n, v in together.items()})
    np.testing.assert_allclose(jnp.linalg.norm(unit, axis=1), 1, rtol=1e-5)


def test_the_published_network_equals_one_of_jraph():
    encoder, params = encoder_of(MODELS["published"])
    graphs = graphs_of(FORMULAS.slt, 96)
    got = encoded(encoder, params, graphs)
    weights = params["slt"]
    features = jnp.concatenate(
        [weights[FEATURES]["types"][graphs.types], weights[FEATURES]["labels"][graphs.labels]], 1
    )
    theirs, pooled = to_graphs_tuple(graphs), []
    states = features
    for layer in range(2):

        def perceptron(nodes, sent, received, globals_, layer=layer):
            summed = (1 + weights[f"epsilon_{layer}"]) * nodes + received
            hidden = nn.relu(summed @ weights[f"own_{layer}"] + weights[f"bias_{layer}"][None])
            dense = weights[f"dense_{layer}"]
            out = hidden @ dense["kernel"] + dense["bias"][None]
            return nn.relu(nn.LayerNorm().apply({"params": weights[f"norm_{layer}"]}, out))

        network = jraph.GraphNetwork(
            lambda edges, sent, received, globals_: sent * edges[:, None], perceptron
        )
        alive = theirs.edges["alive"].astype(jnp.float32)
        states = network(theirs._replace(nodes=states, edges=alive)).nodes
        present = jnp.where(graphs.alive[:, None], states, 0)
        pooled.append(jraph.segment_sum(present, graphs.graphs, 10)[:9])
    np.testing.assert_allclose(got, jnp.concatenate(pooled, 1), rtol=1e-4, atol=1e-4)


def change(tree, node, label=None, edge=None):
    labels, edges = list(tree.labels), list(tree.edge_labels)
    labels[node] = label or labels[node]
    edges[node] = edge or edges[node]
    return dataclasses.replace(tree, labels=tuple(labels), edge_labels=tuple(edges))


# a over b next x, children in both orders of their names.
TREE = Tree("slt", ("=", "V!a", "V!b", "V!x"), (-1, 0, 1, 2), ("", "n", "a", "b"))


@pytest.mark.parametrize("name", ["paths", "gin", "scale"])
def test_edges_and_their_order_count(name):
    config = dataclasses.replace(MODELS[name], layout="slt")
    swapped = dataclasses.replace(TREE, edge_labels=("", "n", "b", "a"))
    encoder, params = encoder_of(config)
    graphs = graphs_of(forest_of([TREE, change(TREE, 1, edge="a"), swapped, TREE]), 16)
    vectors = encoded(encoder, params, graphs)
    assert jnp.abs(vectors[1] - vectors[0]).max() > 1e-3
    assert jnp.abs(vectors[2] - vectors[0]).max() > 1e-3
    np.testing.assert_allclose(vectors[3], vectors[0], atol=1e-5)


def test_the_published_network_does_not_see_edge_labels():
    encoder, params = encoder_of(MODELS["published"])
    graphs = graphs_of(forest_of([TREE, change(TREE, 1, edge="a")]), 8)
    vectors = encoded(encoder, params, graphs)
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-5)


def paths_of(trees, depth=2, dim=2**14, **params):
    """Vectors of layout trees without end marks, `[trees, dim]`, wide enough not to collide."""
    config = ModelConfig(layout="slt", depth=depth, dim=dim)
    encoder, fresh = encoder_of(config)
    graphs = graphs_of(forest_of(trees), 64)
    return encoded(encoder, {"slt": {**fresh["slt"], **params}}, graphs)


def encoded(encoder, params, graphs):
    return jax.jit(encoder.apply)({"params": params}, {"slt": graphs})["slt"]


def line(*labels):
    return Tree("slt", labels, tuple(range(-1, len(labels) - 1)), ("", *"n" * (len(labels) - 1)))


def test_paths_are_a_set():
    few, many, one = (line(*("V!x", "=") * count) for count in (3, 6, 1))
    vectors = paths_of([few, many, one])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert jnp.linalg.norm(vectors[2]) < jnp.linalg.norm(vectors[0])


def test_the_product_of_two_vectors_counts_the_paths_that_they_share():
    lengths = jnp.zeros((2, 3))  # each path counts 1
    a, b = line("V!a", "+", "V!b"), line("V!a", "+", "V!a")
    vectors = paths_of([a, b], lengths=lengths)
    # Labels: 3 nodes, 2 edges, 1 path of 2 edges; types: V!, +; V! +, + V!; V! + V!.
    expected = [[6 + 5, 3 + 5], [3 + 5, 5 + 5]]
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=0.6)


def test_weights_of_ends_edges_and_lengths_multiply():
    # Of "a =", only paths of one length are left, and only those between labels.
    def norm(**params):
        lengths = jnp.full((2, 3), -50.0)
        lengths = lengths.at[0, params.pop("length")].set(0.0)
        (vector,) = paths_of([line("V!a", "=")], lengths=lengths, **params)
        return float(jnp.linalg.norm(vector))

    types = jnp.zeros(len(VOCABULARY.types)).at[VOCABULARY.types.index("V!")].set(np.log(2.0))
    labels = jnp.zeros(VOCABULARY.label_ids).at[VOCABULARY.labels.index("=")].set(np.log(3.0))
    edges = jnp.zeros(len(VOCABULARY.edges)).at[VOCABULARY.edges.index("n")].set(np.log(5.0))
    weights = {"types": types, "labels": labels, "edges": edges}
    assert norm(length=1) == pytest.approx(1, rel=1e-3)
    assert norm(length=1, **weights) == pytest.approx(30, rel=1e-3)
    assert norm(length=0, **weights) == pytest.approx((4 + 9) ** 0.5, rel=1e-3)
    assert norm(length=2, **weights) < 1e-6


def test_another_salt_is_another_hash_of_the_same_paths():
    configs = [ModelConfig(layout="slt", dim=2**14, salt=salt) for salt in (0, 1)]
    graphs = graphs_of(forest_of([line("V!a", "+", "V!b")]), 8)
    first, second = (
        encoded(encoder, params, graphs)[0] for encoder, params in map(encoder_of, configs)
    )
    assert jnp.linalg.norm(first) == pytest.approx(float(jnp.linalg.norm(second)), rel=0.05)
    assert abs(first @ second) < 0.2 * first @ first


def test_the_product_with_a_small_vocabulary_is_the_product_with_each_node():
    encoder, params = encoder_of(dataclasses.replace(GIN, layout="slt"))
    few = graphs_of(forest_of([TREE]), 8)  # fewer nodes than labels
    many = graphs_of(forest_of([TREE]), 64)
    assert 8 < len(VOCABULARY.labels) < 64
    encode = jit_encoder(encoder)
    vectors = [
        encode(params, {"slt": {k: getattr(g, k) for k in ("types", "labels", "edges", "parents",
                                                           "subtree_sizes", "graphs")}}, 1)["slt"]
        for g in (few, many)
    ]  # fmt: skip
    np.testing.assert_allclose(*vectors, rtol=1e-4, atol=1e-5)


def test_settings_are_checked():
    with pytest.raises(InputError, match=r"model\.depth is 0"):
        ModelConfig(depth=0)
    for field in ("formulas", "max_nodes", "min_count"):
        with pytest.raises(InputError, match=rf"data\.{field} is -5"):
            DataConfig(**{field: -5})
    assert DataConfig(formulas=None).formulas is None
    with pytest.raises(InputError, match="paths has no node features"):
        ModelConfig(encoder="paths", features="fasttext")
