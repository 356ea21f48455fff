"""Domain adaptation and fine-tuning as tasks of the one training loop."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import grain
import jax
import jax.numpy as jnp
import numpy as np

from mathsim_jax.data import TokenPairs, pair_batches
from mathsim_jax.evaluation import pair_cosines, pair_measures
from retrieval_jax.bert import Bert, BertConfig, Pooling, init_params, pool
from retrieval_jax.chunking import Chunking, encode_text_chunks
from retrieval_jax.contrastive_blocked import blocked_contrastive_loss
from retrieval_jax.encoding import jit_encoder
from retrieval_jax.losses import (
    contrastive_loss_from_embeddings,
    cosine_regression_loss,
)
from retrieval_jax.masking import MASKED, Masking, mask_pieces, masked_piece_loss
from retrieval_jax.packing import Placement, place, row_width
from retrieval_jax.params import Params
from retrieval_jax.pipeline import TokenTable, text_batches
from retrieval_jax.sharding import Rules
from retrieval_jax.train_step import Metrics

IN_BATCH = "the negatives of a pair are the other pairs of its whole batch"
_DEV_PIECES = 4096  # of a call that evaluates


class MaskedTask:
    """Predicts masked word pieces (Devlin et al., 2019, section 3.1).

    Args:
        config: of the encoder.
        params: of `Bert` with MLM head, where to start.
        train: texts to learn from.
        dev: texts to choose the best step by; may be empty.
        masking: how pieces are masked.
    """

    rules: Rules = ()
    inseparable: str | None = MASKED
    batches_by_process = True

    def __init__(
        self,
        config: BertConfig,
        params: Params,
        train: TokenTable,
        dev: TokenTable,
        masking: Masking,
    ) -> None:
        self.model = Bert(config, with_mlm_head=True)
        self._params, self._train, self._dev, self._masking = params, train, dev, masking
        self._dev_loss = jax.jit(functools.partial(self._masked_loss, train=False))

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters of encoder and head."""
        return init_params(self.model, rng)

    def warm_start(self) -> Params:
        """What the task was given."""
        return self._params

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """`masked_piece_loss` of a batch of `pipeline.text_batches`."""
        loss, count = self._masked_loss(params, batch, rng, train)
        return loss, {"mlm_loss": (loss * count, count)}

    def _masked_loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, jax.Array]:
        """The loss, and how many places it is a mean of."""
        masking_rng, dropout_rng = jax.random.split(rng)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        masked = mask_pieces(masking_rng, ids, mask, self._masking)
        variables = {"params": params}
        hidden: Any = self.model.apply(
            variables,
            masked.input_ids,
            mask,
            position_ids=batch["position_ids"],
            deterministic=not train,
            rngs={"dropout": dropout_rng},
        )
        logits: Any = self.model.apply(variables, hidden, masked.positions, method=Bert.mlm_logits)
        return masked_piece_loss(logits, masked), jnp.sum(masked.weights)

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Shuffled texts in packed rows."""
        return text_batches(self._train, {}, batch_size, seed)

    def evaluate(self, params: Params) -> dict[str, float]:
        """`log_likelihood`: mean log P of the masked pieces of the dev texts, always the same.

        Nothing if there are no dev texts.
        """
        lengths = self._dev.lengths
        if not len(lengths):
            return {}
        width = row_width(lengths)
        placement = place(lengths, width)
        num_rows = min(max(_DEV_PIECES // width, 1), placement.num_rows)
        total = count = 0.0
        for call in range(-(-placement.num_rows // num_rows)):
            texts = np.flatnonzero(placement.rows // num_rows == call)
            within = Placement(placement.rows[texts] % num_rows, placement.starts[texts])
            rows = self._dev.pack(texts, within, (num_rows, width))
            loss, places = self._dev_loss(params, rows, jax.random.key(call))
            total, count = total + float(loss) * float(places), count + float(places)
        return {"log_likelihood": -total / max(count, 1.0)}


class PairTask:
    """Trains an encoder on pairs of texts.

    Args:
        config: of the encoder.
        params: of `Bert`, where to start.
        pooling: how a text becomes a vector.
        train: pairs to learn from.
        dev: pairs to choose the best step by, or None.
        objective: "cosine": `cosine_regression_loss`, the published one; "contrastive":
            `contrastive_loss_from_embeddings` of positives, both directions. Pairs of one group, or
            with an equal first or an equal second text, are no negatives of each other, nor is a
            text of itself.
        temperature: of the contrastive loss.
        chunking: of batches, for the contrastive loss; by default a batch is one chunk.
    """

    rules: Rules = ()
    batches_by_process = True

    def __init__(
        self,
        config: BertConfig,
        params: Params,
        pooling: Pooling,
        train: TokenPairs,
        dev: TokenPairs | None,
        objective: Literal["cosine", "contrastive"],
        temperature: float,
        chunking: Chunking | None = None,
    ) -> None:
        self.model = Bert(config)
        self.chunking = chunking or Chunking()
        self.inseparable: str | None = IN_BATCH if objective == "contrastive" else None
        self._params, self._dev = params, dev
        self._pooling: Pooling = pooling
        self._objective, self._temperature = objective, temperature
        self._train = train if objective == "cosine" else train.take(train.labels == 1)
        self._encode: Callable[..., jax.Array] = jit_encoder(config, pooling)

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters of the encoder."""
        return init_params(self.model, rng)

    def warm_start(self) -> Params:
        """What the task was given."""
        return self._params

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """The objective on a batch of `data.pair_batches`."""
        labels = batch["labels"]
        chunks = self.chunking.count(len(labels))

        def encode(rows: dict[str, jax.Array], rng: jax.Array) -> jax.Array:
            hidden: Any = self.model.apply(
                {"params": params},
                rows["input_ids"],
                rows["attention_mask"],
                position_ids=rows["position_ids"],
                deterministic=not train,
                rngs={"dropout": rng},
            )
            num_texts = 2 * len(labels) // chunks
            return pool(hidden, rows["attention_mask"], self._pooling, num_texts)

        lanes = self.chunking.lanes
        vectors = encode_text_chunks(encode, batch, 2 * len(labels), chunks, rng, lanes)
        first, second = vectors[batch["first"]], vectors[batch["second"]]  # [batch, dim]
        if self._objective == "cosine":
            return cosine_regression_loss(first, second, labels), {}
        # Of one group, or with an equal first or second text, each is right for the other; and no
        # text is a negative of itself, where it is the first of one pair and the second of another.
        groups, (firsts, seconds) = batch["groups"], batch["texts"].T
        ids = jnp.stack([groups, firsts, seconds, firsts], axis=1)  # [batch, kinds]
        candidate_ids = jnp.stack([groups, firsts, seconds, seconds], axis=1)
        if self.chunking.size is not None:
            loss = blocked_contrastive_loss(
                first,
                second,
                self._temperature,
                ids,
                lanes=lanes,
                candidate_ids=candidate_ids,
            )
            return loss, {}
        loss = contrastive_loss_from_embeddings(
            first,
            second,
            self._temperature,
            query_ids=ids,
            candidate_ids=candidate_ids,
            symmetric=True,
        )
        return loss, {}

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Shuffled pairs in packed rows."""
        chunks = self.chunking.count(batch_size, jax.process_count())
        return pair_batches(self._train, batch_size, seed, chunks)

    def evaluate(self, params: Params) -> dict[str, float]:
        """`pair_measures` of the dev pairs; nothing if there are none."""
        if self._dev is None:
            return {}
        return pair_measures(self.cosines(params, self._dev), self._dev.labels)

    def cosines(self, params: Params, pairs: TokenPairs) -> np.ndarray:
        """Cosine of each pair, float64 `[pairs]`."""
        return pair_cosines(functools.partial(self._encode, params), pairs)
