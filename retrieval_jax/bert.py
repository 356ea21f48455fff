"""BERT (Devlin et al., 2019) in flax.linen: encoder, pooling, masked-language-model head.

Shapes in this file: `batch` rows, `length` word pieces, `dim` = `hidden_size`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

Dtype = Literal["float32", "bfloat16", "float16"]
Pooling = Literal["cls", "mean", "max"]
Remat = Literal["none", "full", "dots"]


def gelu(inputs: jax.Array) -> jax.Array:
    """x Phi(x), Phi the normal distribution (Hendrycks and Gimpel, 2016, section 2).

    By `erf`: `jax.nn.gelu` takes `erfc`, exact for large negative x too, at twice the time.
    """
    return inputs * (1 + jax.lax.erf(inputs * math.sqrt(0.5))) / 2


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": gelu,
    "gelu_new": functools.partial(nn.gelu, approximate=True),
    "relu": nn.relu,
}
REMAT_POLICIES = {
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Architecture as in a Hugging Face `config.json`, and how it is computed.

    Attributes:
        vocab_size: rows of the word-piece table.
        hidden_size: width of the residual stream.
        num_layers: Transformer layers.
        num_heads: attention heads; divides `hidden_size`.
        intermediate_size: width of the feed-forward layer.
        max_positions: rows of the position table, hence the longest text.
        type_vocab_size: rows of the segment table.
        activation: key of `ACTIVATIONS`.
        layer_norm_eps: added to the variance.
        hidden_dropout: after embeddings and each sub-layer.
        attention_dropout: on attention probabilities.
        initializer_range: standard deviation of fresh weights.
        dtype: computation; parameters are float32. LayerNorm statistics and softmax stay float32.
        remat: what the backward pass recomputes, for memory: nothing; all of a layer but its
            input ("full"); all but the results of its weight matrices ("dots").
        scan_layers: one compiled layer in a scan over stacked parameters, for compile time.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int = 512
    type_vocab_size: int = 2
    activation: str = "gelu"
    layer_norm_eps: float = 1e-12
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    initializer_range: float = 0.02
    dtype: Dtype = "float32"
    remat: Remat = "none"
    scan_layers: bool = False

    def __post_init__(self) -> None:
        """Checks what would otherwise fail deep inside a layer.

        Raises:
            ValueError: heads do not divide the width, or the activation is unknown.
        """
        if self.hidden_size % self.num_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of num_heads {self.num_heads}"
            )
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r} is none of {sorted(ACTIVATIONS)}")

    @property
    def kernel_init(self) -> nn.initializers.Initializer:
        """Initialiser of every matrix and table."""
        return nn.initializers.normal(self.initializer_range)


def _dense(
    config: BertConfig, features: int | tuple[int, ...], name: str | None = None, axis: Any = -1
) -> Any:
    return nn.DenseGeneral(
        features,
        axis=axis,
        dtype=config.dtype,
        kernel_init=config.kernel_init,
        dot_general=_flat_matmul if jax.default_backend() == "cpu" else None,
        name=name,
    )


def _flat_matmul(
    inputs: jax.Array, kernel: jax.Array, dimension_numbers: Any, **options: Any
) -> jax.Array:
    """The product of DenseGeneral as one of matrices.

    XLA's CPU compiler transposes tensors of more dimensions, forward and backward: a training step
    takes a tenth longer. Elsewhere the dimensions stay apart, so that heads can be sharded.
    """
    contracted = len(dimension_numbers[0][1])
    depth = math.prod(kernel.shape[:contracted])
    product = jax.lax.dot(inputs.reshape(-1, depth), kernel.reshape(depth, -1), **options)
    return product.reshape(*inputs.shape[:-contracted], *kernel.shape[contracted:])


def _layer_norm(config: BertConfig, name: str | None = None) -> nn.LayerNorm:
    return nn.LayerNorm(epsilon=config.layer_norm_eps, dtype=config.dtype, name=name)


class BertEmbeddings(nn.Module):
    """Sum of word-piece, position and segment embeddings, normalised."""

    config: BertConfig

    def setup(self) -> None:
        """Declares the three tables."""
        config = self.config
        table = functools.partial(
            nn.Embed,
            features=config.hidden_size,
            dtype=config.dtype,
            embedding_init=config.kernel_init,
        )
        self.word = table(config.vocab_size)
        self.position = table(config.max_positions)
        self.segment = table(config.type_vocab_size)
        self.norm = _layer_norm(config)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def __call__(
        self,
        input_ids: jax.Array,
        segment_ids: jax.Array,
        position_ids: jax.Array,
        deterministic: bool,
        word_vectors: jax.Array | None = None,
    ) -> jax.Array:
        """Returns `[batch, length, dim]` for three int32 arrays `[batch, length]`.

        `word_vectors` `[batch, length, dim]` replace those of `input_ids`.
        """
        words = self.word(input_ids) if word_vectors is None else word_vectors
        summed = words + self.position(position_ids) + self.segment(segment_ids)
        return self.dropout(self.norm(summed), deterministic=deterministic)


def attend(qkv: jax.Array, mask: jax.Array, dropout: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Scaled dot-product attention (Vaswani et al., 2017, equation 1) in few passes over memory.

    Probabilities are never formed: the sum they are normalised by divides the context instead.

    Args:
        qkv: queries, keys and values `[batch, length, 3, heads, head_dim]`.
        mask: bool `[batch, 1, length, length]`, what each query may attend to, one key at least.
        dropout: of probabilities, or of multiples of them.

    Returns:
        `[batch, length, heads, head_dim]`.
    """
    query = qkv[:, :, 0].transpose(0, 2, 1, 3)  # [batch, heads, length, head_dim]
    # [batch, heads, head_dim, length]: of the layouts, the one whose gradients need no transposes.
    key, value = jnp.transpose(qkv[:, :, 1:], (2, 0, 3, 4, 1))
    logits = jnp.einsum(
        "bhqd,bhdk->bhqk",
        query / math.sqrt(query.shape[-1]),
        key,
        preferred_element_type=jnp.float32,
    )
    logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    weights = jnp.exp(logits - jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True)))
    context = jnp.einsum(
        "bhqk,bhdk->bhqd",
        dropout(weights).astype(value.dtype),
        value,
        preferred_element_type=jnp.float32,
    )
    context = context / weights.sum(axis=-1, keepdims=True)
    return context.astype(qkv.dtype).transpose(0, 2, 1, 3)


