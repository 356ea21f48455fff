"""The ranker as one would first write it in torch: every instance's texts padded and encoded."""

from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from benchmarks.measure import Side
from benchmarks.peer import make_stepper, prepare_torch
from ltr_jax.config import Config
from ltr_jax.data import FeatureTable, RankingData
from ltr_jax.model import DOCUMENT, KINDS, QUERY, SIDES
from retrieval_jax.params import Params


class PooledConvolution(nn.Module):
    """Frozen vectors of ids, convolution, tanh, average over the windows of each text."""

    def __init__(self, feature: FeatureTable, params: Params) -> None:
        super().__init__()
        self.window = feature.window
        self.vectors = nn.Embedding.from_pretrained(torch.from_numpy(feature.vectors), freeze=True)
        kernel = np.array(params["kernel"])  # [window, dim, filters]
        window, dim, filters = kernel.shape
        self.convolution = nn.Conv1d(dim, filters, window)
        self.convolution.weight.data = torch.from_numpy(kernel.transpose(2, 1, 0).copy())
        self.convolution.bias = nn.Parameter(torch.from_numpy(np.array(params["bias"])))

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """`[texts, filters]` of ids `[texts, longest]` and lengths `[texts]`."""
        hidden = torch.tanh(self.convolution(self.vectors(ids).transpose(1, 2)))
        places = torch.arange(hidden.shape[2])[None]
        starts = ids[:, : hidden.shape[2]] > 0
        present = ((places <= lengths[:, None] - self.window) & starts).float()
        total = (hidden * present[:, None]).sum(dim=2)
        return total / present.sum(dim=1).clamp(min=1)[:, None]


class PairRanker(nn.Module):
    """S(q, d) of `[c_q ; c_q^cat ; c_d ; c_d^cat]`, with the weights of ours."""

    def __init__(self, params: Params, data: RankingData) -> None:
        super().__init__()
        self.convolutions = nn.ModuleDict(
            {
                f"{side}_{kind}": PooledConvolution(
                    data.features[side][kind], params[f"{side}_{kind}"]
                )
                for side in SIDES
                for kind in KINDS
            }
        )
        halves = [np.array(params[f"{side}_half"]["kernel"]) for side in SIDES]
        names = sorted(name for name in params if name.startswith("layers_"))
        first = {"kernel": np.concatenate(halves), "bias": params["query_half"]["bias"]}
        layers = [first, *(params[name] for name in names)]
        self.layers = nn.ModuleList(_linear(layer) for layer in layers)
        self.output = _linear(params["output"])

    def encode(self, side: str, batch: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> Any:
        """`[c ; c^cat]` of a batch's texts."""
        return torch.cat(
            [self.convolutions[f"{side}_{kind}"](*batch[kind]) for kind in KINDS], dim=1
        )

    def forward(self, query: torch.Tensor, document: torch.Tensor) -> torch.Tensor:
        """S `[pairs]` of what `encode` gives."""
        hidden = torch.cat([query, document], dim=1)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return self.output(hidden)[:, 0]


def per_pair_side(
    params: Params,
    data: RankingData,
    triples: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
    config: Config,
) -> Side:
    """A run trains on all steps' instances once more, padding included."""
    prepare_torch()
    model = PairRanker(params, data).train()
    margin = config.sampling.margin

    def loss(step: tuple[np.ndarray, np.ndarray, np.ndarray]) -> torch.Tensor:
        queries, better, worse = step
        query = model.encode(QUERY, _padded(data, QUERY, queries))
        above, below = (
            model(query, model.encode(DOCUMENT, _padded(data, DOCUMENT, documents)))
            for documents in (better, worse)
        )
        in_order = torch.ones(len(queries))
        return functional.margin_ranking_loss(above, below, in_order, margin=margin)

    step = make_stepper(model, loss)
    return Side(lambda: step(triples), sum(len(queries) for queries, _, _ in triples))


def _padded(
    data: RankingData, side: str, texts: np.ndarray
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Ids, padded to the longest of the batch, and lengths of each kind."""
    batch = {}
    for kind in KINDS:
        table = data.features[side][kind].table
        lengths = table.lengths[texts]
        ids = table.input_ids[texts, : lengths.max()]
        batch[kind] = torch.from_numpy(ids), torch.from_numpy(lengths)
    return batch


def _linear(layer: Params) -> nn.Linear:
    kernel = np.array(layer["kernel"])
    linear = nn.Linear(*kernel.shape)
    linear.weight.data = torch.from_numpy(kernel.T.copy())
    linear.bias.data = torch.from_numpy(np.array(layer["bias"]))
    return linear
