"""Steps of graph contrastive training on the judged operator trees of NTCIR-12.

COMMAND   python -m benchmarks.graph_step --threads 1 --output benchmarks/results/NAME.json
TIME      about 2 minutes
HARDWARE  1 CPU core
RESULT    benchmarks/results/graph_step*.json

Graph isomorphism network of three layers of 128, edge labels added to messages, LayerNorm, sum
pooling; two views with masked nodes; symmetric contrastive loss. Both sides start from the same
parameters and see the same views. The peer is plain torch with `index_add`, since torch-geometric
is no plain `pip install`: it pads nothing and adds up the same rows.
"""

import dataclasses
import functools
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from benchmarks import measure
from benchmarks.ours import make_stepper
from gcl_jax.config import ModelConfig
from gcl_jax.datasets.ntcir12 import data_folder, read_judged
from gcl_jax.graphs import (
    MASK,
    GraphTable,
    estimate_budget,
    index_forest,
    make_graphs,
    make_vocabulary,
    pack,
)
from gcl_jax.model import FormulaEncoder, init_params, make_encoder, unit_vectors
from retrieval_jax.contrastive_blocked import blocked_contrastive_loss
from retrieval_jax.kept import content_name
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch
from retrieval_jax.sharding import Rules
from retrieval_jax.train_step import Metrics

TEMPERATURE, MASKED = 0.1, 0.2
MODEL = ModelConfig(
    layout="opt", encoder="gin", hidden=128, layers=3, edges="sum", direction=False, pooling="sum"
)


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        options: how to measure.
        batch: graphs of a step.
        batches: distinct ones in a run.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options(threads=1)
    batch: int = 256
    batches: int = 4


class MaskedViewsTask:
    """Tells each graph's second view from those of the others; as much of a task as a step needs.

    Args:
        encoder: the model.
        params: where to start.
        graphs: in a batch.
    """

    rules: Rules = ()

    def __init__(self, encoder: FormulaEncoder, params: Params, graphs: int) -> None:
        self._encoder, self._params, self._graphs = encoder, params, graphs

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters."""
        return init_params(self._encoder, rng)

    def warm_start(self) -> Params:
        """Those that both sides start from."""
        return self._params

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """The contrastive loss of two views of the batch's graphs."""
        del rng, train
        columns = {name: value[0] for name, value in batch.items() if name != "masks"}
        graphs = make_graphs(columns, self._graphs)
        views = []
        for mask in (batch["masks"][0, 0], batch["masks"][0, 1]):
            view = graphs.replace(
                types=jnp.where(mask, MASK, graphs.types),
                labels=jnp.where(mask, MASK, graphs.labels),
            )
            vectors: Any = self._encoder.apply({"params": params}, {"opt": view})
            views.append(unit_vectors(vectors))
        return blocked_contrastive_loss(views[0], views[1], TEMPERATURE), {}


def our_side(
    task: MaskedViewsTask, table: GraphTable, batches: np.ndarray, masks: list[np.ndarray]
) -> measure.Side:
    """A run trains on all batches once more, packing included."""
    needed = [int(table.sizes[trees].sum()) for trees in batches]
    budget = estimate_budget(needed)
    step = make_stepper(task)

    def packed(index: int) -> Batch:
        num_nodes = budget.fit(needed[index])
        columns = pack(table, batches[index][None], num_nodes)
        padding = ((0, 0), (0, num_nodes - needed[index]))
        return columns | {"masks": np.pad(masks[index], padding)[None]}

    return measure.Side(lambda: step(map(packed, range(len(batches)))), batches.size)


def prepare(command: Command) -> measure.Comparison:
    """Reads the trees, draws batches and masks, and names the sides."""
    from benchmarks import graph_peer

    forest = read_judged(data_folder()).formulas.opt.with_end_marks()
    vocabulary = make_vocabulary([forest])
    table = index_forest(forest, vocabulary)
    rng = np.random.default_rng(0)
    batches = np.stack(
        [rng.permutation(len(table))[: command.batch] for _ in range(command.batches)]
    )
    masks = [rng.random((2, int(table.sizes[trees].sum()))) < MASKED for trees in batches]
    encoder = make_encoder(MODEL, vocabulary, MODEL.hidden)
    params = jax.device_get(jax.jit(functools.partial(init_params, encoder))(jax.random.key(0)))
    nodes = [int(table.sizes[trees].sum()) for trees in batches]
    return measure.Comparison(
        settings={
            "batch": command.batch,
            "batches": command.batches,
            "padding": round(estimate_budget(nodes).waste(nodes), 4),
        },
        data={
            "name": f"{len(table)} judged operator trees of NTCIR-12",
            "fingerprint": content_name([table.labels, table.parents, table.edges]),
        },
        packages=("torch",),
        sides={
            "ours": lambda: our_side(
                MaskedViewsTask(encoder, params, command.batch), table, batches, masks
            ),
            "torch": lambda: graph_peer.graph_side(params["opt"], table, batches, masks),
        },
        check=measure.check_losses,
    )


if __name__ == "__main__":
    measure.command_line("graph_step", prepare, Command, __doc__)