class BertSelfAttention(nn.Module):
    """Multi-head self-attention with one fused projection for queries, keys and values."""

    config: BertConfig

    @nn.compact
    def __call__(self, hidden: jax.Array, mask: jax.Array, deterministic: bool) -> jax.Array:
        """Attends within `mask` (bool `[batch, 1, length, length]`); `[batch, length, dim]`."""
        config = self.config
        head_dim = config.hidden_size // config.num_heads
        qkv = _dense(config, (3, config.num_heads, head_dim), "qkv")(hidden)
        no_dropout = deterministic or config.attention_dropout == 0
        if no_dropout and jax.default_backend() == "gpu" and qkv.dtype != jnp.float32:
            # The fused kernel, which has no dropout on probabilities.
            query, key, value = (
                qkv[:, :, 0],
                qkv[:, :, 1],
                qkv[:, :, 2],
            )  # [batch, length, heads, hd]
            context = jax.nn.dot_product_attention(
                query, key, value, mask=mask, implementation="cudnn"
            )
        else:
            dropout = nn.Dropout(config.attention_dropout, deterministic=deterministic)
            context = attend(qkv, mask, dropout)
        return _dense(config, config.hidden_size, "output", axis=(-2, -1))(context)


class BertLayer(nn.Module):
    """Self-attention and feed-forward, each followed by residual and LayerNorm."""

    config: BertConfig

    @nn.compact
    def __call__(self, hidden: jax.Array, mask: jax.Array, deterministic: bool) -> jax.Array:
        """Maps `[batch, length, dim]` to the same shape; `mask` as in `BertSelfAttention`."""
        config = self.config
        dropout = nn.Dropout(config.hidden_dropout, deterministic=deterministic)
        attended = BertSelfAttention(config, name="attention")(hidden, mask, deterministic)
        hidden = _layer_norm(config, "attention_norm")(hidden + dropout(attended))
        wide = _dense(config, config.intermediate_size, "intermediate")(hidden)
        narrow = _dense(config, config.hidden_size, "output")(ACTIVATIONS[config.activation](wide))
        return _layer_norm(config, "output_norm")(hidden + dropout(narrow))


