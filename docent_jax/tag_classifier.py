"""DocEnt-Full fine-tuned for tags (section 5.2 of the paper): is this a tag of this entity?

The text is [CLS] entity [SEP] tag [SEP]; a layer on the output at [CLS] gives the logit, with
logistic loss. BERT's own layer is that of its next-sentence prediction; as sentence encoders lack
it, it starts at zero.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from docent_jax.model import Full, entity_places
from docent_jax.tag_evaluation import TagSplit
from docent_jax.tag_task import DevMeasures, TagModel, TagTask, TagTuningConfig
from retrieval_jax.bert import pool
from retrieval_jax.losses import weighted_mean
from retrieval_jax.packing import place, row_width
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch
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
        start: of `Full`; its tags by `data.tokenize_after_entities`.
        votes: as in `TagTask`, like the rest.
        split: which films and tags.
        config: how.
        dev_measures: by which to choose.
    """

    def __init__(
        self,
        start: TagModel,
        votes: np.ndarray,
        split: TagSplit,
        config: TagTuningConfig,
        dev_measures: DevMeasures,
    ) -> None:
        super().__init__(start, votes, split, config, dev_measures)
        self.model = TagClassifier(start.bert, len(start.table))
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

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """`binary_loss` of a batch of `batches`."""
        logits = self._apply(params, batch, batch["films"], rng, train)
        return binary_loss(logits, batch["labels"], batch["weights"]), {}

    def draw(self, pairs: np.ndarray, seed: int) -> tuple[np.ndarray, Batch]:
        """Draws negatives for each pair.

        Returns:
            Tags of the texts, which are the pairs and then their negatives; `films` int32, `labels`
            and `weights` float32, `[texts]`.
        """
        rng = np.random.default_rng([seed, *pairs.tolist()])
        pair_films = self.pair_films[pairs]
        noise = rng.random((len(pairs), len(self.split.train_tags)))
        # Positives last: they are drawn only where negatives run out.
        order = np.argsort(noise + self.is_positive[pair_films], axis=1)
        sampled = order[:, : self._negatives]
        films = np.concatenate([pair_films, np.repeat(pair_films, sampled.shape[1])])
        tags = np.concatenate([self.pair_tags[pairs], sampled.ravel()])
        labels = (np.arange(len(tags)) < len(pairs)).astype(np.float32)
        weights = np.ones(len(tags), np.float32)
        weights[: len(pairs)] = self.weights[pairs]
        # A film that has every tag has no negative: what was drawn for it does not count.
        weights[(labels == 0) & self.is_positive[films, tags]] = 0
        return tags, {
            "films": self.split.train_films[films].astype(np.int32),
            "labels": labels,
            "weights": weights,
        }

    def scores(self, params: Params, part: str) -> np.ndarray:
        """Logits of all pairs: a pass over the encoder for each, so films times tags in all."""
        films, tags = (getattr(self.split, f"{part}_{kind}") for kind in ("films", "tags"))
        params = jax.tree.map(jnp.asarray, params)
        width = row_width(self.tags.lengths[tags])
        placement = place(self.tags.lengths[tags], width)
        rows = self.tags.pack(tags, placement, (placement.num_rows, width))
        score = functools.partial(self._score, params, rows, rng=jax.random.key(0))
        return np.stack([score(np.full(len(tags), film, np.int32)) for film in films])
