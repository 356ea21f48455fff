"""Encoders of formula graphs (flax.linen)."""

from typing import Any

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
    max_by_graph,
    softmax_by_graph,
    sum_by_graph,
)
from retrieval_jax.losses import l2_normalize
from retrieval_jax.params import Params

LAYOUTS: dict[str, tuple[Layout, ...]] = {"slt": ("slt",), "opt": ("opt",), "both": ("slt", "opt")}
FEATURES = "features"
"""Name of the tables of node features; fixed ones are frozen by it."""

OUTPUT = "output"


class NodeFeatures(nn.Module):
    """Vectors of types and labels, looked up.

    Attributes:
        types: number of types.
        labels: number of labels.
        dim: width of each table.
    """

    types: int
    labels: int
    dim: int

    def setup(self) -> None:
        """Makes the tables."""
        normal = nn.initializers.normal(1.0)
        self.type_table = self.param("types", normal, (self.types, self.dim))
        self.label_table = self.param("labels", normal, (self.labels, self.dim))

    def project(self, graphs: Graphs, type_kernel: jax.Array, label_kernel: jax.Array) -> jax.Array:
        """[type vector ; label vector] times a matrix, `[nodes, features]`.

        Of types, and of labels where they are fewer than nodes, each is multiplied once.

        Args:
            graphs: whose nodes.
            type_kernel: `[dim, features]`, upper half of the matrix.
            label_kernel: `[dim, features]`, lower half.
        """
        of_types = (self.type_table @ type_kernel)[graphs.types]
        if self.labels <= len(graphs.labels):
            return of_types + (self.label_table @ label_kernel)[graphs.labels]
        return of_types + self.label_table[graphs.labels] @ label_kernel


class Gin(nn.Module):
    """Graph isomorphism network: layers of messages and perceptrons, each pooled.

    With `edges="none"` and no `direction` the published encoder, but for its norm; the order of the
    first product of a perceptron and the sum of messages is free, and ours multiplies first.

    References:
        Xu et al., "How powerful are graph neural networks?", 2019, equation 4.1.

    Attributes:
        config: architecture.
        types: number of types.
        labels: number of labels.
        edge_labels: number of edge labels.
        feature_dim: width of each table of features.
    """

    config: ModelConfig
    types: int
    labels: int
    edge_labels: int
    feature_dim: int

    @nn.compact
    def __call__(self, graphs: Graphs) -> jax.Array:
        """Vectors of graphs, float32 `[num_graphs, layers * hidden]`."""
        config, hidden = self.config, self.config.hidden
        features = NodeFeatures(self.types, self.labels, self.feature_dim, name=FEATURES)
        # A product with one-hot rows, since the gradient of a product is a product.
        edges = jax.nn.one_hot(graphs.edges, self.edge_labels)  # [nodes, edge labels]
        edges = jnp.where(graphs.has_edge[:, None], edges, 0.0)
        edges_below = from_children(edges, graphs) if config.edges == "sum" else edges
        states, pooled = None, []
        for layer in range(config.layers):

            def project(name: str, states: jax.Array | None = states) -> jax.Array:
                rows = 2 * self.feature_dim if states is None else hidden
                kernel = self.param(name, nn.initializers.lecun_normal(), (rows, hidden))
                if states is None:
                    return features.project(graphs, *jnp.split(kernel, 2))
                return states @ kernel

            def edge_vectors(name: str, rows: jax.Array) -> jax.Array:
                init = nn.initializers.normal(0.1 if config.edges == "scale" else 1.0)
                return rows @ self.param(name, init, (self.edge_labels, hidden))

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


