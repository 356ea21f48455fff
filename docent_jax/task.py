"""The DocEnt models as tasks of the one training loop."""

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
from docent_jax.model import (
    Dual,
    Full,
    Hybrid,
    Model,
    entity_biases,
    entity_factors,
    entity_vectors,
    init_params,
    jit_text_encoder,
    text_factors,
)
from retrieval_jax.chunking import ROWS, Chunking, encode_text_chunks
from retrieval_jax.contrastive_blocked import row_blocked_contrastive_loss
from retrieval_jax.losses import contrastive_loss, contrastive_loss_from_embeddings
from retrieval_jax.masking import MASKED, MaskedPieces, Masking, mask_pieces, masked_piece_loss
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
    lanes: int | None = None,
) -> jax.Array:
    """-log P(e | s) of section 2.1, averaged over the batch.

    Args:
        sentences: f(s) `[batch, dim]`.
        entity_table: g(e) `[entities, dim]`.
        entity_ids: int32 `[batch]`, the entity of each sentence.
        temperature: positive scalar.
        negatives: softmax over all entities, or over those of the batch, where a second sentence
            of the same entity gives no negative.
        lanes: go over some sentences at a time, on so many devices
            (`row_blocked_contrastive_loss`); None = over all.

    Returns:
        float32 scalar.
    """
    if lanes is not None:
        is_whole = negatives == "all"
        return row_blocked_contrastive_loss(
            sentences,
            entity_table if is_whole else entity_table[entity_ids],
            temperature,
            entity_ids,
            jnp.arange(len(entity_table)) if is_whole else entity_ids,
            entity_ids if is_whole else None,
            lanes=lanes,
        )
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


class EntityTask:
    """What the tasks of the models share: parameters, batches, zero-shot evaluation.

    Args:
        model: the model.
        data: tokenised sentences and dev queries.
        warm_start: gives host arrays to start from.
    """

    # The table, and the biases of `Full`.
    rules: Rules = (("entities/", PartitionSpec(MODEL)),)
    inseparable: str | None = None
    batches_by_process = True
    chunking = Chunking()

    def __init__(self, model: Model, data: EncodedCorpus, warm_start: Callable[[], Params]) -> None:
        self.model, self.data = model, data
        self._warm_start = warm_start
        self._encode = jit_text_encoder(model)

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters of the model."""
        return init_params(self.model, rng)

    def warm_start(self) -> Params:
        """What the task was given."""
        return self._warm_start()

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Shuffled sentences in packed rows."""
        columns = {"entity_ids": self.data.sentence_entities}
        chunks = self.chunking.count(batch_size, jax.process_count())
        return text_batches(self.data.sentences, columns, batch_size, seed, chunks=chunks)

    def evaluate(self, params: Params) -> dict[str, float]:
        """Zero-shot ranking of the dev queries; nothing if there are none."""
        if not self.data.corpus.queries.get("dev"):
            return {}
        encode_batch = functools.partial(self._encode, params)
        encoded = self.data.encode_queries("dev", encode_batch)
        num_entities = self.model.num_entities
        biases = entity_biases(params, num_entities)
        entities = np.asarray(entity_factors(entity_vectors(params, num_entities), biases))
        queries = np.asarray(text_factors(jnp.asarray(encoded), biases is not None))
        return zero_shot_measures(queries @ entities.T, self.data.corpus, "dev")


class DualTask(EntityTask):
    """Trains encoder and entity table together.

    Args:
        model: the model.
        data: tokenised sentences and dev queries.
        negatives: denominator of P(e | s).
        warm_start: gives host arrays to start from: the encoder, and the table unless random.
        chunking: of batches; by default a batch is one chunk.
    """

    def __init__(
        self,
        model: Dual,
        data: EncodedCorpus,
        negatives: Negatives,
        warm_start: Callable[[], Params],
        chunking: Chunking | None = None,
    ) -> None:
        super().__init__(model, data, warm_start)
        self.chunking = chunking or Chunking()
        self.negatives: Negatives = negatives
        in_batch = "the negatives of a sentence are the entities of its whole batch"
        self.inseparable = in_batch if negatives == "in_batch" else None

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """`entity_loss` of a batch of `pipeline.text_batches` with `entity_ids` `[texts]`."""
        num_texts = len(batch["entity_ids"])
        chunks = self.chunking.count(num_texts)
        apply: Any = functools.partial(self.model.apply, {"params": params})

        def encode(rows: dict[str, jax.Array], rng: jax.Array) -> jax.Array:
            return apply(
                *(rows[name] for name in ROWS),
                num_texts // chunks,
                not train,
                method=Dual.encode,
                rngs={"dropout": rng},
            )

        lanes = self.chunking.lanes
        sentences = encode_text_chunks(encode, batch, num_texts, chunks, rng, lanes)
        table, temperature = apply(method=Dual.table_and_temperature)
        loss = entity_loss(
            sentences,
            table,
            batch["entity_ids"],
            temperature,
            self.negatives,
            None if self.chunking.size is None else lanes,
        )
        return loss, {"temperature": (temperature, jnp.float32(1))}


