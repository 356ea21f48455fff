"""DocEnt-Full fine-tuned for tags (section 5.2 of the paper): is this a tag of this entity?

The text is [CLS] entity [SEP] tag [SEP]; a layer on the output at [CLS] gives the logit, with
logistic loss. BERT's own layer is that of its next-sentence prediction; as sentence encoders lack
it, it starts at zero.
"""

import functools
from typing import Any

import flax.linen as nn
import grain
import jax
import jax.numpy as jnp
import numpy as np
import optax

from docent_jax.model import Full, entity_places, with_spare_rows
from docent_jax.tag_evaluation import TagSplit
from docent_jax.tag_task import DevMeasures, TagTask, TagTuningConfig
from retrieval_jax.bert import BertConfig, pool
from retrieval_jax.losses import weighted_mean
from retrieval_jax.packing import padded_rows, place, row_width
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch, ShuffledBatches, TokenTable, iterate
from retrieval_jax.train_step import Metrics


class TagClassifier(Full):
    """DocEnt-Full with the classifier in place of the head."""

    def setup(self) -> None:
        """Declares the parts of `Full` and the classifier."""
        super().setup()
        self.classifier = nn.Dense(1, kernel_init=nn.initializers.zeros)

    def classify(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        position_ids: jax.Array,
        entity_ids: jax.Array,
        deterministic: bool = True,
    ) -> jax.Array:
        """Logits that tags belong to entities, float32 `[texts]`.

        Args:
            input_ids: int32 `[rows, width]`, packed tags (`data.tokenize_after_entities`).
            attention_mask: int32 `[rows, width]`.
            position_ids: int32 `[rows, width]`.
            entity_ids: int32 `[texts]`.
            deterministic: no dropout.
        """
        at = entity_places(attention_mask, len(entity_ids))
        none_masked = jnp.zeros(entity_ids.shape, bool)
        vectors = self._with_entities(input_ids, at, entity_ids, none_masked)
        hidden = self._hidden(input_ids, attention_mask, position_ids, deterministic, vectors)
        first = pool(hidden, attention_mask, "cls", len(entity_ids))
        return self.classifier(first)[:, 0].astype(jnp.float32)


def binary_loss(logits: jax.Array, labels: jax.Array, weights: jax.Array) -> jax.Array:
    """Logistic loss, as a weighted mean.

    Args:
        logits: `[texts]`.
        labels: 0 or 1 `[texts]`.
        weights: `[texts]`.

    Returns:
        float32 scalar.
    """
    return weighted_mean(optax.sigmoid_binary_cross_entropy(logits, labels), weights)


