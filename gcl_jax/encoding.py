"""Encoding any number of formulas: batches of few shapes, results in input order."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from gcl_jax.config import DataConfig
from gcl_jax.data import Formulas
from gcl_jax.graphs import Graphs, GraphTable, Vocabulary, index_forest, make_graphs, pack
from gcl_jax.model import LAYOUTS, FormulaEncoder
from retrieval_jax.packing import power_of_two
from retrieval_jax.params import Params

Tables = dict[str, GraphTable]
"""Layout -> trees; those of one place make one formula."""

NODES, GRAPHS = 8192, 512  # of a call, at most, unless a single tree is larger


def index_formulas(
    formulas: Formulas, vocabulary: Vocabulary, layout: str, data: DataConfig
) -> Tables:
    """Looks up the trees of the layouts that a model reads.

    Args:
        formulas: with both trees.
        vocabulary: of the model.
        layout: which: `slt`, `opt` or `both`.
        data: whether ends are marked.
    """
    tables = {}
    for name in LAYOUTS[layout]:
        forest = getattr(formulas, name)
        forest = forest.with_end_marks() if data.end_marks else forest
        tables[name] = index_forest(forest, vocabulary)
    return tables


def jit_encoder(encoder: FormulaEncoder) -> Callable[..., dict[str, jax.Array]]:
    """Jits (parameters, layout -> columns of `graphs.pack`, number of graphs) -> vectors."""

    def encode(params: Params, columns: Any, num_graphs: int) -> dict[str, jax.Array]:
        graphs: dict[str, Graphs] = {
            name: make_graphs(of_layout, num_graphs) for name, of_layout in columns.items()
        }
        vectors: Any = encoder.apply({"params": params}, graphs)
        return vectors

    return jax.jit(encode, static_argnums=2)


def encode_tables(
    encode: Callable[..., dict[str, jax.Array]], params: Params, tables: Mapping[str, GraphTable]
) -> dict[str, np.ndarray]:
    """Encodes every formula of `tables`.

    Args:
        encode: of `jit_encoder`; called with few shapes, so that little is compiled.
        params: its parameters.
        tables: one or more formulas.

    Returns:
        Layout -> float32 `[formulas, dim]`, not of unit length.
    """
    sizes = np.stack([table.sizes for table in tables.values()])  # [layouts, formulas]
    order = np.argsort(-sizes.sum(axis=0), kind="stable")
    vectors: dict[str, np.ndarray] = {}
    for start, end in _calls(sizes[:, order]):
        chosen = order[start:end]
        num_graphs = power_of_two(len(chosen))
        columns = {}
        for name, table in tables.items():
            num_nodes = power_of_two(int(table.sizes[chosen].sum()))
            packed = pack(table, chosen[None], num_nodes)
            # Graphs beyond the last formula are empty; fillers come after them.
            packed["graphs"][packed["graphs"] == len(chosen)] = num_graphs
            columns[name] = {column: values[0] for column, values in packed.items()}
        for name, encoded in encode(params, columns, num_graphs).items():
            if name not in vectors:
                vectors[name] = np.empty((len(order), encoded.shape[1]), np.float32)
            vectors[name][chosen] = np.asarray(encoded)[: len(chosen)]
    return vectors


def _calls(sizes: np.ndarray) -> list[tuple[int, int]]:
    """Cuts formulas `[layouts, formulas]` of these sizes into calls."""
    calls, start = [], 0
    ends = np.cumsum(sizes, axis=1)
    while start < sizes.shape[1]:
        limits = ends[:, start] - sizes[:, start] + NODES
        fits = (np.searchsorted(*pair, "right") for pair in zip(ends, limits, strict=True))
        end = min(max(int(min(fits)), start + 1), start + GRAPHS)
        calls.append((start, end))
        start = end
    return calls
