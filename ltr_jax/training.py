"""Training a ranker: from a configuration, a collection and vectors to a run folder."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ltr_jax.category_vectors import train_category_vectors
from ltr_jax.config import Config
from ltr_jax.data import Vectors, make_data
from ltr_jax.datasets.collection import Collection
from ltr_jax.datasets.draws import redraw_irrelevant
from ltr_jax.model import CATEGORIES, SIDES, WORDS, Ranker, feature_kinds
from ltr_jax.pair_vectors import train_pair_vectors
from ltr_jax.task import RankingTask
from ltr_jax.word_vectors import WordVectorConfig, train_word_vectors
from retrieval_jax.distributed import main_first, on_main
from retrieval_jax.runs import RunFolder, create_run
from retrieval_jax.sharding import DATA, make_mesh
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

    Of several processes, which must all call it, the first trains before the others.

    Args:
        config: features, and how vectors are trained.
        collection: whose texts and category graph.
        folder: where vectors are kept by what they were trained on.

    Raises:
        InputError: as `train_word_vectors`, `train_pair_vectors` and `train_category_vectors`.
    """
    return main_first(lambda: _prepare(config, collection, folder))


def _prepare(config: Config, collection: Collection, folder: Path) -> PreparedVectors:
    kinds, seconds = feature_kinds(config.model), {}
    query = document = _nothing(config.word_vectors.dim)
    categories = _nothing(config.category_vectors.dim)
    if WORDS in kinds:
        query, document, seconds[WORDS] = _word_vectors(config.word_vectors, collection, folder)
    if CATEGORIES in kinds:
        trained = train_category_vectors(collection, config.category_vectors, folder)
        categories, seconds[CATEGORIES] = trained.vectors, trained.seconds
    return PreparedVectors(Vectors(query, document, categories), seconds)


def _word_vectors(
    config: WordVectorConfig, collection: Collection, folder: Path
) -> tuple[WordVectors, WordVectors, float]:
    """Vectors of the queries' language, of the documents', seconds of their training."""
    if config.method == "pairs":
        started = time.perf_counter()  # as fast as reading them would be: not kept
        query, document = train_pair_vectors(collection, config.dim, config.min_count, config.seed)
        return query, document, time.perf_counter() - started
    of_query, of_document = (
        train_word_vectors(collection, side.language, config, folder)
        for side in (collection.queries, collection.documents)
    )
    return of_query.vectors, of_document.vectors, of_query.seconds + of_document.seconds


def _nothing(dim: int) -> WordVectors:
    return WordVectors((), np.zeros((0, dim), np.float32))


def _vector_files(folder: Path) -> dict[str, Path]:
    """Field of `Vectors` -> its file in a run folder."""
    return {name: folder / VECTORS / f"{name}.safetensors" for name in VECTOR_FILES}


def save_run_vectors(folder: Path, vectors: Vectors) -> None:
    """Writes the vectors into a run folder, without pickle."""
    for name, file in _vector_files(folder).items():
        save_vectors(getattr(vectors, name), file)


def load_run_vectors(folder: Path) -> Vectors:
    """Reads what `save_run_vectors` wrote.

    Raises:
        InputError: a file is absent or damaged.
    """
    return Vectors(**{name: load_vectors(file) for name, file in _vector_files(folder).items()})


def train_ranker(
    config: Config, collection: Collection, vectors: Callable[[], Vectors], path: Path
) -> tuple[RunFolder, Trained]:
    """Trains a ranker, or takes an interrupted run up where it stopped.

    Of several processes, which must all call it, the first writes the vectors.

    Args:
        config: what to train and how.
        collection: queries of split "train", and of "dev" by which the best step is chosen.
        vectors: gives the frozen vectors; not called for a run that has them already, and by the
            first process alone: what all of them have to call, as `prepare_vectors`, comes before.
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

    def write_vectors() -> None:
        if not all(file.is_file() for file in _vector_files(path).values()):
            save_run_vectors(path, vectors())

    on_main(write_vectors)
    sides = (collection.queries, collection.documents)
    run.write_json(LANGUAGES, {s: of.language for s, of in zip(SIDES, sides, strict=True)})
    data = make_data(_with_own_dev(collection, config), load_run_vectors(path), config)
    mesh = make_mesh(config.training.mesh)
    task = RankingTask(
        Ranker(config.model), data, config.sampling, config.dev_difficulty, mesh.shape[DATA]
    )
    return run, train(task, config.training, run, mesh)


def _with_own_dev(collection: Collection, config: Config) -> Collection:
    """The collection with the dev split that a run chooses its best step by."""
    dev = collection.splits.get("dev")
    if dev is None or not config.redraw_dev:
        return collection
    redrawn = redraw_irrelevant(dev, config.dev_difficulty, config.training.seed)
    return dataclasses.replace(collection, splits={**collection.splits, "dev": redrawn})
