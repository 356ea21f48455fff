"""Configurations of domain adaptation and fine-tuning, and their presets.

Origin of the values of `paper`: (P) published, in the model card's section that is named; (A) the
authors' code, here the defaults of the sentence-transformers version that it calls; (O) ours, where
neither says.
"""

import dataclasses
from typing import Literal

from mathsim_jax.datasets.math_text import Extra
from retrieval_jax.bert import Dtype, Pooling, Remat
from retrieval_jax.config import added_later
from retrieval_jax.contrastive_blocked import LOWEST_TEMPERATURE
from retrieval_jax.errors import InputError, check_fields
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.pretrained import DEFAULT_ENCODER
from retrieval_jax.training import TrainingConfig


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """The BERT that training starts from.

    Attributes:
        encoder: BERT or sentence-transformers folder, package or hub name.
        layers: use only the first layers of it; None = all.
        dtype: of the encoder's computation; bfloat16 on accelerators.
        remat: what of a layer the backward pass recomputes, for memory (`BertConfig`).
        dropout: replaces both of the encoder's dropout rates; None = as its folder says.

    Raises:
        InputError: a dropout that is no share below 1.
    """

    encoder: str = DEFAULT_ENCODER
    layers: int | None = None
    dtype: Dtype = "float32"
    remat: Remat = "none"
    dropout: float | None = None

    def __post_init__(self) -> None:
        """Refuses a dropout out of range."""
        check_fields(self, ("dropout",), "model", at_least=0, below=1)


@dataclasses.dataclass(frozen=True)
class AdaptationConfig:
    """Domain adaptation: masked language modelling on texts.

    Attributes:
        model: the encoder to start from.
        max_length: word pieces a text is cut to.
        mask_rate: share of word pieces that are masked.
        whole_words: mask all pieces of a word or none.
        new_commands: LaTeX commands that become pieces of the vocabulary, at most.
        head_steps: steps in which the MLM head alone learns first, so that a head without
            knowledge does not spoil the encoder; 0 where the encoder's folder has one.
        dev_share: share of texts that are held out to choose the best step.
        training: how it is trained.

    Raises:
        InputError: a share that is none, or a number below 0.
    """

    model: EncoderConfig = EncoderConfig()
    max_length: int = 128
    mask_rate: float = 0.15
    whole_words: bool = False
    new_commands: int = 0
    head_steps: int = added_later(0)
    dev_share: float = 0.02
    training: TrainingConfig = TrainingConfig(best_measure="log_likelihood")

    def __post_init__(self) -> None:
        """Refuses shares that are none and numbers below 0."""
        check_fields(self, ("mask_rate", "dev_share"), above=0, below=1)
        check_fields(self, ("new_commands", "head_steps"), at_least=0)


@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """Fine-tuning on pairs.

    Attributes:
        model: the encoder to start from.
        pooling: how a text becomes a vector; None = as the encoder's folder says, else the mean.
        max_length: word pieces a text is cut to in training.
        objective: "cosine": mean squared error between cosine and label; "contrastive": each
            positive among the second texts of the batch, negatives are not used.
        temperature: divides the cosine of the contrastive loss.
        chunk_pairs: pairs encoded at a time, for the contrastive loss. A larger batch is encoded in
            chunks, whose inner states are computed again for the gradient, and the loss is computed
            in tiles, so that memory hardly grows with the batch; None = all at once.
        extra: sources of further pairs (`datasets.math_text.extra_pairs`).
        extra_limit: positives taken of each at most.
        german: train also on pairs whose second text is German, which language gives away.
        training: how it is trained.

    Raises:
        InputError: a temperature that is too low, a count below 1, or `chunk_pairs` without its
            loss.
    """

    model: EncoderConfig = EncoderConfig()
    pooling: Pooling | None = None
    max_length: int = 256
    objective: Literal["cosine", "contrastive"] = "cosine"
    temperature: float = 0.05
    extra: tuple[Extra, ...] = ()
    extra_limit: int | None = 200
    german: bool = False
    training: TrainingConfig = TrainingConfig(best_measure="Spearman")
    chunk_pairs: int | None = added_later(None)

    def __post_init__(self) -> None:
        """Refuses values out of range, and chunks without use."""
        check_fields(self, ("temperature",), above=0)
        check_fields(self, ("extra_limit", "chunk_pairs"), at_least=1)
        if self.chunk_pairs is None:
            return
        if self.objective != "contrastive":
            raise InputError(
                f"chunk_pairs with the objective {self.objective!r}",
                "Its loss is a mean over pairs: take --training.accumulate.",
            )
        if self.temperature < LOWEST_TEMPERATURE:
            raise InputError(
                f"temperature is {self.temperature}, with chunk_pairs",
                f"Give {LOWEST_TEMPERATURE} or more.",
            )


