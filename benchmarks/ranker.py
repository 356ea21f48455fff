"""Training steps of the cross-lingual ranker: each text encoded once, or once for each pair.

COMMAND   python -m benchmarks.ranker --threads 1 --output benchmarks/results/ranker.json
          and, of the published shape, --filters 100 --layers 4 --hidden 1600 --batches 2
          --documents-per-query 10 --output benchmarks/results/ranker_published.json
TIME      under a minute
HARDWARE  a CPU core
RESULT    the files above: the more a pair's own layers weigh, which no sharing of texts saves, the
          nearer both sides are

One step takes `queries` queries and the sampled instances (query, better document, worse document)
of the three level pairs. `ours` encodes every distinct query and document of the step once, in
packed rows, and starts the perceptron from two halves that are added; `torch` is what one would
write first: for each instance the query and both documents are padded, encoded and concatenated.
Same instances, same weights at the start, no dropout. Vectors are random, since they are frozen and
cost the same whatever they are.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from benchmarks import measure, ours
from ltr_jax.config import Config, DataConfig, ModelConfig, SamplingConfig
from ltr_jax.data import (
    InstanceSource,
    RankingData,
    Sampler,
    Vectors,
    make_data,
    training_batches,
)
from ltr_jax.datasets.collection import Collection
from ltr_jax.datasets.load import load_collection
from ltr_jax.model import Ranker
from ltr_jax.task import RankingTask
from ltr_jax.tokenizers import tokenize
from retrieval_jax.word_vectors import WordVectors

Triples = list[tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Of each step: query, better and worse document of each instance, positions in the collection."""


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        options: how to measure.
        folder: of `debian_clir`; None = as `DataConfig.folder`.
        pair: languages.
        queries: in a batch.
        batches: distinct ones in a run.
        filters: of the convolution over words.
        layers: of the perceptron.
        hidden: its units.
        documents_per_query: distinct documents of a batch, by its queries.
        max_words: that a text is cut to.
        data_dir: where prepared collections are kept.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options()
    folder: str | None = None
    pair: str = "en-de"
    queries: int = 64
    batches: int = 4
    filters: int = 128
    layers: int = 1
    hidden: int = 256
    documents_per_query: int = 3
    max_words: int = 128
    data_dir: Path = Path("data")


def config_of(command: Command) -> Config:
    """The configuration of the ranker that is trained."""
    return Config(
        data=DataConfig(pair=command.pair, folder=command.folder, max_words=command.max_words),
        model=ModelConfig(
            filters=command.filters, layers=command.layers, hidden=command.hidden, dropout=0.0
        ),
        sampling=SamplingConfig(documents_per_query=command.documents_per_query),
    )


def prepare(command: Command) -> measure.Comparison:
    """Loads the collection and names the sides."""
    collection = load_collection(config_of(command).data, command.data_dir)
    return compare_on(collection, command)


def compare_on(collection: Collection, command: Command) -> measure.Comparison:
    """Names the sides on a collection."""
    from benchmarks import ranker_peer

    config = config_of(command)
    data = make_data(collection, random_vectors(collection), config)
    source = InstanceSource(Sampler(collection, config.sampling), command.queries, 0)
    triples = [instances_of(*source[step]) for step in range(command.batches)]
    task = RankingTask(Ranker(config.model), data, config.sampling, difficulty=1)
    # As `ours.make_stepper` starts: by its seed.
    params = jax.device_get(jax.jit(task.init)(jax.random.key(0)))
    return measure.Comparison(
        settings={
            "pair": f"{collection.queries.language}-{collection.documents.language}",
            "queries": command.queries,
            "batches": command.batches,
            "filters": command.filters,
            "layers": command.layers,
            "hidden": command.hidden,
            "documents_per_query": command.documents_per_query,
            "max_words": command.max_words,
        },
        data={"name": collection.name, "fingerprint": collection.fingerprint},
        packages=("torch",),
        sides={
            "ours": lambda: our_side(task, data, source, triples),
            "torch": lambda: ranker_peer.per_pair_side(params, data, triples, config),
        },
        check=check_losses,
    )


def random_vectors(collection: Collection) -> Vectors:
    """Vectors of 100 and 30 dimensions of all words and categories."""
    rng = np.random.default_rng(0)

    def vectors(names: set[str], dim: int) -> WordVectors:
        values = rng.normal(0, 0.3, (len(names), dim)).astype(np.float32)
        return WordVectors(tuple(sorted(names)), values)

    sides = (collection.queries, collection.documents)
    query, document = (
        vectors({word for words in tokenize(side.texts, side.language) for word in words}, 100)
        for side in sides
    )
    categories = {name for side in sides for names in side.categories for name in names}
    return Vectors(query, document, vectors(categories, 30))


def instances_of(queries: np.ndarray, drawn: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query, better and worse document of each instance that `task.hinge_loss` counts."""
    triples = []
    for query, slots, weights in zip(queries, drawn.candidates, drawn.weights, strict=True):
        pairs = [(slots[0, 0], slots[s, 0]) for s in range(1, len(slots)) if weights[s, 0]]
        pairs = pairs if weights[0, 0] else []
        for slot, present in zip(slots, weights, strict=True):
            pairs += [(slot[0], other) for other in slot[1:][present[1:] > 0]]
        triples += [(query, *drawn.documents[list(pair)]) for pair in pairs]
    first, better, worse = np.array(triples).T
    return first, better, worse


def our_side(
    task: RankingTask, data: RankingData, source: InstanceSource, triples: Triples
) -> measure.Side:
    """A run trains on all steps once more, drawing and packing included."""
    step = ours.make_stepper(task)
    batches = training_batches(data, source, row_multiple=1)
    start = batches.get_state()

    def run() -> np.ndarray:
        batches.set_state(start)
        return step(itertools.islice(batches, len(triples)))

    return measure.Side(run, sum(len(queries) for queries, _, _ in triples))


def check_losses(losses: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """As `measure.check_losses`; the first step, from the same weights, must agree to 1e-5.

    Raises:
        DisagreementError: it does not.
    """
    first = {side: float(values[0]) for side, values in losses.items()}
    difference = abs(first["ours"] - first["torch"])
    if not difference <= 1e-5:
        raise measure.DisagreementError(f"losses of the first step differ by {difference:.2g}")
    return measure.check_losses(losses)


if __name__ == "__main__":
    measure.command_line("ranker", prepare, Command, __doc__)
