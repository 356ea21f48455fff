"""Fine-tuning for tag prediction (section 5.2 of the paper), as a task of the one training loop.

DocEnt-Dual and DocEnt-Hybrid: P(t | e), softmax over encoded tags of the cosine of g(e), which is
frozen, with f(t), whose encoder is trained. The bag of sentences takes the place of g(e) as "a
naive variant of DocEnt-Dual" (section 5.3): give its means as the table. They are then as frozen as
g(e), and only the encoder of tags moves. The paper's BoS-BERT is more: fine-tuned on pairs of
sentence and tag, it moves on both sides, and reads sentences by [CLS] but tags by the mean.
"""

import abc
import dataclasses
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import grain
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from docent_jax.evaluation import cosine_scores
from docent_jax.model import with_spare_rows
from docent_jax.tag_evaluation import TagSplit
from retrieval_jax.bert import Bert, BertConfig, Pooling, init_params, pool
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.encoding import encode, jit_encoder
from retrieval_jax.errors import InputError, check_fields
from retrieval_jax.losses import contrastive_loss, l2_normalize
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.packing import padded_rows, place, row_width
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch, ShuffledBatches, TokenTable, iterate
from retrieval_jax.runs import create_run
from retrieval_jax.sharding import MODEL, Rules
from retrieval_jax.train_step import Metrics
from retrieval_jax.training import Trained, TrainingConfig, train

