"""Our side of training: the training loop's own step, on packed pairs of texts."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from benchmarks.measure import Side
from retrieval_jax.bert import Bert, init_params, pool
from retrieval_jax.losses import contrastive_loss_from_embeddings
from retrieval_jax.optimizers import OptimizerConfig, make_optimizer
from retrieval_jax.packing import Placement, place, round_up, row_width
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch, TokenTable
from retrieval_jax.pretrained import PretrainedBert
from retrieval_jax.sharding import MeshConfig, Rules, make_mesh, shard_batch
from retrieval_jax.train_step import Metrics, create_state, make_train_step, state_shapes

# What `TokenTable.pack` takes: texts, their places, the shape of the rows.
Placed = tuple[np.ndarray, Placement, tuple[int, int]]
SCALE = 20.0  # of cosines
OPTIMIZER = OptimizerConfig(
    learning_rate=1e-5, schedule="constant", warmup=0.0, weight_decay=0.01, clip_norm=1.0
)


class PairTask:
    """Of a batch of pairs, tells each first text's second one from the others.

    As much of a `train_step.Task` as a step needs.

    Args:
        encoder: where to start.
        pairs: in a batch.
    """

    rules: Rules = ()

    def __init__(self, encoder: PretrainedBert, pairs: int) -> None:
        self._encoder, self._pairs = encoder, pairs

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters of `Bert`."""
        return init_params(Bert(self._encoder.config), rng)

    def warm_start(self) -> Params:
        """The encoder's parameters."""
        return self._encoder.params

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """In-batch softmax over cosines of mean-pooled vectors, first texts before second."""
        hidden: Any = Bert(self._encoder.config).apply(
            {"params": params},
            batch["input_ids"],
            batch["attention_mask"],
            position_ids=batch["position_ids"],
            deterministic=not train,
            rngs={"dropout": rng},
        )
        vectors = pool(hidden, batch["attention_mask"], "mean", 2 * self._pairs)
        first, second = vectors[: self._pairs], vectors[self._pairs :]
        return contrastive_loss_from_embeddings(first, second, 1 / SCALE), {}


def pair_side(encoder: PretrainedBert, table: TokenTable, batches: np.ndarray) -> Side:
    """A run trains on all batches once more, packing included.

    Args:
        encoder: where to start.
        table: texts 2 i and 2 i + 1 make pair i.
        batches: int `[batches, pairs]`, the pairs of each batch.
    """
    step = make_stepper(PairTask(encoder, batches.shape[1]))
    place_all = placer(table.lengths, np.concatenate([2 * batches, 2 * batches + 1], axis=1))
    return Side(lambda: step(table.pack(*placed) for placed in place_all()), batches.size)


def placer(lengths: np.ndarray, batches: np.ndarray) -> Callable[[], Iterator[Placed]]:
    """Makes a function that places the texts of one batch after the other in rows.

    `pipeline.text_batches` also balances the batches' lengths, so that they have one shape. Here
    the batches are given: rows are rounded up by a sixteenth at most, so that shapes stay few.

    Args:
        lengths: int `[texts]`.
        batches: int `[batches, size]`, the texts of each batch.
    """
    width = row_width(lengths)
    fewest = min(place(lengths[texts], width).num_rows for texts in batches)

    def place_all() -> Iterator[Placed]:
        for texts in batches:
            placement = place(lengths[texts], width)
            num_rows = round_up(placement.num_rows, max(fewest // 16, 1))
            yield texts, placement, (num_rows, width)

    return place_all


def make_stepper(task: Any) -> Callable[[Iterable[Batch]], np.ndarray]:
    """Builds a state of `task` on one device; a call trains it on batches and gives the losses."""
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])
    optimizer = make_optimizer(OPTIMIZER, steps=1)
    shapes = state_shapes(task, optimizer, 0, mesh)
    train_step = make_train_step(task, optimizer, OPTIMIZER, shapes, mesh)
    state = create_state(task, optimizer, 0, shapes)

    def step(batches: Iterable[Batch]) -> np.ndarray:
        nonlocal state
        losses = []
        for batch in batches:
            state, metrics = train_step(state, [shard_batch(batch, mesh)])
            losses.append(metrics["loss"][0])
        return np.asarray(jax.device_get(losses))

    return step
