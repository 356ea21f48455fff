"""Configuration of DocEnt and its presets.

Origin of the values of `paper`: (P) published, with the section; (A) the authors' code; (O) ours,
where neither says.
"""

import dataclasses
from typing import Literal

from retrieval_jax.bert import Dtype, Pooling, Remat
from retrieval_jax.config import added_later
from retrieval_jax.errors import InputError, check_fields
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.pretrained import DEFAULT_ENCODER
from retrieval_jax.training import TrainingConfig


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Which documents.

    Attributes:
        source: builder of the data set.
        packages: `python_api`: installed libraries whose docstrings are read.
        folder: film data: where the source files lie; None = the folder of the source's name in the
            one that the environment variable RETRIEVAL_DATA names.
        keep_names: film data: leave the films' names in their reviews, to see what they are worth.
        entities: keep only that many entities, chosen by a hash of their names; None = all.
        sentences_per_entity: keep at most that many sentences of each; None = all.
        max_length: word pieces a sentence is cut to.
        query_length: word pieces that a query, or another text to encode, is cut to; None = as
            sentences. Requests for films are longer than the sentences of reviews.
    """

    source: Literal["python_api", "imdb_movielens", "amazon_movielens"] = "python_api"
    packages: tuple[str, ...] = ("numpy", "scipy", "jax")
    folder: str | None = None
    keep_names: bool = False
    entities: int | None = None
    sentences_per_entity: int | None = None
    max_length: int = 64
    query_length: int | None = None

    @property
    def longest_query(self) -> int:
        """Word pieces that a query is cut to."""
        return self.max_length if self.query_length is None else self.query_length

    @property
    def subset(self) -> str:
        """What of the documents is kept, in words."""
        entities = "all" if self.entities is None else f"{self.entities} of the"
        sentences = "all" if self.sentences_per_entity is None else f"{self.sentences_per_entity}"
        return f"{entities} entities, {sentences} sentences of each at most"


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Which of the DocEnt models, and how it starts.

    Attributes:
        kind: DocEnt-Dual, -Full or -Hybrid (section 2 of the paper).
        encoder: BERT folder, package or hub name to start from.
        layers: use only the first layers of it; None = all.
        dtype: of the encoder's computation; bfloat16 on accelerators.
        remat: what of a layer the backward pass recomputes, for memory (`BertConfig`).
        scan_layers: compile one layer and scan over it.
        pooling: how a sentence becomes a vector (of Full: for the start of its table only).
        dropout: replaces both of the encoder's dropout rates; None = as the encoder's folder says.
        entity_init: rows of the entity table at the start: random; the mean of the entity's
            sentence vectors; or that mean, fitted with the encoder frozen. Full's are then brought
            to the length of word vectors.
        fit_epochs: passes over the sentence vectors when the table is fitted.
        fit_learning_rate: peak rate of that fit.
        temperature: divides the cosine in P(e | s) of Dual and Hybrid; Full has none.
        learn_temperature: train it, starting there, as RELIC does.
        negatives: denominator of P(e | s): the entities of the batch, or all entities; Full has
            all.
        mlm_weight: lambda, the weight of the masked words' loss of Full and Hybrid.
        one_pass: of Hybrid: read f(s) from the masked sentence too, where the paper's formula has
            the whole one; one pass over the encoder then serves both losses.
        word_mask_rate: share of word pieces that these two mask.
        entity_mask_rate: share of texts whose entity Full masks.
        chunk_texts: of Dual: texts encoded at a time. A larger batch is encoded in chunks, whose
            inner states are computed again for the gradient, and the loss goes over some texts at a
            time, so that memory hardly grows with the batch; None = all at once.

    Raises:
        InputError: a rate, weight or number out of range.
    """

    kind: Literal["dual", "full", "hybrid"] = "dual"
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
    mlm_weight: float = 1.0
    one_pass: bool = added_later(False, earlier=True)
    word_mask_rate: float = 0.15
    entity_mask_rate: float = 0.5
    chunk_texts: int | None = added_later(None)

    def __post_init__(self) -> None:
        """Refuses what is out of range."""
        check_fields(self, ("word_mask_rate", "entity_mask_rate"), "model", above=0, at_most=1)
        check_fields(self, ("temperature", "fit_epochs", "fit_learning_rate"), "model", above=0)
        check_fields(self, ("dropout",), "model", at_least=0, below=1)
        check_fields(self, ("mlm_weight",), "model", at_least=0)
        check_fields(self, ("chunk_texts",), "model", at_least=1)
        if self.chunk_texts is not None and self.kind != "dual":
            raise InputError(
                f"model.chunk_texts with model.kind {self.kind}, which masks words",
                "Only dual is encoded in chunks; take model.remat or a smaller batch.",
            )


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
        data=DataConfig(
            source="amazon_movielens",  # (P) with MovieLens' tags and numbers
            max_length=128,  # (O) sentences or short paragraphs, section 5.1
        ),
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
    "films": Config(
        data=DataConfig(source="imdb_movielens", query_length=256),
        model=ModelConfig(fit_epochs=3.0),
        training=TrainingConfig(
            steps=800,  # 7 % of the sentences; the table is fitted to all
            batch_size=64,
            evaluate_every=200,
            checkpoint_every=100,
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