# An MLM head learns faster than the encoder below it may change.
HEAD_RATE = ("^mlm_head/", 20.0)
# Of both, a few steps that show that everything runs.
SMOKE_TRAINING = TrainingConfig(
    steps=4,
    batch_size=16,
    log_every=2,
    evaluate_every=2,
    checkpoint_every=2,
    optimizer=OptimizerConfig(learning_rate=2e-5),
)

ADAPTATION_PRESETS: dict[str, AdaptationConfig] = {
    "paper": AdaptationConfig(
        model=EncoderConfig(
            encoder="google-bert/bert-base-uncased",  # (O) "BERT-base"
            dtype="bfloat16",  # (O)
        ),
        max_length=256,  # (P) intended use
        mask_rate=0.15,  # (O) BERT's
        training=TrainingConfig(  # (O) throughout
            steps=100_000,
            batch_size=256,
            log_every=100,
            evaluate_every=5000,
            checkpoint_every=1000,
            best_measure="log_likelihood",
            optimizer=OptimizerConfig(learning_rate=5e-5),
        ),
    ),
    "small": AdaptationConfig(
        max_length=96,
        head_steps=400,
        training=TrainingConfig(
            steps=120,
            batch_size=24,
            log_every=20,
            evaluate_every=60,
            checkpoint_every=60,
            best_measure="log_likelihood",
            # By cross-validation on train and dev: at higher rates the vectors get worse.
            optimizer=OptimizerConfig(learning_rate=1e-6, scaled=(HEAD_RATE,)),
        ),
    ),
    "smoke": AdaptationConfig(
        model=EncoderConfig(layers=1),
        max_length=32,
        new_commands=8,
        head_steps=2,
        training=dataclasses.replace(
            SMOKE_TRAINING,
            best_measure="log_likelihood",
            optimizer=dataclasses.replace(SMOKE_TRAINING.optimizer, scaled=(HEAD_RATE,)),
        ),
    ),
}

# What is near the input changes little in a few steps, and is a third of their cost.
LOWER_LAYERS = ("^embeddings/", "^encoder/layer_[01]/")

FINE_TUNING_PRESETS: dict[str, FineTuningConfig] = {
    "paper": FineTuningConfig(
        model=EncoderConfig(
            encoder="math-similarity/Bert-MLM_arXiv",  # (P) domain adaptation
            dtype="bfloat16",  # (O)
        ),
        pooling="mean",  # (P) pooling
        german=True,  # (P) all pairs
        max_length=256,  # (P) intended use
        objective="cosine",  # (P) fine-tuning
        training=TrainingConfig(
            steps=219_670,  # (P) 10 epochs of 351,472 pairs, from the authors' notebooks
            batch_size=16,  # (P) the authors' notebooks
            seed=1,  # (P) of the split, from the authors' notebooks
            log_every=100,
            evaluate_every=21_967,  # (O) once an epoch
            checkpoint_every=2000,
            best_measure="Spearman",
            optimizer=OptimizerConfig(
                learning_rate=2e-5,  # (A) "default"
                warmup=10_000 / 219_670,  # (A) 10,000 steps
                weight_decay=0.01,  # (A)
                clip_norm=1.0,  # (A)
            ),
        ),
    ),
    "small": FineTuningConfig(
        max_length=96,
        training=TrainingConfig(
            steps=20,
            batch_size=16,
            log_every=10,
            evaluate_every=20,
            checkpoint_every=20,
            best_measure="Spearman",
            optimizer=OptimizerConfig(learning_rate=3e-5, frozen=LOWER_LAYERS),
        ),
    ),
    "smoke": FineTuningConfig(
        model=EncoderConfig(layers=1),
        max_length=32,
        extra_limit=16,
        training=dataclasses.replace(SMOKE_TRAINING, best_measure="Spearman"),
    ),
}
