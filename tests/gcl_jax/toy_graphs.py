"""Small made-up formulas with both trees, and batches of them in jraph's form."""

import jax.numpy as jnp
import jraph
import numpy as np

from gcl_jax.data import Formulas, forest_of
from gcl_jax.formulas.trees import make_tree
from gcl_jax.graphs import Graphs

VARIABLES = "abcxyz"


def random_tree(layout, rng, size):
    """A random tree in pre-order."""
    labels, parents, edges, path = [], [], [], []
    names = "nabw" if layout == "slt" else "0123"
    for node in range(size):
        parent = -1 if node == 0 else path[rng.integers(max(len(path) - 2, 0), len(path))]
        path = path[: path.index(parent) + 1] if node else []
        path.append(node)
        kind = rng.integers(4)
        label = (f"V!{VARIABLES[rng.integers(6)]}", f"N!{rng.integers(4)}", "O!divide", "=")[kind]
        labels.append(label)
        parents.append(parent)
        edges.append("" if node == 0 else names[rng.integers(4)])
    return make_tree(layout, labels, parents, edges)


def random_formulas(count, seed=0, largest=12):
    """Formulas of 1 to `largest` nodes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, count)
    slt = [random_tree("slt", rng, size) for size in sizes]
    opt = [random_tree("opt", rng, size) for size in sizes]
    return Formulas(tuple(f"f{i}" for i in range(count)), forest_of(slt), forest_of(opt))


def to_graphs_tuple(graphs: Graphs) -> jraph.GraphsTuple:
    """The same graphs in jraph's form, for its models: an edge either way, fillers as a graph."""
    nodes = jnp.arange(len(graphs.parents))
    sizes = jraph.segment_sum(jnp.ones_like(nodes), graphs.graphs, graphs.num_graphs + 1)
    return jraph.GraphsTuple(
        nodes={"types": graphs.types, "labels": graphs.labels, "alive": graphs.alive},
        edges={
            "labels": jnp.concatenate([graphs.edges, graphs.edges]),
            "alive": jnp.concatenate([graphs.has_edge, graphs.has_edge]),
        },
        senders=jnp.concatenate([graphs.parents, nodes]),
        receivers=jnp.concatenate([nodes, graphs.parents]),
        globals=None,
        n_node=sizes,
        n_edge=2 * sizes,
    )