class BertEncoder(nn.Module):
    """The stack of layers: parameters under `layer_0`, ... or, scanned, stacked under `layers`."""

    config: BertConfig

    @nn.compact
    def __call__(self, hidden: jax.Array, mask: jax.Array, deterministic: bool) -> jax.Array:
        """Maps `[batch, length, dim]` to the same shape; `mask` as in `BertSelfAttention`."""
        config = self.config
        layer = BertLayer
        if config.remat != "none":
            # static_argnums counts `self`: 3 is `deterministic`.
            layer = nn.remat(BertLayer, policy=REMAT_POLICIES[config.remat], static_argnums=(3,))
        if config.scan_layers:
            stack = nn.scan(
                lambda module, carry, _: (module(carry, mask, deterministic), None),
                variable_axes={"params": 0},
                split_rngs={"params": True, "dropout": True},
                length=config.num_layers,
            )
            hidden, _ = stack(layer(config, name="layers"), hidden, None)
        else:
            for index in range(config.num_layers):
                hidden = layer(config, name=f"layer_{index}")(hidden, mask, deterministic)
        return hidden


class MaskedTokenHead(nn.Module):
    """MLM head on chosen positions; the output matrix is the word-piece table."""

    config: BertConfig

    def setup(self) -> None:
        """Declares the transform and the bias."""
        self.transform = _dense(self.config, self.config.hidden_size)
        self.norm = _layer_norm(self.config)
        self.bias = self.param("bias", nn.initializers.zeros, (self.config.vocab_size,))

    def transformed(self, hidden: jax.Array) -> jax.Array:
        """Turns hidden states `[..., width]` into `[..., dim]`, to be compared with a table."""
        return self.norm(ACTIVATIONS[self.config.activation](self.transform(hidden)))

    def __call__(self, hidden: jax.Array, word_embedding: jax.Array) -> jax.Array:
        """Scores every word piece.

        Args:
            hidden: `[..., width]` at the masked positions only (`take_positions`).
            word_embedding: `[vocab_size, dim]`.

        Returns:
            Logits `[..., vocab_size]` float32.
        """
        transformed = self.transformed(hidden)
        logits = jnp.einsum(
            "...d,vd->...v",
            transformed,
            word_embedding.astype(transformed.dtype),
            preferred_element_type=jnp.float32,
        )
        return logits + jnp.expand_dims(self.bias, range(logits.ndim - 1))


class Bert(nn.Module):
    """BERT with optional pooler and MLM head (a head's parameters exist only if asked for)."""

    config: BertConfig
    with_pooler: bool = False
    with_mlm_head: bool = False

    def setup(self) -> None:
        """Declares the parts."""
        self.embeddings = BertEmbeddings(self.config)
        self.encoder = BertEncoder(self.config)
        if self.with_pooler:
            self.pooler = _dense(self.config, self.config.hidden_size)
        if self.with_mlm_head:
            self.mlm_head = MaskedTokenHead(self.config)

    def __call__(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        segment_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        deterministic: bool = True,
        word_vectors: jax.Array | None = None,
    ) -> jax.Array:
        """Encodes word pieces.

        Args:
            input_ids: int32 `[batch, length]`.
            attention_mask: int32 `[batch, length]`; 0 is padding. A piece attends to the pieces
                of its row that carry the same number, so 0/1 is the usual mask, and 1, 2, ...
                keep several texts of one row apart.
            segment_ids: int32 `[batch, length]`, BERT's sentence A / B; zeros by default.
            position_ids: int32 `[batch, length]`; 0, 1, ... by default.
            deterministic: no dropout; otherwise an rng named `dropout` is needed.
            word_vectors: `[batch, length, dim]` in place of the vectors of `input_ids`, where some
                pieces are of no vocabulary.

        Returns:
            Hidden states `[batch, length, dim]` in `config.dtype`.
        """
        if segment_ids is None:
            segment_ids = jnp.zeros_like(input_ids)
        if position_ids is None:
            position_ids = jnp.broadcast_to(
                jnp.arange(input_ids.shape[1], dtype=jnp.int32)[None], input_ids.shape
            )
        mask = attention_mask[:, None, :, None] == attention_mask[:, None, None, :]
        hidden = self.embeddings(input_ids, segment_ids, position_ids, deterministic, word_vectors)
        return self.encoder(hidden, mask, deterministic)

    def pool_first(self, hidden: jax.Array) -> jax.Array:
        """BERT's pooler, tanh(W h_[CLS] + b): `[batch, length, dim]` to `[batch, dim]`."""
        return jnp.tanh(self.pooler(hidden[:, 0]))

    def mlm_logits(self, hidden: jax.Array, positions: jax.Array) -> jax.Array:
        """Word-piece logits `[batch, masked, vocab_size]` at int32 positions `[batch, masked]`."""
        return self.mlm_head(take_positions(hidden, positions), self.embeddings.word.embedding)


