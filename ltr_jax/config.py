"""Configuration of the ranker and its presets.

Origin of the values of `paper` and `paper-patents`: (P) published, with the section; (A) the
authors' code; (O) ours, where neither says. No code of the authors is published, so nothing is (A).
"""

import dataclasses
from typing import Literal

from ltr_jax.category_vectors import CategoryVectorConfig
from ltr_jax.word_vectors import WordVectorConfig
from retrieval_jax.config import added_later
from retrieval_jax.errors import InputError, check_fields
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.training import TrainingConfig

# h of the categories' convolution: their order has no meaning (section 2.2).
CATEGORY_WINDOW = 1

# Fields of `training`.
DECIDED_BY_EPOCHS = ("steps", "evaluate_every", "checkpoint_every")

Features = Literal["text", "meta", "text+meta"]
FEATURES: tuple[Features, ...] = ("text", "meta", "text+meta")


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Which collection, and how much of a text is read.

    Attributes:
        source: of the collection.
        pair: languages of queries and documents.
        folder: where its source files lie; None = the folder of the source's name in the one that
            the environment variable RETRIEVAL_DATA names.
        max_words: words that are read of a text, the first that have a vector.
        max_categories: categories that are read of it, the first that have a vector.
        word_scale: root mean square that the numbers of each word's vector are scaled to; None =
            as trained: word2vec gives rare words short vectors, `pair_vectors` long ones.
        category_scale: the same of categories.
        corpus: names of files in the source's folder with further texts for word2vec
            (`datasets.corpora`), {language} for the language; None = the collection's texts alone.
    """

    source: Literal["debian_clir", "wikipedia_clir", "boost_clir"] = "debian_clir"
    pair: str = "en-de"
    folder: str | None = None
    max_words: int = 128
    max_categories: int = 64
    word_scale: float | None = None
    category_scale: float | None = None
    corpus: str | None = added_later(None)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The ranker's shape.

    Attributes:
        features: what of a text it sees.
        filters: m, of the convolution over words.
        window: h, words that a filter sees at a time.
        category_filters: of the convolution over categories.
        shared_filters: one convolution for queries and documents, of words and of categories; else
            one for each side.
        interaction: how the two halves of the first layer meet: their sum, as the published layer
            on the concatenation has it; the product of both, each after the activation; or, as
            "cosine", the product after each was brought to length 1.
        layers: fully connected ones, each of `hidden` units.
        hidden: s.
        dropout: after each of these layers.
        dropout_masks: "query" = all documents of a query lose the same units, so that dropout tells
            none of them apart; "pair" = each its own.
        activation: of these layers.
        start: "random"; or, for words of both languages in one space, "similarity": both sides
            have the same orthogonal matrices and the output adds its inputs, so that training
            begins with the similarity of mean vectors.

    Raises:
        InputError: a count below 1, a dropout that is no share, or a start that does not fit.
    """

    features: Features = "text+meta"
    filters: int = 128
    window: int = 4
    category_filters: int = 32
    interaction: Literal["sum", "product", "cosine"] = "sum"
    layers: int = 2
    hidden: int = 256
    dropout: float = 0.5
    activation: Literal["tanh", "relu"] = "tanh"
    start: Literal["random", "similarity"] = "random"
    shared_filters: bool = added_later(False)
    dropout_masks: Literal["query", "pair"] = added_later("query")

    def __post_init__(self) -> None:
        """Checks the ranges."""
        counts = ("filters", "window", "category_filters", "layers", "hidden")
        check_fields(self, counts, "model", at_least=1)
        check_fields(self, ("dropout",), "model", at_least=0, below=1)
        if self.start == "similarity" and (self.interaction == "sum" or self.layers > 1):
            raise InputError(
                f"model.start is similarity, with interaction {self.interaction} and"
                f" {self.layers} layers",
                "It is for one layer, and the interaction cosine or product.",
            )