class ClassifierTagTask(TagTask):
    """Trains the classifier, and the encoder below it, on the pairs of films and tags.

    Each pair of a batch comes with sampled tags that its film does not have, of weight 1.

    Args:
        bert: the encoder's architecture.
        encoder: its parameters.
        table: entity vectors as `Full` was trained, `[films, dim]`.
        tags: the vocabulary by `data.tokenize_after_entities`.
        votes: as in `TagTask`, like the rest.
        split: which films and tags.
        config: how.
        dev_measures: by which to choose.
    """

    def __init__(
        self,
        bert: BertConfig,
        encoder: Params,
        table: np.ndarray,
        tags: TokenTable,
        votes: np.ndarray,
        split: TagSplit,
        config: TagTuningConfig,
        dev_measures: DevMeasures,
    ) -> None:
        super().__init__(tags, votes, split, config, dev_measures)
        self.model = TagClassifier(bert, len(table))
        self._encoder, self._table = encoder, table
        self._negatives = max(1, round(config.negative_share * len(split.train_tags)))
        self._score = jax.jit(self._apply, static_argnames="train")

    def _apply(
        self,
        params: Params,
        rows: dict[str, jax.Array],
        entity_ids: jax.Array,
        rng: jax.Array,
        train: bool = False,
    ) -> jax.Array:
        logits: Any = self.model.apply(
            {"params": params},
            rows["input_ids"],
            rows["attention_mask"],
            rows["position_ids"],
            entity_ids,
            deterministic=not train,
            rngs={"dropout": rng},
            method=TagClassifier.classify,
        )
        return logits

    def init(self, rng: jax.Array) -> Params:
        """A fresh classifier; the rest is replaced by `warm_start`."""
        pieces, texts = jnp.zeros((1, 2), jnp.int32), jnp.zeros(1, jnp.int32)
        variables: Any = self.model.init(
            rng, pieces, pieces, pieces, texts, method=TagClassifier.classify
        )
        return variables["params"]

    def warm_start(self) -> Params:
        """The pre-trained encoder and table."""
        return {
            "encoder": self._encoder,
            "entities": {"embedding": with_spare_rows(self._table)},
        }

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """`binary_loss` of a batch of `batches`."""
        logits = self._apply(params, batch, batch["films"], rng, train)
        return binary_loss(logits, batch["labels"], batch["weights"]), {}

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Shuffled pairs, each with its negatives, in packed rows.

        Returns:
            An iterator of dicts: `input_ids`, `attention_mask`, `position_ids` int32
            `[rows, width]`; `films` int32, `labels` and `weights` float32, `[texts]`, where texts
            are the pairs and then their negatives.
        """
        train_tags = self.split.train_tags
        source = ShuffledBatches(
            np.zeros(len(self.pair_films), np.int32), batch_size, seed, processes=1
        )
        width = row_width(self.tags.lengths[train_tags])

        def rows_needed(tags: np.ndarray) -> int:
            return place(self.tags.lengths[train_tags[tags]], width).num_rows

        usual = max(rows_needed(self._texts(source[i][0], seed)[1]) for i in range(64))

        def make_batch(parts: np.ndarray) -> Batch:
            pairs = parts[0]
            films, tags, labels = self._texts(pairs, seed)
            texts = train_tags[tags]
            placement = place(self.tags.lengths[texts], width)
            num_rows = padded_rows(placement.num_rows, usual, jax.device_count())
            weights = np.ones(len(tags), np.float32)
            weights[: len(pairs)] = self.weights[pairs]
            # A film that has every tag has no negative: what was drawn for it does not count.
            weights[(labels == 0) & self.is_positive[films, tags]] = 0
            return self.tags.pack(texts, placement, (num_rows, width)) | {
                "films": self.split.train_films[films].astype(np.int32),
                "labels": labels,
                "weights": weights,
            }

        return iterate(source, make_batch)

    def _texts(self, pairs: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions of films and tags, and labels, `[pairs * (1 + negatives)]`, positives first."""
        # Of the batch alone, so that a resumed run draws the same.
        rng = np.random.default_rng([seed, *pairs.tolist()])
        films = self.pair_films[pairs]
        noise = rng.random((len(pairs), len(self.split.train_tags)))
        # Positives last: they are drawn only where negatives run out.
        order = np.argsort(noise + self.is_positive[films], axis=1)
        sampled = order[:, : self._negatives]
        labels = np.zeros(len(pairs) + sampled.size, np.float32)
        labels[: len(pairs)] = 1
        return (
            np.concatenate([films, np.repeat(films, sampled.shape[1])]),
            np.concatenate([self.pair_tags[pairs], sampled.ravel()]),
            labels,
        )

    def scores(self, params: Params, part: str) -> np.ndarray:
        """Logits of all pairs: a pass over the encoder for each, so films times tags in all."""
        films, tags = (getattr(self.split, f"{part}_{kind}") for kind in ("films", "tags"))
        params = jax.tree.map(jnp.asarray, params)
        width = row_width(self.tags.lengths[tags])
        placement = place(self.tags.lengths[tags], width)
        rows = self.tags.pack(tags, placement, (placement.num_rows, width))
        score = functools.partial(self._score, params, rows, rng=jax.random.key(0))
        return np.stack([score(np.full(len(tags), film, np.int32)) for film in films])