class HybridTask(DualTask):
    """Trains encoder, entity table and word head together (section 2.3).

    Args:
        model: the model.
        data: tokenised sentences and dev queries.
        negatives: denominator of P(e | s).
        masking: of word pieces.
        mlm_weight: lambda.
        warm_start: gives host arrays to start from.
    """

    def __init__(
        self,
        model: Hybrid,
        data: EncodedCorpus,
        negatives: Negatives,
        masking: Masking,
        mlm_weight: float,
        warm_start: Callable[[], Params],
    ) -> None:
        super().__init__(model, data, negatives, warm_start)
        self.inseparable = self.inseparable or MASKED
        self.masking, self.mlm_weight = masking, mlm_weight

    def mask(self, rng: jax.Array, input_ids: jax.Array, mask: jax.Array) -> MaskedPieces:
        """Masks pieces of rows `[rows, width]`; `mask` is the attention's."""
        return mask_pieces(rng, input_ids, mask, self.masking)

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """`entity_loss` + lambda `masked_piece_loss`; what is masked depends on `rng` alone."""
        masking_rng, dropout_rng = jax.random.split(rng)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        masked = self.mask(masking_rng, ids, mask)
        outputs: Any = self.model.apply(
            {"params": params},
            ids,
            mask,
            batch["position_ids"],
            masked.input_ids,
            masked.positions,
            batch["entity_ids"],
            deterministic=not train,
            rngs={"dropout": dropout_rng},
            method=Hybrid.joint,
        )
        sentences, table, temperature, word_logits = outputs
        of_entities = entity_loss(
            sentences, table, batch["entity_ids"], temperature, self.negatives
        )
        of_words = masked_piece_loss(word_logits, masked)
        texts = jnp.float32(len(batch["entity_ids"]))
        metrics = {
            "entity_loss": (of_entities * texts, texts),
            "mlm_loss": _sum_and_count(of_words, masked.weights),
        }
        metrics["temperature"] = (temperature, jnp.float32(1))
        return of_entities + self.mlm_weight * of_words, metrics


class FullTask(EntityTask):
    """Trains a BERT whose vocabulary holds the entities (section 2.2).

    Args:
        model: the model.
        data: sentences and dev queries, tokenised with places of entities.
        masking: of word pieces.
        mlm_weight: lambda.
        entity_mask_rate: share of texts whose entity is hidden, always by [MASK]: that is what a
            query has in its place.
        warm_start: gives host arrays to start from.
    """

    inseparable: str | None = MASKED

    def __init__(
        self,
        model: Full,
        data: EncodedCorpus,
        masking: Masking,
        mlm_weight: float,
        entity_mask_rate: float,
        warm_start: Callable[[], Params],
    ) -> None:
        super().__init__(model, data, warm_start)
        self.masking, self.mlm_weight = masking, mlm_weight
        self.entity_mask_rate = entity_mask_rate

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """-log P(e | s) over all entities + lambda `masked_piece_loss`.

        The first term is averaged over the texts whose entity is masked, the second over the masked
        pieces of all texts. What is masked depends on `rng` alone.
        """
        masking_rng, entity_rng, dropout_rng = jax.random.split(rng, 3)
        ids, mask, entity_ids = batch["input_ids"], batch["attention_mask"], batch["entity_ids"]
        masked = mask_pieces(masking_rng, ids, mask, self.masking)
        is_hidden = jax.random.bernoulli(entity_rng, self.entity_mask_rate, entity_ids.shape)
        outputs: Any = self.model.apply(
            {"params": params},
            masked.input_ids,
            mask,
            batch["position_ids"],
            masked.positions,
            entity_ids,
            is_hidden,
            deterministic=not train,
            rngs={"dropout": dropout_rng},
        )
        entity_logits, word_logits = outputs
        of_entities = contrastive_loss(entity_logits, entity_ids, weights=is_hidden)
        of_words = masked_piece_loss(word_logits, masked)
        metrics = {
            "entity_loss": _sum_and_count(of_entities, is_hidden),
            "mlm_loss": _sum_and_count(of_words, masked.weights),
        }
        return of_entities + self.mlm_weight * of_words, metrics


def _sum_and_count(mean: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    count = jnp.sum(weights, dtype=jnp.float32)
    return mean * count, count


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
            indices = parts[0]
            return {
                "vectors": self.vectors[indices],
                "entity_ids": self.sentence_entities[indices],
            }

        lengths = np.zeros(len(self.vectors), np.int32)
        return iterate(ShuffledBatches(lengths, batch_size, seed, processes=1), make_batch)

    def evaluate(self, params: Params) -> dict[str, float]:
        """Nothing: the number of steps is chosen beforehand."""
        del params
        return {}