@dataclasses.dataclass(frozen=True)
class SamplingConfig:
    """Instances of a training step, and the loss on them.

    Attributes:
        objective: the published hinge on pairs of documents of different relevance; or softmax
            cross-entropy of each relevant document among all documents of the batch that are less
            relevant to the query (in-batch negatives).
        margin: of the hinge.
        partly_relevant: documents of relevance 1 for each query, at most.
        irrelevant: documents of relevance 0 for each relevant one; for the hinge.
        irrelevant_from: "training" = documents that are relevant to some query of training, so that
            what is relevant in dev and test is not learned to be irrelevant; "all" = of the
            collection.
        documents_per_query: documents of a batch, all distinct, by its number of queries.
        chunk_queries: queries whose documents are scored at a time. Of a larger batch texts are
            encoded and pairs scored in chunks, whose inner states are computed again for the
            gradient, so that memory hardly grows with the batch; None = all at once.

    Raises:
        InputError: a count out of range, or too few documents for the relevant ones.
    """

    objective: Literal["hinge", "in_batch"] = "hinge"
    margin: float = 1.0
    partly_relevant: int = 1
    irrelevant: int = 4
    documents_per_query: int = 10
    chunk_queries: int | None = added_later(None)
    irrelevant_from: Literal["training", "all"] = added_later("training")

    def __post_init__(self) -> None:
        """Checks the ranges."""
        counts = ("irrelevant", "documents_per_query", "chunk_queries")
        check_fields(self, counts, "sampling", at_least=1)
        if not 0 <= self.partly_relevant < self.documents_per_query - 1:
            raise InputError(
                f"sampling.partly_relevant is {self.partly_relevant} of"
                f" {self.documents_per_query} documents per query",
                "Of these one is of relevance 2, and one or more must be irrelevant.",
            )


