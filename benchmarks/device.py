"""What one device does: a training step of BERT, contrastive steps on graphs, the loss at scale.

COMMAND   python -m benchmarks.device --output runs/device.json
          on a CPU: python -m benchmarks.device --small
TIME      less than 5 minutes on a GPU; --small a minute on a CPU
HARDWARE  one GPU or TPU chip
RESULT    one JSON line, of no peer: not for benchmarks/results

- `bert`: steps of masked language modelling by BERT-base in bfloat16 on full rows, dropout off;
  `mfu` is the share of the device's peak rate that the model's matrix products reach, recomputed
  ones not counted (Chowdhery et al., 2022, appendix B).
- `graphs`: steps of the graph encoder's contrastive training on random trees.
- `loss`: the symmetric contrastive loss and gradient of so many pairs, in tiles, by the side of a
  tile: milliseconds, and MiB beside vectors and gradients.
"""

import dataclasses
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from benchmarks import blocked_loss
from benchmarks.graph_step import MODEL, MaskedViewsTask
from benchmarks.measure import give_record
from gcl_jax.data import ForestMaker
from gcl_jax.graphs import GraphTable, Vocabulary, index_forest, make_vocabulary, pack
from gcl_jax.model import init_params, make_encoder
from retrieval_jax.bert import Bert, BertConfig, Dtype
from retrieval_jax.bert import init_params as init_bert
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.losses import contrastive_loss
from retrieval_jax.optimizers import OptimizerConfig, make_optimizer
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch
from retrieval_jax.runs import provenance_record
from retrieval_jax.sharding import MeshConfig, Rules, make_mesh, shard_batch
from retrieval_jax.train_step import Metrics, create_state, make_train_step, state_shapes

# TFLOP/s of dense bfloat16 products, by the words `device_kind` begins with (vendors' data sheets).
PEAKS = {
    "NVIDIA H200": 989.0,
    "NVIDIA H100 80GB": 989.0,  # not the PCIe card
    "NVIDIA A100": 312.0,
    "NVIDIA L4": 121.0,
    "TPU v4": 275.0,
    "TPU v5 lite": 197.0,
    "TPU v5p": 459.0,
    "TPU v6 lite": 918.0,
}
OPTIMIZER = OptimizerConfig(learning_rate=1e-5, schedule="constant", warmup=0.0)
MASKED_SHARE = 0.15


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        rows: of a batch of BERT, of `length` word pieces each.
        length: word pieces of a row.
        layers: of BERT; its width is 64 times `heads`.
        heads: attention heads.
        dtype: of BERT's computation.
        graphs: of a batch.
        nodes: of a graph.
        pairs: of the loss.
        dim: of the loss's vectors.
        blocks: sides of a tile of the loss.
        steps: that are timed, after one that compiles.
        peak_tflops: of this device, for the MFU; None = from the list of known ones.
        small: toy sizes, to see that it runs.
        output: JSON file to write; the line is printed in any case.
    """

    rows: int = 128
    length: int = 512
    layers: int = 12
    heads: int = 12
    dtype: Dtype = "bfloat16"
    graphs: int = 2048
    nodes: int = 30
    pairs: int = 65_536
    dim: int = 128
    blocks: tuple[int, ...] = (1024, 4096, 8192)
    steps: int = 10
    peak_tflops: float | None = None
    small: bool = False
    output: Path | None = None

    @property
    def sizes(self) -> "Command":
        """These sizes, or the toy ones."""
        if not self.small:
            return self
        toy = {"rows": 2, "length": 32, "layers": 1, "heads": 1, "graphs": 16, "nodes": 6}
        toy |= {"pairs": 256, "dim": 16, "steps": 2}
        return dataclasses.replace(self, **toy, blocks=(64,), dtype="float32")


class FullRowsTask:
    """Masked language modelling on rows without padding; as much of a task as a step needs."""

    rules: Rules = ()

    def __init__(self, config: BertConfig) -> None:
        self._model = Bert(config, with_mlm_head=True)

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters."""
        return init_bert(self._model, rng)

    def warm_start(self) -> Params:
        """Nothing."""
        return {}

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """Cross-entropy of the pieces at `positions`."""
        del rng, train
        variables, ids = {"params": params}, batch["input_ids"]
        hidden: Any = self._model.apply(variables, ids, jnp.ones_like(ids))
        logits: Any = self._model.apply(
            variables, hidden, batch["positions"], method=Bert.mlm_logits
        )
        return contrastive_loss(logits.reshape(-1, logits.shape[-1]), batch["labels"].ravel()), {}


def seconds_a_step(task: Any, batch: Batch, steps: int) -> float:
    """Median time of a training step on the first device, once compiled."""
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])
    optimizer = make_optimizer(OPTIMIZER, steps=1)
    shapes = state_shapes(task, optimizer, 0, mesh)
    train_step = make_train_step(task, optimizer, OPTIMIZER, shapes, mesh)
    state = [create_state(task, optimizer, 0, shapes)]
    placed = [shard_batch(batch, mesh)]

    def run() -> Any:
        state[0], metrics = train_step(state[0], placed)
        return metrics

    return seconds_a_run(run, steps)


def seconds_a_run(run: Callable[[], Any], times: int) -> float:
    """Median time of a run, after one that compiles."""
    jax.block_until_ready(run())
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        jax.block_until_ready(run())
        spent.append(time.perf_counter() - started)
    return float(np.median(spent))