def init_params(model: Bert, rng: jax.Array) -> dict[str, Any]:
    """Fresh float32 parameters of `model`, also those of its pooler and head if it has them."""

    def initialise(module: Bert) -> None:
        pieces = jnp.zeros((1, 1), jnp.int32)
        hidden = module(pieces, pieces)
        if module.with_pooler:
            module.pool_first(hidden)
        if module.with_mlm_head:
            module.mlm_logits(hidden, pieces)

    variables: Any = model.init(rng, method=initialise)
    return variables["params"]


def take_positions(hidden: jax.Array, positions: jax.Array) -> jax.Array:
    """Picks `[batch, n, dim]` from `hidden` `[batch, length, dim]` at `positions` `[batch, n]`."""
    return jnp.take_along_axis(hidden, positions[:, :, None], axis=1)


def pool(
    hidden: jax.Array, attention_mask: jax.Array, pooling: Pooling, num_texts: int
) -> jax.Array:
    """Reduces each text's pieces to one vector.

    Args:
        hidden: `[rows, length, dim]`.
        attention_mask: int32 `[rows, length]`; 1, 2, ..., `num_texts` at the pieces of the first,
            second, ... text, each in one row (`packing.pack`); 0 is padding.
        pooling: first piece, mean or maximum over the text's pieces.
        num_texts: static.

    Returns:
        `[num_texts, dim]` float32; of no meaning for a number that has no piece.
    """
    pieces = hidden.reshape(-1, hidden.shape[-1]).astype(jnp.float32)  # [rows * length, dim]
    texts = attention_mask.reshape(-1)
    segments = num_texts + 1  # padding is the first
    if pooling == "cls":
        first = jax.ops.segment_min(jnp.arange(len(texts)), texts, segments)
        pooled = pieces[first]
    elif pooling == "mean":
        total = jax.ops.segment_sum(pieces, texts, segments)
        count = jax.ops.segment_sum(jnp.ones_like(texts), texts, segments)
        pooled = total / jnp.maximum(count, 1)[:, None]
    else:
        pooled = jax.ops.segment_max(pieces, texts, segments)
    return pooled[1:]


def stack_layers(params: dict[str, Any], num_layers: int) -> dict[str, Any]:
    """Turns the layout `layer_0`, ... of `Bert`'s parameters into that of `scan_layers`."""
    encoder = [params["encoder"][f"layer_{index}"] for index in range(num_layers)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *encoder)
    return params | {"encoder": {"layers": stacked}}


def unstack_layers(params: dict[str, Any], num_layers: int) -> dict[str, Any]:
    """Inverse of `stack_layers`."""
    stacked = params["encoder"]["layers"]
    encoder = {
        f"layer_{index}": jax.tree.map(lambda leaf, index=index: leaf[index], stacked)
        for index in range(num_layers)
    }
    return params | {"encoder": encoder}