PACKAGE = "docent_jax.tag_task"
FROZEN_TABLE = "^entities/"
# Scores of the dev films and tags `[films, tags]` -> measures.
DevMeasures = Callable[[np.ndarray], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class TagTuningConfig:
    """How a model is fine-tuned.

    Attributes:
        weights: a positive counts by its votes, or by log(1 + votes): a single vote still counts.
        negative_share: share of the training tags sampled as negatives; 1 = all.
        temperature: divides the cosine.
        training: steps, batch (film-tag pairs), seed, optimizer; the table is frozen besides.
    """

    weights: Literal["votes", "log_votes"] = "log_votes"
    negative_share: float = 0.25
    temperature: float = 0.05
    training: TrainingConfig = TrainingConfig(
        steps=300,
        batch_size=64,
        evaluate_every=50,
        checkpoint_every=300,
        keep=1,
        best_measure="MAP",
        patience=3,
        optimizer=OptimizerConfig(learning_rate=5e-5),
    )

    def __post_init__(self) -> None:
        """Refuses a share or temperature out of range.

        Raises:
            InputError: the field and its value.
        """
        check_fields(self, ("negative_share",), above=0, at_most=1)
        check_fields(self, ("temperature",), above=0)


@dataclasses.dataclass(frozen=True, eq=False)
class TagModel:
    """A pre-trained model as fine-tuning starts from it.

    Attributes:
        bert: the encoder's architecture.
        pooling: how f(t) is read from it.
        encoder: its parameters.
        table: g(e) float32 `[films, dim]`, or other vectors of films.
        tags: the tokenised vocabulary.
    """

    bert: BertConfig
    pooling: Pooling
    encoder: Params
    table: np.ndarray
    tags: TokenTable

    @functools.cached_property
    def _encode(self) -> Callable[[Any, Batch, int], jax.Array]:
        return jit_encoder(self.bert, self.pooling)

    def encode_tags(self, encoder: Params | None = None) -> np.ndarray:
        """f(t) of the vocabulary, float32 `[tags, dim]`; by other parameters, if given."""
        params = jax.tree.map(jnp.asarray, self.encoder if encoder is None else encoder)
        return encode(functools.partial(self._encode, params), self.tags)

    def scores(self, encoder: Params | None = None) -> np.ndarray:
        """Cosines of all films and tags, float32 `[films, tags]`; arguments as `encode_tags`."""
        return cosine_scores(self.table, self.encode_tags(encoder))


def pair_weights(votes: np.ndarray, weights: Literal["votes", "log_votes"]) -> np.ndarray:
    """How much positives of these votes count, float32 of the same shape."""
    return (np.log1p(votes) if weights == "log_votes" else votes).astype(np.float32)


def tag_loss(
    films: jax.Array,
    tags: jax.Array,
    positives: jax.Array,
    negatives: jax.Array,
    weights: jax.Array,
    temperature: float,
) -> jax.Array:
    """-log P(t | e) of section 5.2, as a weighted mean over the batch.

    Args:
        films: g(e) `[pairs, dim]`.
        tags: f(t) `[candidates, dim]`.
        positives: int `[pairs]`, the candidate that is the pair's tag.
        negatives: bool `[pairs, candidates]`.
        weights: `[pairs]`.
        temperature: positive.

    Returns:
        float32 scalar.
    """
    cosines = jnp.matmul(
        l2_normalize(films), l2_normalize(tags).T, preferred_element_type=jnp.float32
    )
    return contrastive_loss(cosines / temperature, positives, negatives, weights)


class TagTask(abc.ABC):
    """What the fine-tuning of all models shares: training pairs, weights, evaluation on dev.

    An example is a pair of a training film and a training tag with votes.

    Args:
        start: what is fine-tuned.
        votes: int `[all films, all tags]`; only those of training films and tags are read.
        split: which films and tags.
        config: how.
        dev_measures: gives the measures by which the best parameters are chosen.

    Raises:
        InputError: no training film has a vote for a training tag.
    """

    # The table, and the biases of DocEnt-Full.
    rules: Rules = (("entities/", PartitionSpec(MODEL)),)
    inseparable: str | None = "positives are weighted within a batch"

    def __init__(
        self,
        start: TagModel,
        votes: np.ndarray,
        split: TagSplit,
        config: TagTuningConfig,
        dev_measures: DevMeasures,
    ) -> None:
        self.start, self.tags, self.votes, self.split = start, start.tags, votes, split
        self.config, self._dev_measures = config, dev_measures
        train_votes = split.part("train", votes)
        # Positions within the training films and training tags.
        self.pair_films, self.pair_tags = np.nonzero(train_votes)
        if not len(self.pair_films):
            raise InputError(
                f"{split.name}: no training film has a vote for a training tag",
                "Give more films or tags to train on.",
            )
        self.is_positive = train_votes > 0
        self.weights = pair_weights(train_votes[self.pair_films, self.pair_tags], config.weights)

    @abc.abstractmethod
    def init(self, rng: jax.Array) -> Params:
        """Parameters of the right shapes."""

    def warm_start(self) -> Params:
        """The pre-trained encoder and table, as host arrays."""
        table = with_spare_rows(self.start.table)
        return {"encoder": self.start.encoder, "entities": {"embedding": table}}

    @abc.abstractmethod
    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """Scalar loss of a batch of `batches`."""

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Shuffled pairs of a film and a tag with their negatives.

        Returns:
            An iterator of dicts: `input_ids`, `attention_mask`, `position_ids` int32
            `[rows, width]`, the packed tags that `draw` names, and its arrays.
        """
        train_tags = self.split.train_tags
        lengths = self.tags.lengths[train_tags]
        source = ShuffledBatches(
            np.zeros(len(self.pair_films), np.int32), batch_size, seed, processes=1
        )
        width = row_width(lengths)

        def rows_needed(pairs: np.ndarray) -> int:
            return place(lengths[self.draw(pairs, seed)[0]], width).num_rows

        usual = max(rows_needed(source[index][0]) for index in range(64))

        def make_batch(parts: np.ndarray) -> Batch:
            tags, arrays = self.draw(parts[0], seed)
            placement = place(lengths[tags], width)
            num_rows = padded_rows(placement.num_rows, usual, jax.device_count())
            return self.tags.pack(train_tags[tags], placement, (num_rows, width)) | arrays

        return iterate(source, make_batch)

    @abc.abstractmethod
    def draw(self, pairs: np.ndarray, seed: int) -> tuple[np.ndarray, Batch]:
        """Draws the negatives of a batch.

        Args:
            pairs: int `[pairs]`, the batch's places in `pair_films` and `pair_tags`.
            seed: of the run; the result depends on it and on `pairs` alone, so that a resumed run
                draws the same.

        Returns:
            Places in `train_tags` of the tags that are encoded, and the batch's other arrays.
        """

    @abc.abstractmethod
    def scores(self, params: Params, part: str) -> np.ndarray:
        """Scores float32 `[films, tags]` of the films and tags of "dev" or "test"."""

    def evaluate(self, params: Params) -> dict[str, float]:
        """Measures on the dev films and tags."""
        return self._dev_measures(self.scores(params, "dev"))

    def fingerprint(self) -> str:
        """SHA-256 of all that is trained on, in hexadecimal."""
        digest = hashlib.sha256(f"{type(self).__name__} {self.split.name}".encode())
        parts = ("train_films", "train_tags", "dev_films", "dev_tags")
        indices = [getattr(self.split, part) for part in parts]
        start = jax.tree.leaves(self.warm_start())
        for array in (self.tags.input_ids, self.votes, *indices, *start):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


class SoftmaxTagTask(TagTask):
    """Trains the encoder so that the tags of a film come nearest to its frozen vector.

    DocEnt-Dual and DocEnt-Hybrid. A batch samples one set of negative tags, of which the tags of a
    pair's own film do not count; so a step encodes each tag once, and only those that it needs.
    """

    def init(self, rng: jax.Array) -> Params:
        """Parameters of the right shapes; all are replaced by `warm_start`."""
        encoder = init_params(Bert(self.start.bert), rng)
        table = jnp.zeros(with_spare_rows(self.start.table).shape)
        return {"encoder": encoder, "entities": {"embedding": table}}

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """`tag_loss` of a batch of `batches`."""
        hidden: Any = Bert(self.start.bert).apply(
            {"params": params["encoder"]},
            batch["input_ids"],
            batch["attention_mask"],
            position_ids=batch["position_ids"],
            deterministic=not train,
            rngs={"dropout": rng},
        )
        candidates = batch["negatives"].shape[1]
        tags = pool(hidden, batch["attention_mask"], self.start.pooling, candidates)
        films = params["entities"]["embedding"][batch["films"]]
        loss = tag_loss(
            films,
            tags,
            batch["positives"],
            batch["negatives"],
            batch["weights"],
            self.config.temperature,
        )
        return loss, {}

    def draw(self, pairs: np.ndarray, seed: int) -> tuple[np.ndarray, Batch]:
        """Draws one set of negatives for all pairs.

        Returns:
            The candidates; `films` int32 `[pairs]`; `positives` int32 `[pairs]`, places among the
            candidates; `negatives` bool `[pairs, candidates]`; `weights` float32 `[pairs]`.
        """
        candidates, is_sampled = self._candidates(pairs, seed)
        films, tags = self.pair_films[pairs], self.pair_tags[pairs]
        return candidates, {
            "films": self.split.train_films[films].astype(np.int32),
            # The first place of each: those after the last are fillers.
            "positives": np.argmax(candidates == tags[:, None], axis=1).astype(np.int32),
            "negatives": is_sampled & ~self.is_positive[films[:, None], candidates],
            "weights": self.weights[pairs],
        }

    def _candidates(self, pairs: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The tags that a batch encodes: sampled ones and those of its pairs.

        Returns:
            Positions in `train_tags` `[candidates]`, always as many for a number of pairs, the
            first one repeated where too few differ; and bool `[candidates]`, which were sampled.
        """
        num_tags = len(self.split.train_tags)
        sample_size = max(1, round(self.config.negative_share * num_tags))
        rng = np.random.default_rng([seed, *pairs.tolist()])
        sampled = rng.permutation(num_tags)[:sample_size]
        chosen = np.union1d(sampled, self.pair_tags[pairs])
        fillers = min(num_tags, sample_size + len(pairs)) - len(chosen)
        candidates = np.concatenate([chosen, np.repeat(chosen[:1], fillers)])
        is_sampled = np.isin(candidates, sampled)
        is_sampled[len(chosen) :] = False
        return candidates, is_sampled

    def scores(self, params: Params, part: str) -> np.ndarray:
        """Cosines."""
        return self.split.part(part, self.start.scores(params["encoder"]))


def fine_tune(task: TagTask, path: Path, show_progress: bool = True) -> tuple[Params, Trained]:
    """Fine-tunes a model on the training films and tags of its split.

    Args:
        task: what to train; its configuration says how.
        path: run folder, made here; an interrupted or finished run in it is taken up.
        show_progress: progress bar.

    Returns:
        The parameters best on dev, and what training gave.

    Raises:
        InputError: as `create_run` and `train`.
    """
    training = task.config.training
    frozen = tuple(dict.fromkeys((*training.optimizer.frozen, FROZEN_TABLE)))
    optimizer = dataclasses.replace(training.optimizer, frozen=frozen)
    training = dataclasses.replace(training, optimizer=optimizer)
    config = dataclasses.replace(task.config, training=training)
    run = create_run(path, PACKAGE, config, task.fingerprint())
    trained = train(task, training, run, show_progress=show_progress)
    return restore_params(path), trained
