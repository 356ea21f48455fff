"""Graph contrastive learning as a task of the one training loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import grain
import jax
import jax.numpy as jnp
import numpy as np

from gcl_jax.augmentations import augment, make_substitutes
from gcl_jax.config import Config
from gcl_jax.encoding import Tables, encode_tables, jit_encoder
from gcl_jax.graphs import (
    PaddingBudget,
    Vocabulary,
    equal_ids,
    estimate_budget,
    make_graphs,
    pack,
)
from gcl_jax.model import FormulaEncoder, init_params, unit_vectors
from gcl_jax.scoring import scores
from retrieval_jax.chunking import Chunking, map_chunks
from retrieval_jax.contrastive_blocked import blocked_contrastive_loss
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch, ShuffledBatches, iterate
from retrieval_jax.sharding import Rules
from retrieval_jax.train_step import Metrics

SAMPLED_BATCHES = 64
"""By which the padding is estimated."""


class DevSet(NamedTuple):
    """What chooses the best parameters.

    Attributes:
        queries: their trees.
        documents: trees of the pool.
        measures: scores `[queries, documents]` -> measures.
    """

    queries: Tables
    documents: Tables
    measures: Callable[[np.ndarray], dict[str, float]]


class ContrastTask:
    """Of a batch, tells the augmented view of each formula from those of the others.

    The first view is the formula itself. A formula that occurs twice in a batch is no negative of
    itself. Of several processes each packs its own chunks.

    Args:
        encoder: the model.
        tables: formulas to train on.
        vocabulary: their symbols.
        config: augmentation and loss.
        warm_start: gives parameters to start from; may be empty.
        dev: chooses the best parameters; None = the last ones are kept.
        lanes: devices over which a batch is split.
    """

    rules: Rules = ()
    inseparable: str | None = "the negatives of a formula are the others of its whole batch"
    batches_by_process = True

    def __init__(
        self,
        encoder: FormulaEncoder,
        tables: Tables,
        vocabulary: Vocabulary,
        config: Config,
        warm_start: Callable[[], Params] = dict,
        dev: DevSet | None = None,
        lanes: int = 1,
    ) -> None:
        self.encoder, self.tables, self.config, self.dev = encoder, tables, config, dev
        self.lanes = lanes
        self.ids = equal_ids(list(tables.values()))
        self._substitutes = make_substitutes(vocabulary)
        self._warm_start = warm_start
        self._encode = jit_encoder(encoder)

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters of the encoder."""
        return init_params(self.encoder, rng)

    def warm_start(self) -> Params:
        """What the task was given."""
        return self._warm_start()

    def views(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Unit vectors of the formulas and of their augmented views, float32 `[batch, dim]` each.

        A chunk of formulas is encoded at a time, in each lane; where there are more than one, what
        a chunk's gradient needs is computed again.
        """
        names = tuple(self.tables)  # in one order in every process: it decides the program
        chunks = next(len(value) for key, value in batch.items() if "/" in key)
        num_graphs = len(batch["ids"]) // chunks

        def encode_chunk(index: jax.Array, columns: dict[str, jax.Array]) -> Any:
            key = jax.random.fold_in(rng, index)
            graphs = {name: make_graphs(_of_layout(columns, name), num_graphs) for name in names}
            augmented = {
                name: augment(key, of_layout, self.config.augmentation, self._substitutes)
                for name, of_layout in graphs.items()
            }
            of_both: list[Any] = [
                self.encoder.apply({"params": params}, view) for view in (graphs, augmented)
            ]
            return tuple(map(unit_vectors, of_both))

        columns = {key: value for key, value in batch.items() if "/" in key}
        indices = jnp.arange(chunks)
        if chunks == 1:
            return encode_chunk(indices[0], {key: value[0] for key, value in columns.items()})
        encoded = map_chunks(encode_chunk, (indices, columns), self.lanes)
        return tuple(view.reshape(-1, view.shape[-1]) for view in encoded)  # pyright: ignore[reportReturnType]

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """Symmetric contrastive loss of a batch of `batches`."""
        del train
        formulas, augmented = self.views(params, batch, rng)
        contrast = self.config.contrast
        loss = blocked_contrastive_loss(
            formulas,
            augmented,
            contrast.temperature,
            batch["ids"],
            contrast.block_size,
            self.lanes,
        )
        cosines = jnp.sum(formulas * augmented, axis=1)
        return loss, {"positive_cosine": (jnp.sum(cosines), jnp.float32(len(cosines)))}

    def batches(self, batch_size: int, seed: int) -> grain.DatasetIterator:
        """Shuffled formulas in chunks of nearly equal size: those of this process.

        Args:
            batch_size: formulas, global.
            seed: of the order.

        Returns:
            An iterator of dicts: `ids` int32 `[batch]` and, for each layout, the columns of
            `graphs.pack` as `layout/column` `[chunks, nodes]`, of a process's part of the batch.
        """
        sizes = {name: table.sizes for name, table in self.tables.items()}
        source = ShuffledBatches(
            np.sum(list(sizes.values()), axis=0), batch_size, seed, processes=1
        )
        chunks = Chunking(self.config.contrast.chunk_graphs, self.lanes).count(batch_size)

        def arrange(parts: np.ndarray) -> np.ndarray:
            # By size, back and forth, so that no chunk gets the larger one of every pair.
            rows = parts[0].reshape(-1, chunks).copy()
            rows[1::2] = rows[1::2, ::-1]
            return rows.T  # [chunks, graphs]

        def needed(trees: np.ndarray, name: str) -> int:
            return int(sizes[name][trees].sum(axis=1).max())

        sample = [arrange(source[index]) for index in range(SAMPLED_BATCHES)]
        budgets: dict[str, PaddingBudget] = {
            name: estimate_budget([needed(trees, name) for trees in sample]) for name in sizes
        }

        def make_batch(parts: np.ndarray) -> Batch:
            trees = arrange(parts)
            own = np.split(trees, jax.process_count())[jax.process_index()]
            batch: Batch = {"ids": self.ids[own.reshape(-1)]}
            for name, table in self.tables.items():
                # Each process looks at all chunks: they must agree on the number of nodes.
                columns = pack(table, own, budgets[name].fit(needed(trees, name)))
                batch |= {f"{name}/{column}": values for column, values in columns.items()}
            return batch

        return iterate(source, make_batch)

    def evaluate(self, params: Params) -> dict[str, float]:
        """Measures of the dev set by `scoring.scores`; nothing without one."""
        if self.dev is None:
            return {}
        params = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), params)
        queries, documents = (
            encode_tables(self._encode, params, tables)
            for tables in (self.dev.queries, self.dev.documents)
        )
        exponent = self.config.model.document_exponent
        return self.dev.measures(scores(queries, documents, exponent))


def _of_layout(columns: dict[str, jax.Array], name: str) -> dict[str, jax.Array]:
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): value for key, value in columns.items() if key.startswith(prefix)
    }
