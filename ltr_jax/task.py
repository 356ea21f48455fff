"""The ranker as a task of the one training loop."""

import functools
from typing import Any

import grain
import jax
import jax.numpy as jnp

from ltr_jax.config import SamplingConfig
from ltr_jax.data import InstanceSource, RankingData, Sampler, training_batches
from ltr_jax.datasets.collection import BEST, PARTLY
from ltr_jax.evaluation import MEASURE, qrels_of
from ltr_jax.model import DOCUMENT, QUERY, Ranker, feature_kinds, init_params
from ltr_jax.scoring import Scorer
from retrieval_jax.evaluation import evaluate
from retrieval_jax.losses import contrastive_loss, pairwise_hinge_loss
from retrieval_jax.params import Params
from retrieval_jax.sharding import Rules
from retrieval_jax.train_step import Metrics


class RankingTask:
    """Trains a ranker on sampled instances of a collection.

    Args:
        model: the ranker.
        data: features of the collection, with split "dev" if the best parameters are to be chosen.
        sampling: instances and loss.
        difficulty: irrelevant documents of a dev query; fewer if it has fewer.
    """

    rules: Rules = ()
    inseparable: str | None = "queries of a batch share its documents"

    def __init__(
        self, model: Ranker, data: RankingData, sampling: SamplingConfig, difficulty: int
    ) -> None:
        self.model, self.data, self.sampling = model, data, sampling
        self.sampler = Sampler(data.collection, sampling)
        self._scorer = Scorer(model)
        dev = data.collection.splits.get("dev")
        self._dev = dev if dev is not None and dev.hardest else None
        self._difficulty = min(difficulty, self._dev.hardest) if self._dev else difficulty

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters of the model."""
        features = self.data.features[DOCUMENT]
        dims = {kind: table.vectors.shape[1] for kind, table in features.items()}
        return init_params(self.model, rng, dims)

    def warm_start(self) -> Params:
        """Nothing: all starts at random."""
        return {}

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """`data.training_batches`."""
        return training_batches(self.data, InstanceSource(self.sampler, batch_size, seed))

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """The configured objective on a batch of `data.training_batches`."""
        num_queries, num_documents = batch["relevance"].shape
        queries = self._encode(params, QUERY, batch, num_queries)
        documents = self._encode(params, DOCUMENT, batch, num_documents)

        apply: Any = functools.partial(
            self.model.apply,
            {"params": params},
            deterministic=not train,
            rngs={"dropout": rng},
        )
        if self.sampling.objective == "in_batch":
            logits = apply(queries, documents, method=Ranker.score_all)  # [queries, documents]
            return in_batch_loss(
                logits, batch["relevance"], batch["candidates"][..., 0], batch["weights"][..., 0]
            )
        pairs = documents[batch["candidates"]]  # [queries, slots, 1 + irrelevant, hidden]
        scores = apply(queries[:, None, None], pairs, method=Ranker.score)
        return hinge_loss(scores, batch["weights"], self.sampling.margin)

    def _encode(
        self, params: Params, side: str, batch: dict[str, jax.Array], num_texts: int
    ) -> jax.Array:
        names = [f"{side}_{kind}" for kind in feature_kinds(self.model.config)]
        features = [(batch[name], batch[f"{name}_windows"]) for name in names]
        encoded: Any = self.model.apply(
            {"params": params}, side, features, num_texts, method=Ranker.encode
        )
        return encoded

    def evaluate(self, params: Params) -> dict[str, float]:
        """NDCG of the dev queries at `difficulty`; nothing if there are none."""
        if self._dev is None:
            return {}
        collection, features = self.data.collection, self.data.features
        ranking = self._scorer.rank(
            jax.device_put(params, jax.local_devices()[0]),
            (features[QUERY], collection.queries.index),
            (features[DOCUMENT], collection.documents.index),
            self._dev.candidates_at(self._difficulty),
        )
        return evaluate(qrels_of(self._dev), ranking, (MEASURE,)).mean


def hinge_loss(scores: jax.Array, weights: jax.Array, margin: float) -> tuple[jax.Array, Metrics]:
    """Pairwise hinge over the level pairs (2, 1), (2, 0) and (1, 0) (section 2.1).

    Args:
        scores: `[queries, slots, 1 + irrelevant]`, laid out as `data.Instances.candidates`.
        weights: of the same shape, 0 where there is no such document.
        margin: of the hinge.

    Returns:
        float32 scalar, mean over the pairs there are; metrics: the share of pairs in order.
    """
    best, partly = scores[:, :1, 0], scores[:, 1:, 0]
    pairs = [
        (best, partly, weights[:, :1, 0] * weights[:, 1:, 0]),
        (scores[:, :, :1], scores[:, :, 1:], weights[:, :, 1:]),
    ]
    better, worse, of_pairs = (
        jnp.concatenate([part.reshape(-1) for part in parts])
        for parts in zip(*(jnp.broadcast_arrays(*pair) for pair in pairs), strict=True)
    )
    in_order = jnp.sum((better > worse) * of_pairs)
    metrics = {"in_order": (in_order, jnp.sum(of_pairs))}
    return pairwise_hinge_loss(better, worse, margin, of_pairs), metrics


def in_batch_loss(
    logits: jax.Array, relevance: jax.Array, relevant: jax.Array, weights: jax.Array
) -> tuple[jax.Array, Metrics]:
    """Softmax cross-entropy of each relevant document among the less relevant ones of the batch.

    Args:
        logits: `[queries, documents]` scores.
        relevance: int8 `[queries, documents]`.
        relevant: int32 `[queries, slots]`, columns of the relevant documents, that of relevance 2
            first.
        weights: `[queries, slots]`, 0 where there is no such document.

    Returns:
        float32 scalar, mean over the relevant documents there are; metrics: the share of them that
        have the highest score.
    """
    slots = relevant.shape[1]
    levels = jnp.array([BEST, *[PARTLY] * (slots - 1)])
    less = relevance[:, None, :] < levels[None, :, None]  # [queries, slots, documents]
    rows = (len(logits) * slots, logits.shape[1])
    repeated = jnp.broadcast_to(logits[:, None], less.shape).reshape(rows)
    mask, positives, of_rows = less.reshape(rows), relevant.reshape(-1), weights.reshape(-1)
    loss = contrastive_loss(repeated, positives, mask, of_rows)
    own = jnp.take_along_axis(repeated, positives[:, None], axis=1)[:, 0]
    others = jnp.max(jnp.where(mask, repeated, -jnp.inf), axis=1)
    metrics = {"first": (jnp.sum((own > others) * of_rows), jnp.sum(of_rows))}
    return loss, metrics
