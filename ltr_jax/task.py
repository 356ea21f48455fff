"""The ranker as a task of the one training loop."""

import functools
from collections.abc import Callable
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
from retrieval_jax.chunking import Chunking, map_chunks
from retrieval_jax.evaluation import evaluate
from retrieval_jax.losses import contrastive_loss, pairwise_hinge_loss, weighted_mean
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
        lanes: devices over which a batch is split.
    """

    rules: Rules = ()
    inseparable: str | None = "queries of a batch share its documents"

    def __init__(
        self,
        model: Ranker,
        data: RankingData,
        sampling: SamplingConfig,
        difficulty: int,
        lanes: int = 1,
    ) -> None:
        self.model, self.data, self.sampling = model, data, sampling
        self.chunking = Chunking(sampling.chunk_queries, lanes)
        self.sampler = Sampler(data.collection, sampling)
        self._scorer = Scorer(model)
        dev = data.collection.splits.get("dev")
        self._dev = dev if dev is not None and dev.hardest else None
        self._difficulty = min(difficulty, self._dev.hardest) if self._dev else difficulty

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters, as `start` of the model's configuration has them."""
        features = self.data.features[DOCUMENT]
        dims = {kind: table.vectors.shape[1] for kind, table in features.items()}
        return init_params(self.model, rng, dims)

    def warm_start(self) -> Params:
        """Nothing: all starts as `init` has it."""
        return {}

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """`data.training_batches`."""
        return training_batches(self.data, InstanceSource(self.sampler, batch_size, seed))

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """The configured objective on a batch of `data.training_batches`.

        Of more than one chunk each has a key of its own for dropout, and what its gradient needs is
        computed again.
        """
        num_queries, num_documents = batch["relevance"].shape
        chunks = self.chunking.count(num_queries)
        queries = self._encode(params, QUERY, batch, num_queries, chunks)
        documents = self._encode(params, DOCUMENT, batch, num_documents, chunks)
        instances = {name: batch[name] for name in ("candidates", "weights", "relevance")}

        def objective(
            rng: jax.Array, queries: jax.Array, instances: dict[str, jax.Array]
        ) -> tuple[jax.Array, Metrics]:
            """Of some queries: a mean, and metrics that count the same as it."""
            apply: Any = functools.partial(
                self.model.apply,
                {"params": params},
                deterministic=not train,
                rngs={"dropout": rng},
            )
            candidates, weights = instances["candidates"], instances["weights"]
            if self.sampling.objective == "in_batch":
                logits = apply(queries, documents, method=Ranker.score_all)  # [queries, documents]
                relevant = candidates[..., 0], weights[..., 0]
                return in_batch_loss(logits, instances["relevance"], *relevant)
            pairs = documents[candidates]  # [queries, slots, 1 + irrelevant, width]
            scores = apply(queries[:, None, None], pairs, method=Ranker.score)
            return hinge_loss(scores, weights, self.sampling.margin)

        if chunks == 1:
            return objective(rng, queries, instances)

        def of_chunk(index: jax.Array, *of_queries: Any) -> tuple[jax.Array, Metrics]:
            return objective(jax.random.fold_in(rng, index), *of_queries)

        cut = jax.tree.map(lambda a: a.reshape(chunks, -1, *a.shape[1:]), (queries, instances))
        losses, metrics = map_chunks(of_chunk, (jnp.arange(chunks), *cut), self.chunking.lanes)
        counts = next(iter(metrics.values()))[1]  # [chunks]
        return weighted_mean(losses, counts), jax.tree.map(jnp.sum, metrics)

    def _encode(
        self,
        params: Params,
        side: str,
        batch: dict[str, jax.Array],
        num_texts: int,
        chunks: int = 1,
    ) -> jax.Array:
        """A side's half of texts, `[texts, width]`."""
        apply: Any = functools.partial(self.model.apply, {"params": params})
        pooled = []
        for kind in feature_kinds(self.model.config):
            rows = batch[f"{side}_{kind}"], batch[f"{side}_{kind}_windows"]
            convolve = functools.partial(
                apply, side, kind, num_texts=num_texts, method=Ranker.convolve
            )
            pooled.append(_sum_over_chunks(convolve, rows, chunks, self.chunking.lanes))
        return apply(side, pooled, method=Ranker.half)

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


def _sum_over_chunks(
    function: Callable[..., jax.Array], rows: tuple[jax.Array, ...], chunks: int, lanes: int
) -> jax.Array:
    """Sum of a function over chunks of rows; what a chunk's gradient needs is computed again.

    Args:
        function: (some rows of each array) -> array; rows of zeros must add nothing to it.
        rows: `[rows, ...]` each, the number of rows a multiple of `lanes`.
        chunks: how many, a multiple of `lanes`; 1 = all rows at once.
        lanes: chunks side by side: the devices over which the rows are split.
    """
    if chunks == 1:
        return function(*rows)

    def turns(values: jax.Array) -> jax.Array:
        by_lane = values.reshape(lanes, -1, *values.shape[1:])
        missing = -by_lane.shape[1] % (chunks // lanes)
        filled = jnp.pad(by_lane, [(0, 0), (0, missing), *[(0, 0)] * (values.ndim - 1)])
        cut = filled.reshape(lanes, chunks // lanes, -1, *values.shape[1:])
        return jnp.moveaxis(cut, 1, 0)  # [turns, lanes, rows, ...]

    of_lanes = jax.checkpoint(jax.vmap(function))
    cut = tuple(map(turns, rows))
    shape = jax.eval_shape(of_lanes, *(values[0] for values in cut))
    total, _ = jax.lax.scan(
        lambda total, turn: (total + of_lanes(*turn), None),
        jnp.zeros(shape.shape, shape.dtype),
        cut,
    )
    return jnp.sum(total, axis=0)


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
