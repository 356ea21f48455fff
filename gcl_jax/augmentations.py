"""Augmented views of formula graphs: pure functions of a random key, inside jit.

Variable Substitution (the paper's method) in three variants, the generic augmentations that it is
compared with (You et al., GraphCL, 2020), and cutting a sub-formula out. All keep the arrays'
shapes and order: what is dropped is marked.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gcl_jax.graphs import MASK, PADDING, RESERVED, Graphs, Vocabulary
from retrieval_jax.errors import InputError, check_fields

Augmentation = Literal[
    "substitute_typed",
    "substitute_variables",
    "rename",
    "node_drop",
    "edge_drop",
    "node_mask",
    "edge_mask",
    "random",
    "subformula",
    "none",
]
SUBSTITUTABLE = ("V!", "N!")


@dataclasses.dataclass(frozen=True)
class AugmentationConfig:
    """How the second view of a formula is made.

    Attributes:
        methods: one after the other:
            substitute_typed = Variable Substitution as the published code has it: every node of a
            type (`V!`, `O!`; signs have none) gets a random label of the same type;
            substitute_variables = as the paper has it: variables and numbers only;
            rename = ours: variables and numbers, a symbol alike at all its places in the formula;
            node_drop, edge_drop = nodes with their edges, or edges, are removed;
            node_mask, edge_mask = features are replaced by a mask;
            random = one of these four for each graph;
            subformula = ours: only a random sub-tree is left;
            none = the view is the formula.
        rate: share of nodes (edges, symbols) that each method changes.
        subformula_share: least share of nodes that is left of a formula, for `subformula`.

    Raises:
        InputError: an unknown method, or a share outside 0 to 1.
    """

    methods: tuple[Augmentation, ...] = ("substitute_variables",)
    rate: float = 0.3
    subformula_share: float = 0.4

    def __post_init__(self) -> None:
        """Checks the fields."""
        for method in self.methods:
            if method not in get_args(Augmentation):
                raise InputError(
                    f"augmentation {method!r}", f"There are {', '.join(get_args(Augmentation))}."
                )
        check_fields(self, ("rate", "subformula_share"), "augmentation", at_least=0, at_most=1)


@dataclasses.dataclass(frozen=True, eq=False)
class Substitutes:
    """Which labels may stand for one another.

    Attributes:
        labels: int32 `[labels]`, the real labels' ids, those of one type together.
        starts: int32 `[types]`, where the labels of a type begin.
        counts: int32 `[types]`, how many they are.
        is_typed: bool `[types]`, whether its labels have a value besides.
        is_variable: bool `[types]`, variables and numbers.
    """

    labels: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    is_typed: np.ndarray
    is_variable: np.ndarray


def make_substitutes(vocabulary: Vocabulary) -> Substitutes:
    """Groups the labels of a vocabulary by type."""
    types = vocabulary.label_types()
    order = np.argsort(types, kind="stable")[len(RESERVED) :].astype(np.int32)
    counts = np.bincount(types[len(RESERVED) :], minlength=len(vocabulary.types)).astype(np.int32)
    return Substitutes(
        labels=order,
        starts=(np.cumsum(counts) - counts).astype(np.int32),
        counts=counts,
        is_typed=np.array([len(name) == 2 and name[1] == "!" for name in vocabulary.types]),
        is_variable=np.array([name in SUBSTITUTABLE for name in vocabulary.types]),
    )


def augment(
    rng: jax.Array, graphs: Graphs, config: AugmentationConfig, substitutes: Substitutes
) -> Graphs:
    """Makes an augmented view of each graph."""
    for index, method in enumerate(config.methods):
        key = jax.random.fold_in(rng, index)
        if method in ("substitute_typed", "substitute_variables"):
            only_variables = method == "substitute_variables"
            graphs = substitute(key, graphs, config.rate, substitutes, only_variables)
        elif method == "rename":
            graphs = rename(key, graphs, config.rate, substitutes)
        elif method == "random":
            graphs = random_of_four(key, graphs, config.rate)
        elif method == "subformula":
            graphs = subformula(key, graphs, config.subformula_share)
        elif method != "none":
            graphs = _GENERIC[method](key, graphs, config.rate)
    return graphs


def substitute(
    rng: jax.Array, graphs: Graphs, rate: float, substitutes: Substitutes, only_variables: bool
) -> Graphs:
    """Gives nodes, each on its own with probability `rate`, a random label of their type.

    The draw may give the old label again. Topology, types and edges stay.
    """
    chosen_rng, label_rng = jax.random.split(rng)
    chosen = jax.random.bernoulli(chosen_rng, rate, graphs.labels.shape)
    draws = jax.random.uniform(label_rng, graphs.labels.shape)
    groups = substitutes.is_variable if only_variables else substitutes.is_typed
    return _substituted(graphs, chosen, draws, substitutes, groups)


def rename(rng: jax.Array, graphs: Graphs, rate: float, substitutes: Substitutes) -> Graphs:
    """Renames variables and numbers: with probability `rate` a symbol, at all places in a formula.

    What a symbol becomes depends on the key, the formula's place in the batch and the symbol alone,
    so that layouts renamed by one key agree.
    """
    keys = jax.vmap(jax.random.fold_in, (None, 0))(rng, graphs.graphs)
    keys = jax.vmap(jax.random.fold_in)(keys, graphs.labels)
    draws = jax.vmap(lambda key: jax.random.uniform(key, (2,)))(keys)  # [nodes, 2]
    chosen = draws[:, 0] < rate
    return _substituted(graphs, chosen, draws[:, 1], substitutes, substitutes.is_variable)


def _substituted(
    graphs: Graphs, chosen: jax.Array, draws: jax.Array, by: Substitutes, groups: np.ndarray
) -> Graphs:
    counts = jnp.asarray(by.counts)[graphs.types]
    places = jnp.minimum((draws * counts).astype(jnp.int32), counts - 1)
    # A type without labels has no place: the first is read and not used.
    places = jnp.maximum(jnp.asarray(by.starts)[graphs.types] + places, 0)
    new = jnp.asarray(by.labels)[jnp.minimum(places, len(by.labels) - 1)]
    chosen = chosen & jnp.asarray(groups)[graphs.types] & (counts > 0) & graphs.alive
    return graphs.replace(labels=jnp.where(chosen, new, graphs.labels))


def node_drop(rng: jax.Array, graphs: Graphs, rate: float) -> Graphs:
    """Removes nodes with their edges; what has no parent left stays, so that no graph is empty."""
    is_top = graphs.is_root | ~graphs.alive[graphs.parents]
    dropped = jax.random.bernoulli(rng, rate, graphs.alive.shape) & ~is_top
    return graphs.replace(alive=graphs.alive & ~dropped)


def edge_drop(rng: jax.Array, graphs: Graphs, rate: float) -> Graphs:
    """Removes edges; their nodes stay."""
    dropped = jax.random.bernoulli(rng, rate, graphs.edges.shape)
    return graphs.replace(edges=jnp.where(dropped, PADDING, graphs.edges))


def node_mask(rng: jax.Array, graphs: Graphs, rate: float) -> Graphs:
    """Masks the features of nodes: type and label."""
    masked = jax.random.bernoulli(rng, rate, graphs.types.shape) & graphs.alive
    return graphs.replace(
        types=jnp.where(masked, MASK, graphs.types), labels=jnp.where(masked, MASK, graphs.labels)
    )


def edge_mask(rng: jax.Array, graphs: Graphs, rate: float) -> Graphs:
    """Masks the labels of edges."""
    masked = jax.random.bernoulli(rng, rate, graphs.edges.shape) & (graphs.edges != PADDING)
    return graphs.replace(edges=jnp.where(masked, MASK, graphs.edges))


_GENERIC: dict[str, Callable[[jax.Array, Graphs, float], Graphs]] = {
    "node_drop": node_drop,
    "edge_drop": edge_drop,
    "node_mask": node_mask,
    "edge_mask": edge_mask,
}


def random_of_four(rng: jax.Array, graphs: Graphs, rate: float) -> Graphs:
    """Applies one of the four generic augmentations to each graph, drawn for it."""
    choice_rng, *rngs = jax.random.split(rng, 1 + len(_GENERIC))
    choices = jax.random.randint(choice_rng, (graphs.num_graphs + 1,), 0, len(_GENERIC))
    of_node = choices[graphs.graphs]
    views = [method(key, graphs, rate) for key, method in zip(rngs, _GENERIC.values(), strict=True)]
    cases = [of_node == index for index in range(len(views))]
    # With a default of its own, a bool would become an integer.
    return jax.tree.map(lambda *leaves: jnp.select(cases, leaves, leaves[0]), *views)


def subformula(rng: jax.Array, graphs: Graphs, least_share: float) -> Graphs:
    """Leaves of each graph one sub-tree, drawn among those of enough nodes.

    The whole formula is one of them, and the only one of a formula whose parts are all too small.
    """
    size = graphs.num_graphs + 1
    whole = jax.ops.segment_max(graphs.subtree_sizes, graphs.graphs, size, True)
    enough = graphs.subtree_sizes >= least_share * whole[graphs.graphs]
    draws = jnp.where(enough & graphs.alive, jax.random.uniform(rng, enough.shape), -1.0)
    best = jax.ops.segment_max(draws, graphs.graphs, size, True)
    inside = (draws == best[graphs.graphs]) & graphs.alive
    # A node is inside if it or an ancestor was drawn: ancestors in strides of 1, 2, 4 ...
    ancestors = graphs.parents
    for _ in range(max(len(ancestors) - 1, 1).bit_length()):
        inside = inside | inside[ancestors]
        ancestors = ancestors[ancestors]
    return graphs.replace(alive=graphs.alive & inside)
