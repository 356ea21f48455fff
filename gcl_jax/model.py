"""Encoders of formula graphs (flax.linen)."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from gcl_jax.config import ModelConfig
from gcl_jax.formulas.trees import Layout
from gcl_jax.graphs import (
    Graphs,
    Vocabulary,
    from_children,
    from_parents,
    softmax_by_graph,
    sum_by_graph,
)
from retrieval_jax.losses import l2_normalize
from retrieval_jax.params import Params

LAYOUTS: dict[str, tuple[Layout, ...]] = {"slt": ("slt",), "opt": ("opt",), "both": ("slt", "opt")}
FEATURES = "features"
"""Name of the tables of node features; fixed ones are frozen by it."""

PLACES = 4
"""Of a vector that each path is added to."""


class Sizes(NamedTuple):
    """How many symbols an encoder tells apart.

    Attributes:
        types: of nodes.
        labels: of nodes.
        edge_labels: labels of edges.
        feature_dim: width of each table of node features, of `gin`.
    """

    types: int
    labels: int
    edge_labels: int
    feature_dim: int


class NodeFeatures(nn.Module):
    """Vectors of types and labels, looked up.

    Attributes:
        sizes: numbers of symbols, and the width of each table.
    """

    sizes: Sizes

    def setup(self) -> None:
        """Makes the tables."""
        normal = nn.initializers.normal(1.0)
        sizes = self.sizes
        self.type_table = self.param("types", normal, (sizes.types, sizes.feature_dim))
        self.label_table = self.param("labels", normal, (sizes.labels, sizes.feature_dim))

    def project(self, graphs: Graphs, type_kernel: jax.Array, label_kernel: jax.Array) -> jax.Array:
        """[type vector ; label vector] times a matrix, `[nodes, features]`.

        Of types, and of labels where they are fewer than nodes, each is multiplied once.

        Args:
            graphs: whose nodes.
            type_kernel: `[dim, features]`, upper half of the matrix.
            label_kernel: `[dim, features]`, lower half.
        """
        of_types = (self.type_table @ type_kernel)[graphs.types]
        if self.sizes.labels <= len(graphs.labels):
            return of_types + (self.label_table @ label_kernel)[graphs.labels]
        return of_types + self.label_table[graphs.labels] @ label_kernel


class GraphEncoder(nn.Module):
    """What encoders have in common.

    Attributes:
        config: architecture.
        sizes: numbers of symbols.
    """

    config: ModelConfig
    sizes: Sizes


class Gin(GraphEncoder):
    """Graph isomorphism network: layers of messages and perceptrons, each pooled.

    With `edges="none"` and no `direction` the published encoder, but for its norm; the order of the
    first product of a perceptron and the sum of messages is free, and ours multiplies first.

    References:
        Xu et al., "How powerful are graph neural networks?", 2019, equation 4.1.
    """

    @nn.compact
    def __call__(self, graphs: Graphs) -> jax.Array:
        """Vectors of graphs, float32 `[num_graphs, layers * hidden]`."""
        config, hidden = self.config, self.config.hidden
        features, edge_labels = NodeFeatures(self.sizes, name=FEATURES), self.sizes.edge_labels
        # A product with one-hot rows, since the gradient of a product is a product.
        edges = jax.nn.one_hot(graphs.edges, edge_labels)  # [nodes, edge labels]
        edges = jnp.where(graphs.has_edge[:, None], edges, 0.0)
        edges_below = from_children(edges, graphs) if config.edges == "sum" else edges
        states, pooled = None, []
        for layer in range(config.layers):

            def project(name: str, states: jax.Array | None = states) -> jax.Array:
                rows = 2 * self.sizes.feature_dim if states is None else hidden
                kernel = self.param(name, nn.initializers.lecun_normal(), (rows, hidden))
                if states is None:
                    return features.project(graphs, *jnp.split(kernel, 2))
                return states @ kernel

            def edge_vectors(name: str, rows: jax.Array) -> jax.Array:
                init = nn.initializers.normal(0.1 if config.edges == "scale" else 1.0)
                return rows @ self.param(name, init, (edge_labels, hidden))

            own = project(f"own_{layer}")  # [nodes, hidden]
            downward = project(f"down_{layer}") if config.direction else own
            upward = project(f"up_{layer}") if config.direction else own
            if config.edges == "scale":
                upward = upward * (1 + edge_vectors(f"up_edges_{layer}", edges))
            from_above, from_below = from_parents(downward, graphs), from_children(upward, graphs)
            if config.edges == "scale":
                from_above = from_above * (1 + edge_vectors(f"down_edges_{layer}", edges))
            if config.edges == "sum":
                from_above += edge_vectors(f"down_edges_{layer}", edges)
                from_below += edge_vectors(f"up_edges_{layer}", edges_below)
            epsilon = self.param(f"epsilon_{layer}", nn.initializers.zeros, ())
            bias = self.param(f"bias_{layer}", nn.initializers.zeros, (hidden,))
            summed = (1 + epsilon) * own + from_above + from_below + bias[None]
            states = nn.Dense(hidden, name=f"dense_{layer}")(nn.relu(summed))
            if config.norm == "layer":
                states = nn.LayerNorm(name=f"norm_{layer}")(states)
            states = nn.relu(states)
            pooled.append(self._pool(states, graphs, layer))
        return jnp.concatenate(pooled, axis=1)

    def _pool(self, states: jax.Array, graphs: Graphs, layer: int) -> jax.Array:
        if self.config.pooling == "sum":
            return sum_by_graph(states, graphs)
        if self.config.pooling == "mean":
            sizes = sum_by_graph(jnp.ones((len(states), 1)), graphs)
            return sum_by_graph(states, graphs) / jnp.maximum(sizes, 1.0)
        logits = nn.Dense(1, name=f"attention_{layer}")(states)[:, 0]
        return sum_by_graph(states * softmax_by_graph(logits, graphs)[:, None], graphs)


class Paths(GraphEncoder):
    """A formula as the set of its paths: each is hashed, weighed and added up.

    A path is its two ends and the edges between, once with the ends' labels and once with their
    types alone. By its hash it is added, with random signs, to a few places of the vector, so that
    the inner product of two vectors estimates how much the sets share (sparse random projection:
    Weinberger et al., "Feature hashing for large scale multitask learning", 2009). A path that
    occurs ten times counts once. What is learned is how much a path weighs: the product of the
    weights of its length, its ends and its edges.
    """

    @nn.compact
    def __call__(self, graphs: Graphs) -> jax.Array:
        """Vectors of graphs, float32 `[num_graphs, dim]`."""
        zeros = nn.initializers.zeros
        type_gates = self.param("types", zeros, (self.sizes.types,))[graphs.types]
        label_gates = self.param("labels", zeros, (self.sizes.labels,))[graphs.labels]
        edge_gates = self.param("edges", zeros, (self.sizes.edge_labels,))[graphs.edges]
        kinds = (graphs.labels, type_gates + label_gates), (graphs.types, type_gates)
        weights = self.param("lengths", _length_weights, (len(kinds), self.config.depth + 1))
        hashes, logs, exists = [], [], []
        for kind, (ids, gates) in enumerate(kinds):
            ids = ids.astype(jnp.uint32)
            # Of each node's ancestor and the way from there: hash, weight, and whether it exists.
            above = _mix(jnp.uint32(2 * self.config.salt + kind), ids)
            way, here = gates, graphs.alive
            for length in range(self.config.depth + 1):
                if length:
                    above = _mix(above[graphs.parents], graphs.edges.astype(jnp.uint32))
                    way = way[graphs.parents] + edge_gates
                    here = graphs.has_edge & here[graphs.parents]
                hashes.append(_mix(above, ids))
                logs.append(weights[kind, length] + (way + gates if length else gates))
                exists.append(here)
        of_graphs = jnp.tile(graphs.graphs, len(hashes))
        of_graphs = jnp.where(jnp.concatenate(exists), of_graphs, graphs.num_graphs)
        return self._sketch(
            jnp.concatenate(hashes), jnp.concatenate(logs), of_graphs, graphs.num_graphs
        )

    def _sketch(
        self, hashes: jax.Array, logs: jax.Array, graphs: jax.Array, num_graphs: int
    ) -> jax.Array:
        """Adds distinct paths up, float32 `[num_graphs, dim]`.

        Args:
            hashes: uint32 `[paths]`.
            logs: float32 `[paths]`, logarithms of the weights.
            graphs: int32 `[paths]`, of which graph; `num_graphs` where there is no such path.
            num_graphs: how many.
        """
        graphs, hashes, order = jax.lax.sort((graphs, hashes, jnp.arange(len(hashes))), num_keys=2)
        again = (graphs[1:] == graphs[:-1]) & (hashes[1:] == hashes[:-1])
        counts = jnp.concatenate([jnp.ones(1, bool), ~again]) & (graphs < num_graphs)
        weights = jnp.where(counts, jnp.exp(logs[order]), 0.0) / np.sqrt(PLACES)
        dim = self.config.dim
        vectors = jnp.zeros((num_graphs + 1) * dim)
        for place in range(PLACES):
            drawn = _mix(hashes, jnp.uint32(place))
            signed = jnp.where(drawn >> 31, -weights, weights)
            vectors = vectors.at[graphs * dim + (drawn % dim).astype(jnp.int32)].add(signed)
        return vectors.reshape(num_graphs + 1, dim)[:-1]


def _mix(first: jax.Array, second: jax.Array) -> jax.Array:
    """A hash of two uint32 numbers (the last steps of MurmurHash3)."""
    mixed = first * jnp.uint32(0x9E3779B1) + second
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(factor)
    return mixed ^ (mixed >> 16)


def _length_weights(rng: jax.Array, shape: tuple[int, int], dtype: Any = jnp.float32) -> jax.Array:
    """Logarithms of weights: symbols say less than paths, types a little less than labels."""
    del rng
    weights = jnp.zeros(shape, dtype).at[:, 0].set(np.log(0.5))
    return weights.at[1].add(np.log(0.7) / 2)


class FormulaEncoder(GraphEncoder):
    """An encoder for each layout."""

    @nn.compact
    def __call__(self, graphs: dict[str, Graphs]) -> dict[str, jax.Array]:
        """Vectors of each layout, float32 `[num_graphs, dim]`, of any length."""
        encoder = {"gin": Gin, "paths": Paths}[self.config.encoder]
        return {
            layout: encoder(self.config, self.sizes, name=layout)(graphs[layout])
            for layout in LAYOUTS[self.config.layout]
        }


def make_encoder(config: ModelConfig, vocabulary: Vocabulary, feature_dim: int) -> FormulaEncoder:
    """The encoder of a configuration; `feature_dim` is that of fastText, or `hidden`."""
    sizes = len(vocabulary.types), vocabulary.label_ids, len(vocabulary.edges)
    return FormulaEncoder(config, Sizes(*sizes, feature_dim))


def init_params(encoder: FormulaEncoder, rng: jax.Array) -> Params:
    """Fresh parameters, traced on graphs of one node."""
    zero, one = jnp.zeros(1, jnp.int32), jnp.ones(1, jnp.int32)
    graph = Graphs(zero, zero, zero, zero, one, zero, one > 0, num_graphs=1)
    variables: Any = encoder.init(rng, dict.fromkeys(LAYOUTS[encoder.config.layout], graph))
    return variables["params"]


def unit_vectors(vectors: dict[str, jax.Array]) -> jax.Array:
    """Vectors of both layouts side by side, of unit length, each layout with the same share."""
    parts = [l2_normalize(of_layout) for of_layout in vectors.values()]
    return jnp.concatenate(parts, axis=1) / np.sqrt(len(parts))