@dataclasses.dataclass(frozen=True)
class Config:
    """A training run of the ranker.

    Attributes:
        data: which collection.
        word_vectors: how those of each language are trained, before the ranker.
        category_vectors: the same of the category graph.
        model: which features, which shape.
        sampling: instances and loss.
        epochs: passes over the queries of training; decides `training.steps`, and evaluates and
            saves after each pass. None = as `training` says.
        dev_difficulty: irrelevant documents of a dev query by which the best step is chosen.
        redraw_dev: draw these anew for each `training.seed`, from all that dev ranks; else they are
            the collection's first.
        training: how it is trained.
    """

    data: DataConfig = DataConfig()
    word_vectors: WordVectorConfig = WordVectorConfig()
    category_vectors: CategoryVectorConfig = CategoryVectorConfig()
    model: ModelConfig = ModelConfig()
    sampling: SamplingConfig = SamplingConfig()
    epochs: int | None = 20
    dev_difficulty: int = 200
    redraw_dev: bool = added_later(False)
    training: TrainingConfig = TrainingConfig(best_measure="nDCG")

    def __post_init__(self) -> None:
        """Refuses values out of range.

        Raises:
            InputError: the field and its value.
        """
        check_fields(self.data, ("word_scale", "category_scale"), "data", above=0)
        check_fields(self.data, ("max_categories",), "data", at_least=1)
        check_fields(self, ("epochs",), at_least=1)
        if self.data.corpus is not None and self.word_vectors.method != "word2vec":
            raise InputError(
                f"data.corpus is {self.data.corpus}, but word_vectors.method"
                f" {self.word_vectors.method} reads no corpus",
                "Set --data.corpus None.",
            )
        if self.data.max_words < self.model.window:
            raise InputError(
                f"data.max_words is {self.data.max_words}, model.window {self.model.window}",
                "A text has at least the words of a window.",
            )

    def refuse_idle_steps(self) -> None:
        """Refuses steps that `epochs` decides: given on a command line they would do nothing.

        A configuration that `with_steps` gave has them, so that it cannot be refused when made.

        Raises:
            InputError: the field and its value.
        """
        if self.epochs is None:
            return
        for name in DECIDED_BY_EPOCHS:
            given, default = getattr(self.training, name), getattr(TrainingConfig(), name)
            if given != default:
                raise InputError(
                    f"training.{name} is {given}, but epochs is {self.epochs}, which decides it",
                    f"Set --epochs None, or leave training.{name} out, at {default}.",
                )

    def with_steps(self, queries: int) -> "Config":
        """Puts `epochs` over so many queries into `training`."""
        if self.epochs is None:
            return self
        an_epoch = max(queries // self.training.batch_size, 1)
        decided = (self.epochs * an_epoch, an_epoch, an_epoch)
        training = dataclasses.replace(
            self.training, **dict(zip(DECIDED_BY_EPOCHS, decided, strict=True))
        )
        return dataclasses.replace(self, training=training)


PAPER = Config(
    word_vectors=WordVectorConfig(
        dim=100,  # (P) section 3.1
        min_count=5,  # (O) gensim's default, as the rest
    ),
    category_vectors=CategoryVectorConfig(dim=30, walk_length=40, walks=1),  # (P) sections 2.2, 3.1
    model=ModelConfig(
        filters=100,  # (O)
        window=4,  # (P) section 3.1
        category_filters=30,  # (O)
        shared_filters=True,  # (P) one W and b, section 2.1
        interaction="sum",  # (P) section 2.1
        layers=4,  # (P) section 3.1
        hidden=1600,  # (P) section 3.1
        dropout=0.5,  # (P) section 3.1
        dropout_masks="pair",  # (O) as usual
        activation="tanh",  # (P) section 2.1, "such as"
    ),
    sampling=SamplingConfig(
        objective="hinge",  # (P) section 2.1
        margin=1.0,  # (O)
        partly_relevant=1,  # (O) "sample from the set", section 3.1
        irrelevant=4,  # (P) section 3.1
        irrelevant_from="all",  # (O) "irrelevant documents", section 3.1
        documents_per_query=10,  # (O) as many as a query's own draws
    ),
    epochs=20,  # (P) section 3.1
    dev_difficulty=40,  # (O)
    redraw_dev=True,  # (P) section 3.1
    training=TrainingConfig(
        batch_size=64,  # (O)
        best_measure="nDCG",  # (P) section 3.1
        patience=5,  # (O) "early stopping", section 3.1
        optimizer=OptimizerConfig(  # (P) Adam; (O) all values
            learning_rate=1e-4, schedule="constant", warmup=0.0, weight_decay=0.0, clip_norm=None
        ),
    ),
)

CORPUS = "corpus_{language}.*"

PRESETS: dict[str, Config] = {
    "paper": dataclasses.replace(
        PAPER,
        data=DataConfig(
            "wikipedia_clir",
            max_words=200,  # (O)
            corpus=CORPUS,  # (P) complete articles, section 3.1
        ),
    ),
    "paper-patents": dataclasses.replace(
        PAPER,
        data=DataConfig("boost_clir", "ja-en", max_words=200, corpus=CORPUS),  # (O)
        model=dataclasses.replace(PAPER.model, layers=2, hidden=3200),  # (P) section 3.2
    ),
    "small": Config(
        data=DataConfig(category_scale=0.2),
        word_vectors=WordVectorConfig(method="pairs", dim=200),
        category_vectors=CategoryVectorConfig(walks=10),
        model=ModelConfig(
            filters=200,
            category_filters=32,
            interaction="cosine",
            layers=1,
            hidden=256,
            dropout=0.5,
            start="similarity",
        ),
        sampling=SamplingConfig(objective="in_batch", documents_per_query=3),
        epochs=5,
        training=TrainingConfig(
            batch_size=128,
            best_measure="nDCG",
            patience=5,
            optimizer=OptimizerConfig(learning_rate=1e-3, weight_decay=0.0),
        ),
    ),
    "smoke": Config(
        data=DataConfig(max_words=16),
        word_vectors=WordVectorConfig(dim=8, epochs=1),
        category_vectors=CategoryVectorConfig(dim=4, walk_length=8, epochs=1),
        model=ModelConfig(filters=8, category_filters=4, layers=2, hidden=16),
        epochs=None,
        dev_difficulty=40,
        training=TrainingConfig(
            steps=4,
            batch_size=16,
            log_every=2,
            evaluate_every=2,
            checkpoint_every=2,
            best_measure="nDCG",
            optimizer=OptimizerConfig(learning_rate=1e-3, weight_decay=0.0),
        ),
    ),
}
