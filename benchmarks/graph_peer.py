"""The peer's side of graph training: plain torch, messages added up by `index_add` (extra `bench`).

Nothing is padded. What does not change between steps (indices, edge labels) is a tensor already.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from benchmarks.graph_step import MODEL, TEMPERATURE
from benchmarks.measure import Side
from benchmarks.peer import make_stepper
from gcl_jax.graphs import MASK, GraphTable, pack

NORM_EPSILON = 1e-6  # flax's


class Batch(NamedTuple):
    """Graphs of a batch and the masks of their two views."""

    types: torch.Tensor
    labels: torch.Tensor
    graphs: torch.Tensor
    senders: torch.Tensor
    receivers: torch.Tensor
    edges: torch.Tensor
    masks: torch.Tensor


class Gin(torch.nn.Module):
    """The same network, from the same parameters; rows of `edge_i` hold both directions."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__()
        features = params["features"]
        tensors = {
            name: value
            for layer in range(MODEL.layers)
            for name, value in {
                f"own_{layer}": params[f"own_{layer}"],
                f"bias_{layer}": params[f"bias_{layer}"],
                f"epsilon_{layer}": params[f"epsilon_{layer}"],
                f"edge_{layer}": np.concatenate(
                    [params[f"down_edges_{layer}"], params[f"up_edges_{layer}"]]
                ),
                f"kernel_{layer}": params[f"dense_{layer}"]["kernel"],
                f"dense_bias_{layer}": params[f"dense_{layer}"]["bias"],
                f"scale_{layer}": params[f"norm_{layer}"]["scale"],
                f"shift_{layer}": params[f"norm_{layer}"]["bias"],
            }.items()
        } | {"types": features["types"], "labels": features["labels"]}
        for name, value in tensors.items():
            self.register_parameter(name, torch.nn.Parameter(torch.tensor(np.array(value))))

    def forward(self, batch: Batch, mask: torch.Tensor, num_graphs: int) -> torch.Tensor:
        """Unit vectors `[graphs, layers * hidden]` of a view."""
        weights = dict(self.named_parameters())
        states = torch.cat(
            [
                functional.embedding(batch.types.masked_fill(mask, MASK), weights["types"]),
                functional.embedding(batch.labels.masked_fill(mask, MASK), weights["labels"]),
            ],
            dim=1,
        )
        pooled = []
        for layer in range(MODEL.layers):
            own = states @ weights[f"own_{layer}"]
            messages = own[batch.senders] + functional.embedding(
                batch.edges, weights[f"edge_{layer}"]
            )
            summed = (1 + weights[f"epsilon_{layer}"]) * own + weights[f"bias_{layer}"]
            summed = summed.index_add(0, batch.receivers, messages)
            hidden = functional.relu(summed) @ weights[f"kernel_{layer}"]
            hidden = hidden + weights[f"dense_bias_{layer}"]
            scale, shift = weights[f"scale_{layer}"], weights[f"shift_{layer}"]
            hidden = functional.layer_norm(hidden, hidden.shape[1:], scale, shift, NORM_EPSILON)
            states = functional.relu(hidden)
            zeros = states.new_zeros(num_graphs, states.shape[1])
            pooled.append(zeros.index_add(0, batch.graphs, states))
        return functional.normalize(torch.cat(pooled, dim=1))


def graph_side(
    params: Mapping[str, Any], table: GraphTable, batches: np.ndarray, masks: list[np.ndarray]
) -> Side:
    """A run trains on all batches once more."""
    model, num_graphs = Gin(params), batches.shape[1]
    labels_of_edges = len(params["down_edges_0"])
    prepared = []
    for trees, of_batch in zip(batches, masks, strict=True):
        columns = {k: v[0] for k, v in pack(table, trees[None], of_batch.shape[1]).items()}
        children = np.flatnonzero(columns["edges"])
        parents, edges = columns["parents"][children], columns["edges"][children]
        arrays = (
            *(columns[name] for name in ("types", "labels", "graphs")),
            np.concatenate([parents, children]),
            np.concatenate([children, parents]),
            np.concatenate([edges, labels_of_edges + edges]),
        )
        tensors = [torch.tensor(array.astype(np.int64)) for array in arrays]
        prepared.append(Batch(*tensors, masks=torch.tensor(of_batch)))
    own = torch.arange(num_graphs)

    def loss(batch: Batch) -> torch.Tensor:
        first, second = (model(batch, mask, num_graphs) for mask in batch.masks)
        logits = first @ second.T / TEMPERATURE
        both = functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)
        return both / 2

    step = make_stepper(model, loss)
    return Side(lambda: step(prepared), batches.size)