def bert_flops(config: BertConfig, rows: int, length: int, masked: int) -> float:
    """Floating-point operations of the matrix products of a step, forward and backward.

    Args:
        config: of the encoder.
        rows: of the batch.
        length: word pieces of a row.
        masked: pieces of a row that the head predicts.
    """
    dim, inner = config.hidden_size, config.intermediate_size
    of_layer = 4 * dim * dim + 2 * dim * inner + 2 * length * dim
    of_head = dim * dim + dim * config.vocab_size
    return 6.0 * rows * (length * config.num_layers * of_layer + masked * of_head)


def measure_bert(command: Command, peak_tflops: float | None) -> dict[str, Any]:
    """Rate of training steps of BERT."""
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=64 * command.heads,
        num_layers=command.layers,
        num_heads=command.heads,
        intermediate_size=256 * command.heads,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        dtype=command.dtype,
    )
    rng = np.random.default_rng(0)
    shape, masked = (command.rows, command.length), round(MASKED_SHARE * command.length)
    batch = {
        "input_ids": rng.integers(0, config.vocab_size, shape, dtype=np.int32),
        "positions": np.tile(np.arange(masked, dtype=np.int32), (command.rows, 1)),
        "labels": rng.integers(0, config.vocab_size, (command.rows, masked), dtype=np.int32),
    }
    seconds = seconds_a_step(FullRowsTask(config), batch, command.steps)
    tflops = bert_flops(config, *shape, masked) / seconds / 1e12
    return {
        "ms_a_step": round(1e3 * seconds, 3),
        "pieces_a_second": round(command.rows * command.length / seconds),
        "tflops": round(tflops, 3),
        "mfu": None if peak_tflops is None else round(tflops / peak_tflops, 4),
    }


def random_trees(count: int, nodes: int) -> tuple[GraphTable, Vocabulary]:
    """Operator trees of `nodes` nodes each, every node's parent drawn among those before it."""
    rng, maker = np.random.default_rng(0), ForestMaker("opt")
    for _ in range(count):
        parents = [-1, *(int(rng.integers(max(i - 4, 0), i)) for i in range(1, nodes))]
        labels = [f"V!{letter}" for letter in rng.choice(list("abcdefgh"), nodes)]
        maker.add(labels, parents, ["", *map(str, rng.integers(0, 3, nodes - 1))])
    forest = maker.forest()
    vocabulary = make_vocabulary([forest])
    return index_forest(forest, vocabulary), vocabulary


def measure_graphs(command: Command) -> dict[str, Any]:
    """Rate of contrastive steps on graphs."""
    table, vocabulary = random_trees(command.graphs, command.nodes)
    encoder = make_encoder(MODEL, vocabulary, MODEL.hidden)
    params = jax.device_get(jax.jit(functools.partial(init_params, encoder))(jax.random.key(0)))
    num_nodes = int(table.sizes.sum())
    masks = np.random.default_rng(1).random((1, 2, num_nodes)) < MASKED_SHARE
    batch = pack(table, np.arange(command.graphs)[None], num_nodes) | {"masks": masks}
    task = MaskedViewsTask(encoder, params, command.graphs)
    seconds = seconds_a_step(task, batch, command.steps)
    return {
        "ms_a_step": round(1e3 * seconds, 3),
        "graphs_a_second": round(command.graphs / seconds),
    }


def measure_loss(command: Command) -> dict[str, Any]:
    """Time and memory of the loss, by the side of a tile."""
    shape = (2, command.pairs, command.dim)
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found = {}
    for block_size in command.blocks:
        loss = blocked_loss.losses(block_size)["ours"]
        run = blocked_loss.side(loss, vectors).run
        found[str(block_size)] = {
            "ms": round(1e3 * seconds_a_run(run, command.steps), 3),
            "temporaries_mib": blocked_loss.temporaries_mib(loss, command.pairs, command.dim),
        }
    return found


def measure(command: Command) -> dict[str, Any]:
    """Everything, as one record."""
    started, sizes = time.perf_counter(), command.sizes
    kind = jax.devices()[0].device_kind
    known = (peak for name, peak in PEAKS.items() if f"{kind} ".startswith(f"{name} "))
    peak = next(known, None) if command.peak_tflops is None else command.peak_tflops
    settings = dataclasses.asdict(dataclasses.replace(sizes, peak_tflops=peak, output=None))
    record: dict[str, Any] = {"benchmark": "device", "settings": settings}
    parts = {"bert": lambda: measure_bert(sizes, peak), "graphs": lambda: measure_graphs(sizes)}
    parts["loss"] = lambda: measure_loss(sizes)
    for name, part in parts.items():
        record[name] = part()
        print(name, record[name], file=sys.stderr, flush=True)
    stats = jax.local_devices()[0].memory_stats() or {}
    peak_bytes = stats.get("peak_bytes_in_use")
    record["peak_mib"] = None if peak_bytes is None else round(peak_bytes / 2**20)
    record["seconds"] = round(time.perf_counter() - started, 1)
    return record | provenance_record("random")


@one_screen_errors
def main() -> None:
    """Measures as the command line says."""
    command = tyro.cli(Command, prog="python -m benchmarks.device", description=__doc__)
    give_record(measure(command), command.output)


if __name__ == "__main__":
    main()
