"""DocEnt-Dual as tasks of the one training loop."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import grain
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from docent_jax.data import EncodedCorpus
from docent_jax.evaluation import zero_shot_measures
from docent_jax.model import Dual, entity_vectors
from retrieval_jax.encoding import jit_encoder
from retrieval_jax.losses import contrastive_loss_from_embeddings
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch, ShuffledBatches, iterate, text_batches
from retrieval_jax.sharding import MODEL, Rules
from retrieval_jax.train_step import Metrics

Negatives = Literal["in_batch", "all"]


def entity_loss(
    sentences: jax.Array,
    entity_table: jax.Array,
    entity_ids: jax.Array,
    temperature: jax.Array,
    negatives: Negatives,
) -> jax.Array:
    """-log P(e | s) of section 2.1, averaged over the batch.

    Args:
        sentences: f(s) `[batch, dim]`.
        entity_table: g(e) `[entities, dim]`.
        entity_ids: int32 `[batch]`, the entity of each sentence.
        temperature: positive scalar.
        negatives: softmax over all entities, or over those of the batch, where a second sentence
            of the same entity gives no negative.

    Returns:
        float32 scalar.
    """
    if negatives == "all":
        return contrastive_loss_from_embeddings(
            sentences, entity_table, temperature, positives=entity_ids
        )
    return contrastive_loss_from_embeddings(
        sentences,
        entity_table[entity_ids],
        temperature,
        query_ids=entity_ids,
        candidate_ids=entity_ids,
    )


class DualTask:
    """Trains encoder and entity table together.

    Args:
        model: the model.
        data: tokenised sentences and dev queries.
        negatives: denominator of P(e | s).
        warm_start: gives host arrays to start from: the encoder, and the table unless random.
    """

    rules: Rules = (("entities/embedding", PartitionSpec(MODEL)),)
    inseparable: str | None

    def __init__(
        self,
        model: Dual,
        data: EncodedCorpus,
        negatives: Negatives,
        warm_start: Callable[[], Params],
    ) -> None:
        self.model, self.data = model, data
        self.negatives: Negatives = negatives
        in_batch = "the negatives of a sentence are the entities of its whole batch"
        self.inseparable = in_batch if negatives == "in_batch" else None
        self._warm_start = warm_start
        self._encode = jit_encoder(model.bert, model.pooling)

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters of `Dual`."""
        pieces = jnp.zeros((1, 1), jnp.int32)
        variables: Any = self.model.init(rng, pieces, pieces, pieces, 1)
        return variables["params"]

    def warm_start(self) -> Params:
        """What the task was given."""
        return self._warm_start()

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """`entity_loss` of a batch of `pipeline.text_batches` with `entity_ids` `[texts]`."""
        outputs: Any = self.model.apply(
            {"params": params},
            batch["input_ids"],
            batch["attention_mask"],
            batch["position_ids"],
            num_texts=len(batch["entity_ids"]),
            deterministic=not train,
            rngs={"dropout": rng},
        )
        sentences, table, temperature = outputs
        loss = entity_loss(sentences, table, batch["entity_ids"], temperature, self.negatives)
        return loss, {"temperature": (temperature, jnp.float32(1))}

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Shuffled sentences in packed rows."""
        columns = {"entity_ids": self.data.sentence_entities}
        return text_batches(self.data.sentences, columns, batch_size, seed)

    def evaluate(self, params: Params) -> dict[str, float]:
        """Zero-shot ranking of the dev queries; nothing if there are none."""
        if not self.data.corpus.queries.get("dev"):
            return {}
        table = entity_vectors(params, self.model.num_entities)
        encode_batch = functools.partial(self._encode, params["encoder"])
        queries = self.data.encode_queries("dev", encode_batch)
        return zero_shot_measures(queries, np.asarray(table), self.data.corpus, "dev")


class TableTask:
    """Fits the entity table to sentence vectors of a frozen encoder, in seconds.

    Args:
        vectors: `[sentences, dim]` float32.
        sentence_entities: int32 `[sentences]`.
        table: `[entities, dim]`, where to start.
        temperature: fixed.
    """

    rules: Rules = ()
    inseparable: str | None = None

    def __init__(
        self,
        vectors: np.ndarray,
        sentence_entities: np.ndarray,
        table: np.ndarray,
        temperature: float,
    ) -> None:
        self.vectors, self.sentence_entities = vectors, sentence_entities
        self.table, self.temperature = table, temperature

    def init(self, rng: jax.Array) -> Params:
        """A table of the right shape."""
        del rng
        return {"entities": {"embedding": jnp.zeros(self.table.shape)}}

    def warm_start(self) -> Params:
        """The table to start from."""
        return {"entities": {"embedding": self.table}}

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """`entity_loss` over all entities."""
        del rng, train
        table = params["entities"]["embedding"]
        temperature = jnp.float32(self.temperature)
        return entity_loss(batch["vectors"], table, batch["entity_ids"], temperature, "all"), {}

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Shuffled sentence vectors."""

        def make_batch(parts: np.ndarray) -> Batch:
            indices = parts[jax.process_index()]
            return {
                "vectors": self.vectors[indices],
                "entity_ids": self.sentence_entities[indices],
            }

        lengths = np.zeros(len(self.vectors), np.int32)
        return iterate(ShuffledBatches(lengths, batch_size, seed), make_batch)

    def evaluate(self, params: Params) -> dict[str, float]:
        """Nothing: the number of steps is chosen beforehand."""
        del params
        return {}
