"""Configuration of DocEnt and its presets.

Origin of the values of `paper`: (P) published, with the section; (A) the authors' code; (O) ours,
where neither says.
"""

import dataclasses
from typing import Literal

from retrieval_jax.bert import Dtype, Pooling, Remat
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.pretrained import DEFAULT_ENCODER
from retrieval_jax.training import TrainingConfig


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Which documents.

    Attributes:
        packages: installed libraries whose docstrings are read (builder `python_api`).
        entities: keep only that many entities, chosen by a hash of their names; None = all.
        sentences_per_entity: keep at most that many sentences of each; None = all.
        max_length: word pieces a sentence is cut to.
    """

    packages: tuple[str, ...] = ("numpy", "scipy", "jax")
    entities: int | None = None
    sentences_per_entity: int | None = None
    max_length: int = 64

    @property
    def subset(self) -> str:
        """What of the documents is kept, in words."""
        entities = "all" if self.entities is None else f"{self.entities} of the"
        sentences = "all" if self.sentences_per_entity is None else f"{self.sentences_per_entity}"
        return f"{entities} entities, {sentences} sentences of each at most"


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """DocEnt-Dual.

    Attributes:
        encoder: BERT folder, package or hub name to start from.
        layers: use only the first layers of it; None = all.
        dtype: of the encoder's computation; bfloat16 on accelerators.
        remat: what of a layer the backward pass recomputes, for memory (`BertConfig`).
        scan_layers: compile one layer and scan over it.
        pooling: how a sentence becomes a vector.
        dropout: replaces both of the encoder's dropout rates; None = as the encoder's folder says.
        entity_init: rows of the entity table at the start: random; the mean of the entity's
            sentence vectors; or that mean, fitted with the encoder frozen.
        fit_epochs: passes over the sentence vectors when the table is fitted.
        fit_learning_rate: peak rate of that fit.
        temperature: divides the cosine in P(e | s).
        learn_temperature: train it, starting there, as RELIC does.
        negatives: denominator of P(e | s): the entities of the batch, or all entities.
    """

    encoder: str = DEFAULT_ENCODER
    layers: int | None = None
    dtype: Dtype = "float32"
    remat: Remat = "none"
    scan_layers: bool = False
    pooling: Pooling = "mean"
    dropout: float | None = None
    entity_init: Literal["random", "mean", "fitted"] = "fitted"
    fit_epochs: float = 10.0
    fit_learning_rate: float = 3e-3
    temperature: float = 0.05
    learn_temperature: bool = True
    negatives: Literal["in_batch", "all"] = "all"


@dataclasses.dataclass(frozen=True)
class Config:
    """A DocEnt training run.

    Attributes:
        data: which documents.
        model: which model.
        training: how it is trained.
    """

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()


# Rows of the table are seen far more seldom than the encoder: a higher rate, chosen on dev.
ENTITY_RATE = ("^entities/", 4.0)

PRESETS: dict[str, Config] = {
    "paper": Config(
        data=DataConfig(max_length=128),  # (O) sentences or short paragraphs, section 5.1
        model=ModelConfig(
            encoder="google-bert/bert-base-uncased",  # (P) section 5.1
            dtype="bfloat16",  # (O)
            pooling="cls",  # (P) section 2.1
            entity_init="mean",  # (O) "initialized with a common BERT", section 2.1
            temperature=1.0,  # (P) section 2.1 has none; RELIC learns one
            learn_temperature=True,  # (O)
            negatives="in_batch",  # (P) section 2.1, footnote 2
        ),
        training=TrainingConfig(  # (O) throughout
            steps=200_000,
            batch_size=1024,
            log_every=100,
            evaluate_every=5000,
            checkpoint_every=1000,
            optimizer=OptimizerConfig(learning_rate=2e-5, scaled=(ENTITY_RATE,)),
        ),
    ),
    "small": Config(
        training=TrainingConfig(
            steps=640,  # one pass over the default packages
            batch_size=64,
            evaluate_every=160,
            checkpoint_every=80,
            optimizer=OptimizerConfig(learning_rate=5e-5, scaled=(ENTITY_RATE,)),
        ),
    ),
    "quickstart": Config(
        data=DataConfig(packages=("numpy", "scipy"), entities=600, sentences_per_entity=12),
        training=TrainingConfig(
            steps=240,
            batch_size=32,
            evaluate_every=80,
            checkpoint_every=80,
            optimizer=OptimizerConfig(learning_rate=5e-5, scaled=(ENTITY_RATE,)),
        ),
    ),
    "smoke": Config(
        data=DataConfig(packages=("numpy",), entities=40, sentences_per_entity=6, max_length=32),
        model=ModelConfig(layers=1),
        training=TrainingConfig(
            steps=6,
            batch_size=16,
            log_every=2,
            evaluate_every=3,
            checkpoint_every=3,
            optimizer=OptimizerConfig(learning_rate=2e-5, scaled=(ENTITY_RATE,)),
        ),
    ),
}
