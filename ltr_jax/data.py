"""From a collection to batches: words and categories as rows of frozen vectors, sampled instances.

The vectors are no parameters: a batch brings those of its own words, gathered on the host, so that
neither device memory nor checkpoints nor optimizer hold a vocabulary.
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import grain
import jax
import numpy as np

from ltr_jax.config import CATEGORY_WINDOW, Config, SamplingConfig
from ltr_jax.datasets.collection import BEST, PARTLY, Collection, Texts
from ltr_jax.model import CATEGORIES, DOCUMENT, QUERY, SIDES, WORDS, feature_kinds
from ltr_jax.tokenizers import tokenize
from retrieval_jax.errors import InputError
from retrieval_jax.packing import Placement, pack, padded_rows, place, row_width
from retrieval_jax.pipeline import Batch, ShuffledBatches, TokenTable, iterate
from retrieval_jax.word_vectors import WordVectors

# Texts of a step and their places in packed rows.
Placed = tuple[np.ndarray, Placement]
# Steps that are looked at to know how many rows one usually takes.
PROBES = 16
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FeatureTable:
    """One feature of all texts of one side: a list of vectors for each text.

    A text shorter than a window is filled with zero vectors, so that it has one window; one without
    any vector has none.

    Attributes:
        table: rows of `vectors`, 0 where there is none; lengths are at least `window`.
        vectors: float32 `[rows, dim]`; the first is zero.
        window: vectors that a filter sees at a time.
    """

    table: TokenTable
    vectors: np.ndarray
    window: int

    @property
    def width(self) -> int:
        """Of packed rows."""
        return row_width(self.table.lengths)

    @property
    def is_empty(self) -> np.ndarray:
        """Which texts have no vector at all, bool `[texts]`."""
        return self.table.input_ids[:, 0] == 0

    def rows(self, packed: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of packed rows and where windows begin, as `model.PooledConvolution` takes them.

        Args:
            packed: of `packing.pack`.

        Returns:
            float32 `[rows, width, dim]` and int32 `[rows, width]`.
        """
        ids, texts = packed["input_ids"], packed["attention_mask"]
        last = np.zeros_like(texts)
        last[:, : texts.shape[1] - self.window + 1] = texts[:, self.window - 1 :]
        return self.vectors[ids], np.where((ids > 0) & (last == texts), texts, 0)

    def take(self, texts: np.ndarray) -> "FeatureTable":
        """The rows of the texts of indices `[n]`."""
        table = TokenTable(self.table.input_ids[texts], self.table.lengths[texts])
        return dataclasses.replace(self, table=table)

    def pack(
        self, texts: np.ndarray, num_rows: int, placement: Placement, width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """`rows` of the texts of indices `[n]`."""
        lengths = self.table.lengths[texts]
        return self.rows(pack(self.table.input_ids[texts], lengths, placement, (num_rows, width)))


def feature_table(
    lists: Sequence[Sequence[str]],
    vectors: WordVectors,
    window: int,
    max_length: int,
    scale: float | None = None,
) -> FeatureTable:
    """Looks vectors up.

    Args:
        lists: words or categories of each text; those without a vector are left out.
        vectors: of words or categories.
        window: vectors that a filter sees at a time.
        max_length: what each text is cut to, at least `window`.
        scale: root mean square that each vector's numbers are brought to; None = as they are.
    """
    rows = vectors.vocabulary
    known = [[rows[name] + 1 for name in names if name in rows][:max_length] for names in lists]
    lengths = np.maximum([len(ids) for ids in known], window).astype(np.int32)
    input_ids = np.zeros((len(known), int(lengths.max(initial=window))), np.int32)
    for row, ids in zip(input_ids, known, strict=True):
        row[: len(ids)] = ids
    zero = np.zeros((1, vectors.vectors.shape[1]), np.float32)
    scaled = vectors.vectors.astype(np.float32)
    if scale is not None:
        root = np.sqrt(np.mean(np.square(scaled), axis=1, keepdims=True))
        scaled *= scale / np.maximum(root, 1e-12)
    table = np.concatenate([zero, scaled])
    return FeatureTable(TokenTable(input_ids, lengths), table, window)


@dataclasses.dataclass(frozen=True, eq=False)
class Vectors:
    """The frozen vectors that a ranker stands on.

    Attributes:
        query: of words of the queries' language.
        document: of words of the documents' language.
        categories: of the category graph's nodes, which both sides share.
    """

    query: WordVectors
    document: WordVectors
    categories: WordVectors


Features = Mapping[str, FeatureTable]
"""Kind (`model.KINDS`) -> one row a text."""


@dataclasses.dataclass(frozen=True)
class RankingData:
    """A collection as arrays.

    Attributes:
        collection: what it was made of.
        features: side (`model.SIDES`) -> features of its texts, in the collection's order.
    """

    collection: Collection
    features: Mapping[str, Features]


def make_features(texts: Texts, vectors: Vectors, side: str, config: Config) -> Features:
    """The features that a model sees of one side's texts.

    Words and categories without a vector are left out. A text may have none at all.

    Args:
        texts: the texts.
        vectors: frozen.
        side: one of `model.SIDES`.
        config: features, window, and where texts are cut.

    Raises:
        InputError: a language without tokenizer.
    """
    features: dict[str, FeatureTable] = {}
    kinds = feature_kinds(config.model)
    if WORDS in kinds:
        features[WORDS] = feature_table(
            tokenize(texts.texts, texts.language),
            vectors.query if side == QUERY else vectors.document,
            config.model.window,
            config.data.max_words,
            config.data.word_scale,
        )
    if CATEGORIES in kinds:
        features[CATEGORIES] = feature_table(
            texts.categories,
            vectors.categories,
            CATEGORY_WINDOW,
            config.data.max_categories,
            config.data.category_scale,
        )
    return features


def make_data(collection: Collection, vectors: Vectors, config: Config) -> RankingData:
    """`make_features` of both sides of a collection."""
    sides = {QUERY: collection.queries, DOCUMENT: collection.documents}
    return RankingData(
        collection, {side: make_features(of, vectors, side, config) for side, of in sides.items()}
    )


class Instances(NamedTuple):
    """What one training step looks at, by position in its batch.

    Attributes:
        documents: int `[documents]`, distinct documents of the collection.
        candidates: int32 `[batch, slots, 1 + irrelevant]`, positions in `documents`: for each query
            one of relevance 2 and some of relevance 1, each followed by its irrelevant ones.
        weights: float32 of the same shape, 0 where there is no such document.
        relevance: int8 `[batch, documents]`, of every document to every query.
    """

    documents: np.ndarray
    candidates: np.ndarray
    weights: np.ndarray
    relevance: np.ndarray


class Sampler:
    """Draws instances for queries of training (section 3.1).

    All documents of a batch are distinct, and queries share them: beside the relevant ones they are
    drawn at random from those that `SamplingConfig.irrelevant_from` says.

    Args:
        collection: with a split "train".
        config: how many.

    Raises:
        InputError: no query of training has a relevant document.
    """

    def __init__(self, collection: Collection, config: SamplingConfig) -> None:
        self._config = config
        train = collection.splits["train"]
        index = collection.documents.index
        judged = {
            query: {index[document]: relevance for document, relevance in of_query.items()}
            for query in train.query_ids
            if (of_query := train.qrels.get(query))
        }
        if not judged:
            raise InputError(
                f"{collection.name}: no query of training has a relevant document",
                "Give judgements of split train.",
            )
        self.queries = np.array([collection.queries.index[query] for query in judged])
        lacking = len(train.query_ids) - len(judged)
        if lacking:
            _log.warning(
                "%s: %d queries of training have no relevant document and are left out",
                collection.name,
                lacking,
            )
        self._judged = list(judged.values())
        self._levels = [
            {
                level: np.array([d for d, relevance in of_query.items() if relevance == level], int)
                for level in (BEST, PARTLY)
            }
            for of_query in self._judged
        ]
        if config.irrelevant_from == "all":
            self._pool = np.arange(len(collection.documents.ids))
        else:
            self._pool = np.array(sorted({d for of_query in self._judged for d in of_query}))

    def draw(self, queries: np.ndarray, rng: np.random.Generator) -> Instances:
        """Draws instances.

        Args:
            queries: `[batch]`, positions in `self.queries`.
            rng: of the draws.

        Raises:
            InputError: there are too few documents for such a batch.
        """
        config, slots = self._config, 1 + self._config.partly_relevant
        relevant = np.full((len(queries), slots), -1)
        for row, query in zip(relevant, queries, strict=True):
            levels = self._levels[query]
            if len(levels[BEST]):
                row[0] = rng.choice(levels[BEST])
            drawn = rng.permutation(levels[PARTLY])[: slots - 1]
            row[1 : 1 + len(drawn)] = drawn
        present = relevant >= 0
        chosen = np.unique(relevant[present])
        size = config.documents_per_query * len(queries)
        if size > len(self._pool):
            raise InputError(
                f"a batch of {size} documents, of the {len(self._pool)} that may be drawn",
                "Lower --training.batch-size or --sampling.documents-per-query.",
            )
        drawn = self._pool[rng.choice(len(self._pool), size, replace=False)]
        fillers = drawn[~np.isin(drawn, chosen)][: size - len(chosen)]
        documents = np.concatenate([chosen, fillers])
        relevance = self._relevance(queries, documents)

        # Irrelevant ones: the best of random keys among the fillers.
        keys = rng.random((len(queries), slots, len(fillers)))
        keys += relevance[:, None, len(chosen) :] > 0  # relevant ones come last
        order = np.argsort(keys, axis=-1)[:, :, : config.irrelevant]
        irrelevant = len(chosen) + order
        are_irrelevant = np.take_along_axis(keys, order, -1) < 1
        first = np.where(present, np.searchsorted(chosen, relevant), 0)[:, :, None]
        is_present = present[:, :, None]
        return Instances(
            documents,
            np.concatenate([first, irrelevant], -1).astype(np.int32),
            np.concatenate([is_present, is_present & are_irrelevant], -1).astype(np.float32),
            relevance,
        )

    def _relevance(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
        position = {document: column for column, document in enumerate(documents.tolist())}
        relevance = np.zeros((len(queries), len(documents)), np.int8)
        for row, query in enumerate(queries):
            for document, level in self._judged[query].items():
                column = position.get(document)
                if column is not None:
                    relevance[row, column] = level
        return relevance


class InstanceSource:
    """Steps of training, endless: queries in random order, instances drawn for them.

    Step `i` is a function of `i` and the seed alone.

    Args:
        sampler: draws.
        batch_size: queries.
        seed: of order and draws.

    Raises:
        InputError: fewer queries than a batch.
    """

    def __init__(self, sampler: Sampler, batch_size: int, seed: int) -> None:
        self._sampler, self._seed = sampler, seed
        self._batches = ShuffledBatches(
            np.zeros(len(sampler.queries)), batch_size, seed, processes=1
        )

    def __len__(self) -> int:
        """Number of steps."""
        return len(self._batches)

    def __getitem__(self, index: int) -> tuple[np.ndarray, Instances]:
        """Queries `[batch]`, positions in the collection, and their instances."""
        queries = self._batches[index][0]
        rng = np.random.default_rng((self._seed, int(index), 1))
        return self._sampler.queries[queries], self._sampler.draw(queries, rng)


def training_batches(
    data: RankingData, source: InstanceSource, row_multiple: int | None = None
) -> grain.DatasetIterator:
    """Batches of a source's steps, in order.

    Args:
        data: features of queries and documents.
        source: of the same collection.
        row_multiple: divides each number of rows; the number of devices by default, so that any
            mesh can split the rows.

    Returns:
        An iterator of dicts: `candidates`, `weights` and `relevance` of `Instances`, and for each
        side and kind `{side}_{kind}` float32 `[rows, width, dim]` and `{side}_{kind}_windows`.

    Raises:
        InputError: there are too few documents for a batch.
    """
    multiple = jax.device_count() if row_multiple is None else row_multiple
    tables = {(side, kind): t for side in SIDES for kind, t in data.features[side].items()}
    widths = {key: table.width for key, table in tables.items()}

    def placed(queries: np.ndarray, instances: Instances) -> dict[tuple[str, str], Placed]:
        texts = {QUERY: queries, DOCUMENT: instances.documents}
        return {
            key: (texts[key[0]], place(table.table.lengths[texts[key[0]]], widths[key]))
            for key, table in tables.items()
        }

    probes = [placed(*source[index]) for index in range(PROBES)]
    usual = {key: max(probe[key][1].num_rows for probe in probes) for key in tables}

    def make_batch(step: tuple[np.ndarray, Instances]) -> Batch:
        _, instances = step
        batch: Batch = {
            "candidates": instances.candidates,
            "weights": instances.weights,
            "relevance": instances.relevance,
        }
        for (side, kind), (texts, placement) in placed(*step).items():
            key = side, kind
            num_rows = padded_rows(placement.num_rows, usual[key], multiple)
            vectors, windows = tables[key].pack(texts, num_rows, placement, widths[key])
            batch |= {f"{side}_{kind}": vectors, f"{side}_{kind}_windows": windows}
        return batch

    return iterate(source, make_batch)
