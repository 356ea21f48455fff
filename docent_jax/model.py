"""The DocEnt models (section 2 of the paper) as flax.linen modules.

Shapes in this file: packed rows `[rows, width]` (`packing.pack`) of `texts` texts in all, `places`
masked pieces in each row, `dim` = the encoder's width.
"""

import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from docent_jax.config import ModelConfig
from retrieval_jax.bert import Bert, BertConfig, MaskedTokenHead, Pooling, pool, take_positions
from retrieval_jax.losses import l2_normalize
from retrieval_jax.packing import round_up
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch

# Rows of the entity table are a multiple of it, so that meshes of many shapes can split them.
TABLE_MULTIPLE = 64


class Dual(nn.Module):
    """DocEnt-Dual (section 2.1): an entity table g(e) beside a BERT sentence encoder f(s).

    Attributes:
        bert: the encoder's architecture.
        num_entities: entities; the table has spare rows up to a multiple of `TABLE_MULTIPLE`.
        pooling: how f(s) is read from the encoder; [CLS] in the paper.
        temperature: divides the cosine.
        learn_temperature: whether it is a parameter that starts there, as in RELIC.
    """

    bert: BertConfig
    num_entities: int
    pooling: Pooling
    temperature: float
    learn_temperature: bool

    def setup(self) -> None:
        """Declares encoder, table and temperature."""
        self.encoder = Bert(self.bert)
        self.entities = nn.Embed(
            round_up(self.num_entities, TABLE_MULTIPLE),
            self.bert.hidden_size,
            embedding_init=self.bert.kernel_init,
        )
        log_temperature = math.log(self.temperature)
        if self.learn_temperature:
            start = nn.initializers.constant(log_temperature)
            log_temperature = self.param("log_temperature", start, ())
        self.log_temperature = log_temperature

    def __call__(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        position_ids: jax.Array,
        num_texts: int,
        deterministic: bool = True,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Gives what the loss needs.

        Args:
            input_ids: int32 `[rows, width]`, packed sentences.
            attention_mask: int32 `[rows, width]`.
            position_ids: int32 `[rows, width]`.
            num_texts: sentences in all rows, static.
            deterministic: no dropout.

        Returns:
            f(s) `[texts, dim]` float32, all g(e) `[entities, dim]` float32, temperature scalar.
        """
        hidden = self._hidden(input_ids, attention_mask, position_ids, deterministic)
        return self._pair(hidden, attention_mask, num_texts)

    def encode(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        position_ids: jax.Array,
        num_texts: int,
        deterministic: bool = True,
    ) -> jax.Array:
        """f(s) `[texts, dim]` float32 of packed sentences."""
        hidden = self._hidden(input_ids, attention_mask, position_ids, deterministic)
        return pool(hidden, attention_mask, self.pooling, num_texts)

    def table_and_temperature(self) -> tuple[jax.Array, jax.Array]:
        """All g(e) `[entities, dim]` float32, and the temperature, a scalar."""
        return self.entities.embedding[: self.num_entities], jnp.exp(self.log_temperature)

    def _hidden(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        position_ids: jax.Array,
        deterministic: bool,
    ) -> jax.Array:
        return self.encoder(
            input_ids, attention_mask, position_ids=position_ids, deterministic=deterministic
        )

    def _pair(
        self, hidden: jax.Array, attention_mask: jax.Array, num_texts: int
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        sentences = pool(hidden, attention_mask, self.pooling, num_texts)
        return sentences, *self.table_and_temperature()


class Hybrid(Dual):
    """DocEnt-Hybrid (section 2.3): `Dual`, and words predicted from [f(s_masked) ; g(e)].

    The paper reads words from the masked sentence, and f(s) of the entity's loss, as it is written,
    from the whole one: two passes over the encoder. One pass over the masked sentence can serve
    both, for little more than half the time.

    Attributes:
        one_pass: whether it does.
    """

    one_pass: bool = False

    def setup(self) -> None:
        """Declares the parts of `Dual` and the word head, whose transform is `[2 dim, dim]`."""
        super().setup()
        self.word_head = MaskedTokenHead(self.bert)

    def joint(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        position_ids: jax.Array,
        masked_ids: jax.Array,
        positions: jax.Array,
        entity_ids: jax.Array,
        deterministic: bool = True,
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Gives what both losses need.

        Args:
            input_ids: int32 `[rows, width]`, packed sentences; unused in one pass.
            attention_mask: int32 `[rows, width]`.
            position_ids: int32 `[rows, width]`.
            masked_ids: int32 `[rows, width]`, the same sentences with masked pieces.
            positions: int32 `[rows, places]`, columns of the masked pieces.
            entity_ids: int32 `[texts]`.
            deterministic: no dropout.

        Returns:
            As `Dual`, and word-piece logits `[rows, places, vocab_size]` float32.
        """
        masked = self._hidden(masked_ids, attention_mask, position_ids, deterministic)
        texts = jnp.take_along_axis(attention_mask, positions, axis=1) - 1  # [rows, places]
        # By text first: gathering from a split table costs communication. -1 is padding, whose
        # logits do not count.
        entities = self.entities(entity_ids)[texts].astype(masked.dtype)  # [rows, places, dim]
        context = jnp.concatenate([take_positions(masked, positions), entities], axis=-1)
        word_logits = self.word_head(context, self.encoder.embeddings.word.embedding)
        hidden = masked
        if not self.one_pass:
            hidden = self._hidden(input_ids, attention_mask, position_ids, deterministic)
        return *self._pair(hidden, attention_mask, len(entity_ids)), word_logits


class EntityVocabulary(nn.Embed):
    """A table of entities with the output bias of each: the extension of BERT's vocabulary."""

    def setup(self) -> None:
        """Declares table and bias."""
        super().setup()
        self.bias = self.param("bias", nn.initializers.zeros, (self.num_embeddings,))


class Full(nn.Module):
    """DocEnt-Full (section 2.2): BERT whose vocabulary is extended by the entities.

    A text is `[CLS] [MASK] [SEP] sentence [SEP]` (`data.tokenize_after_entities`): segment A is the
    place of the entity, segment B the sentence. The entities' vectors stay a table of their own,
    which the model axis may split; at the place of a text whose entity is not masked, its vector
    stands instead of [MASK]'s. Words and entities are predicted by one MLM head, tied to both
    tables.

    Attributes:
        bert: the architecture.
        num_entities: entities; the table has spare rows as in `Dual`.
    """

    bert: BertConfig
    num_entities: int

    def setup(self) -> None:
        """Declares encoder, entity table and MLM head."""
        self.encoder = Bert(self.bert)
        self.entities = EntityVocabulary(
            round_up(self.num_entities, TABLE_MULTIPLE),
            self.bert.hidden_size,
            embedding_init=self.bert.kernel_init,
        )
        self.word_head = MaskedTokenHead(self.bert)

    def __call__(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        position_ids: jax.Array,
        positions: jax.Array,
        entity_ids: jax.Array,
        entity_masked: jax.Array,
        deterministic: bool = True,
    ) -> tuple[jax.Array, jax.Array]:
        """Gives what the loss needs.

        Args:
            input_ids: int32 `[rows, width]`, packed texts with masked pieces.
            attention_mask: int32 `[rows, width]`.
            position_ids: int32 `[rows, width]`.
            positions: int32 `[rows, places]`, columns of the masked pieces.
            entity_ids: int32 `[texts]`.
            entity_masked: bool `[texts]`, whose entity is hidden.
            deterministic: no dropout.

        Returns:
            Entity logits `[texts, entities]`, of meaning where the entity is masked, and
            word-piece logits `[rows, places, vocab_size]`; float32.
        """
        at = entity_places(attention_mask, len(entity_ids))
        vectors = self._with_entities(input_ids, at, entity_ids, entity_masked)
        hidden = self._hidden(input_ids, attention_mask, position_ids, deterministic, vectors)
        word_logits = self.word_head(
            take_positions(hidden, positions), self.encoder.embeddings.word.embedding
        )
        table = self.entities.embedding[: self.num_entities]
        transformed = self._at_entities(hidden, at)
        entity_logits = jnp.matmul(
            transformed, table.astype(transformed.dtype).T, preferred_element_type=jnp.float32
        )
        return entity_logits + self.entities.bias[None, : self.num_entities], word_logits

    def encode(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        position_ids: jax.Array,
        num_texts: int,
    ) -> jax.Array:
        """What is compared with the table: `[texts, dim]` float32, every entity masked."""
        hidden = self._hidden(input_ids, attention_mask, position_ids, deterministic=True)
        at = entity_places(attention_mask, num_texts)
        return self._at_entities(hidden, at).astype(jnp.float32)

    def _hidden(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        position_ids: jax.Array,
        deterministic: bool,
        word_vectors: jax.Array | None = None,
    ) -> jax.Array:
        segment_ids = (position_ids > 2).astype(jnp.int32)  # [CLS], entity and [SEP] are segment A
        return self.encoder(
            input_ids, attention_mask, segment_ids, position_ids, deterministic, word_vectors
        )

    def _with_entities(
        self, input_ids: jax.Array, at: jax.Array, entity_ids: jax.Array, entity_masked: jax.Array
    ) -> jax.Array:
        """Word vectors `[rows, width, dim]`, with those of entities that are not masked."""
        words = self.encoder.embeddings.word(input_ids)
        flat = words.reshape(-1, words.shape[-1])
        own = self.entities(entity_ids).astype(flat.dtype)  # [texts, dim]
        flat = flat.at[at].set(jnp.where(entity_masked[:, None], flat[at], own))
        return flat.reshape(words.shape)

    def _at_entities(self, hidden: jax.Array, at: jax.Array) -> jax.Array:
        """The MLM head's transform of the hidden states at the entities, `[texts, dim]`."""
        return self.word_head.transformed(hidden.reshape(-1, hidden.shape[-1])[at])


Model = Dual | Full


def make_model(config: ModelConfig, bert: BertConfig, num_entities: int) -> Model:
    """The module that a configuration means."""
    if config.kind == "full":
        return Full(bert, num_entities)
    pair = (bert, num_entities, config.pooling, config.temperature, config.learn_temperature)
    return Hybrid(*pair, config.one_pass) if config.kind == "hybrid" else Dual(*pair)


def init_params(model: Model, rng: jax.Array) -> Params:
    """Fresh parameters."""
    pieces, texts = jnp.zeros((1, 2), jnp.int32), jnp.zeros(1, jnp.int32)
    variables: Any
    if isinstance(model, Full):
        masked = jnp.zeros(1, bool)
        variables = model.init(rng, pieces, pieces, pieces, pieces, texts, masked)
    elif isinstance(model, Hybrid):
        arrays = (pieces, pieces, pieces, pieces, pieces, texts)
        variables = model.init(rng, *arrays, method=Hybrid.joint)
    else:
        variables = model.init(rng, pieces, pieces, pieces, 1)
    return variables["params"]


def jit_text_encoder(model: Model) -> Callable[[Params, Batch, int], jax.Array]:
    """Jits (parameters, packed rows, number of texts) -> `model.encode`, `[texts, dim]`."""

    def encode_batch(params: Params, rows: dict[str, jax.Array], num_texts: int) -> jax.Array:
        arrays = (rows["input_ids"], rows["attention_mask"], rows["position_ids"])
        encoded: Any = model.apply({"params": params}, *arrays, num_texts, method=model.encode)
        return encoded

    return jax.jit(encode_batch, static_argnums=2)


def entity_places(attention_mask: jax.Array, num_texts: int) -> jax.Array:
    """Where `Full` has each text's entity, as indices into the flattened rows.

    Args:
        attention_mask: int32 `[rows, width]`, numbers of texts (`packing.pack`).
        num_texts: static.

    Returns:
        int32 `[num_texts]`, the piece after each text's first; within the rows, but of no meaning,
        for a number that has no piece.
    """
    texts = attention_mask.reshape(-1)
    indices = jnp.arange(len(texts), dtype=jnp.int32)
    first = jax.ops.segment_min(indices, texts, num_texts + 1)[1:]  # padding is the first
    return jnp.minimum(first, len(texts) - 2) + 1


def with_spare_rows(table: np.ndarray) -> np.ndarray:
    """Adds zeros to a table `[entities, dim]`, up to the number of rows of the model's."""
    return np.pad(table, ((0, -len(table) % TABLE_MULTIPLE), (0, 0)))


def entity_vectors(params: Params, num_entities: int) -> jax.Array:
    """g(e) of all entities, `[entities, dim]` float32: the table without its spare rows."""
    return params["entities"]["embedding"][:num_entities]


def entity_biases(params: Params, num_entities: int) -> jax.Array | None:
    """Output biases `[entities]` of `Full`, None for the other models."""
    biases = params["entities"].get("bias")
    return None if biases is None else biases[:num_entities]


def text_factors(encoded: jax.Array, biased: bool) -> jax.Array:
    """Texts as vectors whose inner product with `entity_factors` is the model's score.

    Args:
        encoded: `[texts, dim]` of the model's `encode`.
        biased: whether the score is their product plus a bias, as `Full`'s; else it is a cosine.

    Returns:
        float32 `[texts, dim]`, or `[texts, dim + 1]`.
    """
    if not biased:
        return l2_normalize(encoded)
    return jnp.concatenate([encoded, jnp.ones((len(encoded), 1), encoded.dtype)], axis=1)


def entity_factors(vectors: jax.Array, biases: jax.Array | None) -> jax.Array:
    """Entities as vectors whose inner product with `text_factors` is the model's score.

    Args:
        vectors: g(e) `[entities, dim]`.
        biases: `[entities]`, or None, where the score is a cosine.

    Returns:
        float32 `[entities, dim]`, or `[entities, dim + 1]`.
    """
    if biases is None:
        return l2_normalize(vectors)
    return jnp.concatenate([vectors, biases[:, None]], axis=1)