class Paths(nn.Module):
    """A formula as the set of its paths, each hashed into few dimensions by learned vectors.

    A path is its two ends and the edges between. The vector of a path of `k` edges is the product,
    dimension by dimension, of the lower end's vector, the upper end's, rotated by `k`, and the
    edges', each rotated by its place (binding by products, as in Plate's holographic reduced
    representations, 1995). A dense layer with a negative bias makes it sparse, and the maximum over
    nodes makes a set of it: a path that occurs ten times counts once, and similar symbols share
    dimensions.

    Attributes:
        config: architecture.
        types: number of types.
        labels: number of labels.
        edge_labels: number of edge labels.
        feature_dim: width of each table of features.
    """

    config: ModelConfig
    types: int
    labels: int
    edge_labels: int
    feature_dim: int

    @nn.compact
    def __call__(self, graphs: Graphs) -> jax.Array:
        """Vectors of graphs, float32 `[num_graphs, (depth + 1) * dim]`, not negative."""
        config = self.config
        features = NodeFeatures(self.types, self.labels, self.feature_dim, name=FEATURES)
        shape = (2 * self.feature_dim, config.hidden)
        lower_end, ancestor = (
            features.project(graphs, *jnp.split(self.param(name, _end_kernel, shape), 2))
            for name in ("lower_end", "upper_end")
        )
        edge_table = self.param(
            "edges", nn.initializers.normal(1.0), (self.edge_labels, config.hidden)
        )
        edges = jax.nn.one_hot(graphs.edges, self.edge_labels) @ edge_table  # [nodes, hidden]
        exists, parts = graphs.alive, []
        for length in range(config.depth + 1):
            path = lower_end
            if length:
                ancestor = jnp.roll(from_parents(ancestor, graphs), 1, axis=1) * edges
                exists = graphs.has_edge & exists[graphs.parents]
                path = lower_end * ancestor
            path = path * jax.lax.rsqrt(jnp.mean(jnp.square(path), axis=1, keepdims=True) + 1e-6)
            code = nn.Dense(
                config.dim,
                bias_init=nn.initializers.constant(-config.threshold),
                name=f"code_{length}",
            )(path)
            code = jnp.where(exists[:, None], nn.relu(code), 0.0)  # [nodes, dim]
            weight = self.param(f"weight_{length}", _part_weight(length), ())
            parts.append(weight * max_by_graph(code, graphs))
        return jnp.concatenate(parts, axis=1)


def _end_kernel(rng: jax.Array, shape: tuple[int, int], dtype: Any = jnp.float32) -> jax.Array:
    """Types make a third of an end's vector, labels two."""
    kernel = jax.random.normal(rng, shape, dtype) / np.sqrt(shape[0] / 2)
    return kernel * jnp.repeat(jnp.sqrt(jnp.array([1 / 3, 2 / 3])), shape[0] // 2)[:, None]


def _part_weight(length: int) -> nn.initializers.Initializer:
    """Single symbols say less than paths."""
    return nn.initializers.constant(1.0 if length else 0.5)


class FormulaEncoder(nn.Module):
    """An encoder for each layout.

    Attributes:
        config: architecture.
        types: number of types.
        labels: number of labels.
        edge_labels: number of edge labels.
        feature_dim: width of each table of features.
    """

    config: ModelConfig
    types: int
    labels: int
    edge_labels: int
    feature_dim: int

    @nn.compact
    def __call__(self, graphs: dict[str, Graphs]) -> dict[str, jax.Array]:
        """Vectors of each layout, float32 `[num_graphs, dim]`, of any length."""
        encoder = {"gin": Gin, "paths": Paths}[self.config.encoder]
        sizes = (self.types, self.labels, self.edge_labels, self.feature_dim)
        vectors = {
            layout: encoder(self.config, *sizes, name=layout)(graphs[layout])
            for layout in LAYOUTS[self.config.layout]
        }
        if self.config.output is None:
            return vectors
        return {
            layout: nn.Dense(self.config.output, use_bias=False, name=f"{layout}_{OUTPUT}")(wide)
            for layout, wide in vectors.items()
        }


def make_encoder(config: ModelConfig, vocabulary: Vocabulary, feature_dim: int) -> FormulaEncoder:
    """The encoder of a configuration; `feature_dim` is that of fastText, or `hidden`."""
    sizes = len(vocabulary.types), len(vocabulary.labels), len(vocabulary.edges)
    return FormulaEncoder(config, *sizes, feature_dim)


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
