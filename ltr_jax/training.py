"""Training a ranker: from a configuration, a collection and vectors to a run folder."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ltr_jax.category_vectors import train_category_vectors
from ltr_jax.config import Config
from ltr_jax.data import Vectors, make_data
from ltr_jax.datasets.collection import Collection
from ltr_jax.model import CATEGORIES, SIDES, WORDS, Ranker, feature_kinds
from ltr_jax.task import RankingTask
from ltr_jax.word_vectors import TrainedVectors, train_word_vectors
from retrieval_jax.runs import RunFolder, create_run
from retrieval_jax.training import Trained, train
from retrieval_jax.word_vectors import WordVectors, load_vectors, save_vectors

PACKAGE = "ltr_jax"
LANGUAGES = "languages.json"
VECTORS = "vectors"
VECTOR_FILES = ("query", "document", "categories")


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedVectors:
    """Vectors for a ranker, and what they took.

    Attributes:
        vectors: of both languages and of categories; empty where the features have no use for them.
        seconds: "words" and "categories" -> seconds of their training, whenever that was.
    """

    vectors: Vectors
    seconds: dict[str, float]


def prepare_vectors(config: Config, collection: Collection, folder: Path) -> PreparedVectors:
    """Trains the frozen vectors that a configuration needs, or finds what was trained.

    Args:
        config: features, and how vectors are trained.
        collection: whose texts and category graph.
        folder: where vectors are kept by what they were trained on.

    Raises:
        InputError: as `train_word_vectors` and `train_category_vectors`.
    """
    kinds, seconds = feature_kinds(config.model), {}

    def words(language: str) -> TrainedVectors:
        return train_word_vectors(collection, language, config.word_vectors, folder)

    query = document = _nothing(config.word_vectors.dim)
    categories = _nothing(config.category_vectors.dim)
    if WORDS in kinds:
        query, document = words(collection.queries.language), words(collection.documents.language)
        seconds[WORDS] = query.seconds + document.seconds
    if CATEGORIES in kinds:
        categories = train_category_vectors(collection, config.category_vectors, folder)
        seconds[CATEGORIES] = categories.seconds
    return PreparedVectors(Vectors(query.vectors, document.vectors, categories.vectors), seconds)


def _nothing(dim: int) -> TrainedVectors:
    return TrainedVectors(WordVectors((), np.zeros((0, dim), np.float32)), 0.0)


def save_run_vectors(folder: Path, vectors: Vectors) -> None:
    """Writes the vectors into a run folder, without pickle."""
    for name in VECTOR_FILES:
        save_vectors(getattr(vectors, name), folder / VECTORS / f"{name}.safetensors")


def load_run_vectors(folder: Path) -> Vectors:
    """Reads what `save_run_vectors` wrote.

    Raises:
        InputError: a file is absent or damaged.
    """
    paths = (folder / VECTORS / f"{name}.safetensors" for name in VECTOR_FILES)
    return Vectors(*map(load_vectors, paths))


def train_ranker(
    config: Config, collection: Collection, vectors: Callable[[], Vectors], path: Path
) -> tuple[RunFolder, Trained]:
    """Trains a ranker, or takes an interrupted run up where it stopped.

    Args:
        config: what to train and how.
        collection: queries of split "train", and of "dev" by which the best step is chosen.
        vectors: gives the frozen vectors; not called for a run that has them already.
        path: the run folder.

    Returns:
        The run folder, ready for `ltr_jax.load`, and what training gave.

    Raises:
        InputError: no query of training has a relevant document, a language without tokenizer, and
            what `create_run` and `train` refuse.
    """
    train_split = collection.splits["train"]
    asked = sum(bool(train_split.qrels.get(query)) for query in train_split.query_ids)
    config = config.with_steps(asked)
    run = create_run(path, PACKAGE, config, collection.fingerprint)
    is_written = all((path / VECTORS / f"{name}.safetensors").is_file() for name in VECTOR_FILES)
    if not is_written:
        save_run_vectors(path, vectors())
    sides = (collection.queries, collection.documents)
    run.write_json(LANGUAGES, {s: of.language for s, of in zip(SIDES, sides, strict=True)})
    data = make_data(collection, load_run_vectors(path), config)
    task = RankingTask(Ranker(config.model), data, config.sampling, config.dev_difficulty)
    return run, train(task, config.training, run)
