"""The convolutional ranker (section 2 of the paper) as a flax.linen module.

Every query and every document is encoded once, as its half of the perceptron's first layer: that
layer takes `[c_q ; c_q^cat ; c_d ; c_d^cat]`, so it is the sum of a product with the query's part
and one with the document's. What is left for a pair starts from two vectors that are added.

Shapes in this file: packed rows `[rows, width]` (`ltr_jax.data`) of `texts` texts in all, `hidden`
units of a fully connected layer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ltr_jax.config import CATEGORY_WINDOW, ModelConfig
from retrieval_jax.bert import pool
from retrieval_jax.params import Params

SIDES = QUERY, DOCUMENT = ("query", "document")
KINDS = WORDS, CATEGORIES = ("words", "categories")
# Of the similarity that training may begin with: a temperature of 1/20.
SHARPNESS = 20.0


class PooledConvolution(nn.Module):
    """Convolution over a text's vectors, tanh, average over time (section 2.1).

    Attributes:
        filters: m, the width of the result.
        window: h, vectors that a filter sees at a time.
    """

    filters: int
    window: int

    @nn.compact
    def __call__(self, vectors: jax.Array, windows: jax.Array, num_texts: int) -> jax.Array:
        """Gives c of every text.

        Args:
            vectors: `[rows, width, dim]`, the vectors of texts, one after the other.
            windows: int32 `[rows, width]`, where a window begins the number of its text, from 1;
                else 0.
            num_texts: texts in all rows, static.

        Returns:
            `[texts, filters]` float32, zero for a text without a window.
        """
        dim, width = vectors.shape[-1], vectors.shape[1]
        shape = (self.window, dim, self.filters)
        # One filter's weights are a window's.
        init = nn.initializers.lecun_normal(in_axis=(0, 1))
        kernel = self.param("kernel", init, shape)
        bias = self.param("bias", nn.initializers.zeros_init(), (self.filters,))
        padded = jnp.pad(vectors, ((0, 0), (0, self.window - 1), (0, 0)))
        # A sum of shifted products: the windows themselves would be `window` times the batch.
        products = [padded[:, j : j + width] @ kernel[j] for j in range(self.window)]
        hidden = jnp.tanh(sum(products) + bias[None, None])  # [rows, width, filters]
        return pool(hidden, windows, "mean", num_texts)


class Ranker(nn.Module):
    """S(q, d): pooled convolutions of both sides, and a perceptron on their concatenation.

    The convolutions are `{side}_{kind}`, or `{kind}` where both sides share them.

    Attributes:
        config: widths and features.
    """

    config: ModelConfig

    def setup(self) -> None:
        """Declares the convolutions and the perceptron."""
        config = self.config
        shapes = {
            WORDS: (config.filters, config.window),
            CATEGORIES: (config.category_filters, CATEGORY_WINDOW),
        }
        for kind in feature_kinds(config):
            for name in dict.fromkeys(self._filters(side, kind) for side in SIDES):
                setattr(self, name, PooledConvolution(*shapes[kind]))
        # Halves of one layer of 2m inputs, each half as large a fan-in: drawn alike.
        halved = 0.5 if config.interaction == "sum" else 1.0
        init = nn.initializers.variance_scaling(halved, "fan_in", "truncated_normal")
        self.query_half = nn.Dense(config.hidden, kernel_init=init)
        with_bias = config.interaction != "sum"  # of a sum, one bias serves both
        self.document_half = nn.Dense(config.hidden, use_bias=with_bias, kernel_init=init)
        self.layers = [nn.Dense(config.hidden) for _ in range(config.layers - 1)]
        self.output = nn.Dense(1)

    def _filters(self, side: str, kind: str) -> str:
        """Name of the convolution over one kind of vectors of one side."""
        return kind if self.config.shared_filters else f"{side}_{kind}"

    def convolve(
        self, side: str, kind: str, vectors: jax.Array, windows: jax.Array, num_texts: int
    ) -> jax.Array:
        """c or c^cat of texts, `[texts, filters]`; see `PooledConvolution`."""
        return getattr(self, self._filters(side, kind))(vectors, windows, num_texts)

    def half(self, side: str, pooled: Sequence[jax.Array]) -> jax.Array:
        """A side's half of the first layer.

        Args:
            side: whose.
            pooled: `[texts, filters]` of each of `feature_kinds`.

        Returns:
            `[texts, hidden]` float32, before the activation.
        """
        layer = self.query_half if side == QUERY else self.document_half
        return layer(jnp.concatenate(pooled, axis=-1))

    def score(
        self, queries: jax.Array, documents: jax.Array, deterministic: bool = True
    ) -> jax.Array:
        """S of pairs.

        Args:
            queries: `[..., hidden]`, the queries' halves.
            documents: `[..., hidden]`, the documents'; broadcast against `queries`.
            deterministic: no dropout.

        Returns:
            `[...]` float32.
        """
        if self.config.interaction == "sum":
            hidden = self._activate(queries + documents)
        else:
            hidden = self._factor(queries) * self._factor(documents)
        hidden = self._drop(hidden, deterministic)
        for layer in self.layers:
            hidden = self._drop(self._activate(layer(hidden)), deterministic)
        return self.output(hidden)[..., 0]

    def _activate(self, hidden: jax.Array) -> jax.Array:
        return jnp.tanh(hidden) if self.config.activation == "tanh" else nn.relu(hidden)

    def _factor(self, half: jax.Array) -> jax.Array:
        """What of a side's half `[..., hidden]` is multiplied with the other's."""
        factor = self._activate(half)
        if self.config.interaction == "cosine":
            squares = jnp.sum(jnp.square(factor), axis=-1, keepdims=True)
            factor *= jax.lax.rsqrt(squares + 1e-12)  # finite for a text without features
        return factor

    def score_all(
        self, queries: jax.Array, documents: jax.Array, deterministic: bool = True
    ) -> jax.Array:
        """S of every query with every document.

        Args:
            queries: `[queries, hidden]` halves.
            documents: `[documents, hidden]` halves.
            deterministic: no dropout.

        Returns:
            `[queries, documents]` float32.
        """
        of_pairs = self.config.dropout_masks == "pair" and not deterministic
        if self.config.interaction == "sum" or self.config.layers > 1 or of_pairs:
            return self.score(queries[:, None], documents[None], deterministic)
        # Linear in the product of the halves: one matrix product, no vector for each pair.
        output = self.output.variables["params"]
        weighted = self._drop(self._factor(queries), deterministic) * output["kernel"].T
        return weighted @ self._factor(documents).T + output["bias"][None]

    def _drop(self, hidden: jax.Array, deterministic: bool) -> jax.Array:
        """Dropout with a mask for each query or for each pair, as the configuration says."""
        rate = self.config.dropout
        if deterministic or rate == 0:
            return hidden
        shape = hidden.shape
        if self.config.dropout_masks == "query":
            shape = (shape[0], *[1] * (hidden.ndim - 2), shape[-1])
        kept = jax.random.bernoulli(self.make_rng("dropout"), 1 - rate, shape)
        return jnp.where(kept, hidden / (1 - rate), 0.0)

    def encode(self, side: str, features: Sequence[Any], num_texts: int) -> jax.Array:
        """A side's half of texts from their vectors.

        Args:
            side: one of `SIDES`.
            features: (vectors, windows) of each of `feature_kinds`.
            num_texts: static.

        Returns:
            `[texts, hidden]` float32.
        """
        kinds = feature_kinds(self.config)
        pooled = [
            self.convolve(side, kind, vectors, windows, num_texts)
            for kind, (vectors, windows) in zip(kinds, features, strict=True)
        ]
        return self.half(side, pooled)

    def __call__(
        self, queries: Sequence[Any], documents: Sequence[Any], num_queries: int, num_documents: int
    ) -> jax.Array:
        """S of all pairs, `[queries, documents]`; touches every parameter."""
        query_halves = self.encode(QUERY, queries, num_queries)
        document_halves = self.encode(DOCUMENT, documents, num_documents)
        return self.score(query_halves[:, None], document_halves[None])


def feature_kinds(config: ModelConfig) -> tuple[str, ...]:
    """What of a text a model sees."""
    return {"text": (WORDS,), "meta": (CATEGORIES,), "text+meta": KINDS}[config.features]


def init_params(model: Ranker, rng: jax.Array, dims: Mapping[str, int]) -> Params:
    """Fresh parameters for vectors of so many dimensions."""
    features = [
        (jnp.zeros((1, 1, dims[kind])), jnp.zeros((1, 1), jnp.int32))
        for kind in feature_kinds(model.config)
    ]
    variables: Any = model.init(rng, features, features, 1, 1)
    params: Params = variables["params"]
    if model.config.start == "random":
        return params
    return params | _similar(params, rng)


def _similar(params: Params, rng: jax.Array) -> Params:
    """Values with which S is the similarity of the mean vectors, but for tanh."""
    orthogonal = nn.initializers.orthogonal()
    begin: Params = {}
    for part, key in zip((*KINDS, "half"), jax.random.split(rng, len(KINDS) + 1), strict=True):
        for name in (part, *(f"{side}_{part}" for side in SIDES)):
            if name in params:
                shape = params[name]["kernel"].shape
                kernel = orthogonal(key, shape[-2:])
                if len(shape) == 3:  # all places of a window alike, as in its mean
                    kernel = jnp.broadcast_to(kernel / shape[0], shape)
                begin[name] = params[name] | {"kernel": kernel}
    output = params["output"]
    return begin | {"output": output | {"kernel": jnp.full_like(output["kernel"], SHARPNESS)}}
