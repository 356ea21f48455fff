"""The DocEnt models (section 2 of the paper) as flax.linen modules."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from retrieval_jax.bert import Bert, BertConfig, Pooling, pool
from retrieval_jax.packing import round_up
from retrieval_jax.params import Params

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
            input_ids: int32 `[rows, width]`, packed sentences (`packing.pack`).
            attention_mask: int32 `[rows, width]`.
            position_ids: int32 `[rows, width]`.
            num_texts: sentences in all rows, static.
            deterministic: no dropout.

        Returns:
            f(s) `[num_texts, dim]` float32, all g(e) `[entities, dim]` float32, temperature scalar.
        """
        hidden = self.encoder(
            input_ids, attention_mask, position_ids=position_ids, deterministic=deterministic
        )
        sentences = pool(hidden, attention_mask, self.pooling, num_texts)
        table = self.entities.embedding[: self.num_entities]
        return sentences, table, jnp.exp(self.log_temperature)


def with_spare_rows(table: np.ndarray) -> np.ndarray:
    """Adds zeros to a table `[entities, dim]`, up to the number of rows of `Dual`'s."""
    return np.pad(table, ((0, -len(table) % TABLE_MULTIPLE), (0, 0)))


def entity_vectors(params: Params, num_entities: int) -> jax.Array:
    """g(e) of all entities, `[entities, dim]` float32: the table without its spare rows."""
    return params["entities"]["embedding"][:num_entities]
