"""What augmentations keep, what they change and how often."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcl_jax.augmentations import (
    SUBSTITUTABLE,
    AugmentationConfig,
    augment,
    make_substitutes,
    node_drop,
    rename,
    substitute,
)
from gcl_jax.data import concatenate, forest_of
from gcl_jax.formulas.trees import Tree
from gcl_jax.graphs import MASK, PADDING, index_forest, make_graphs, make_vocabulary, pack
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_graphs import random_formulas

COUNT, NODES = 400, 3200
FORMULAS = random_formulas(COUNT, 0)
VOCABULARY = make_vocabulary([FORMULAS.slt, FORMULAS.opt])
SUBSTITUTES = make_substitutes(VOCABULARY)
TABLE = index_forest(FORMULAS.slt, VOCABULARY)


def graphs_of(table, count, num_nodes):
    columns = pack(table, np.arange(count)[None], num_nodes)
    return make_graphs({k: jnp.asarray(v[0]) for k, v in columns.items()}, count)


GRAPHS = graphs_of(TABLE, COUNT, NODES)
AUGMENT = jax.jit(
    lambda seed, config: augment(jax.random.key(seed), GRAPHS, config, SUBSTITUTES),
    static_argnums=1,
)
REAL = np.asarray(GRAPHS.alive)
IS_VARIABLE = np.array([name in SUBSTITUTABLE for name in VOCABULARY.types])[GRAPHS.types]
IS_TYPED = np.array(["!" in name for name in VOCABULARY.types])[GRAPHS.types]
SEEDS = st.integers(0, 2**31 - 1)


def view(seed, *methods, rate=0.3):
    return AUGMENT(seed, AugmentationConfig(methods, rate))


def assert_kept(got, *fields):
    for field in fields:
        np.testing.assert_array_equal(getattr(got, field), getattr(GRAPHS, field))


def shares(changed, among):
    """Within five standard deviations of a share of .3."""
    count = among.sum()
    deviation = np.sqrt(0.3 * 0.7 / count)
    return abs((changed & among).sum() / count - 0.3) < 5 * deviation


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_substitution_keeps_all_but_the_labels_of_variables_and_numbers(seed):
    for method in ("substitute_variables", "rename"):
        got = view(seed, method)
        assert_kept(got, "types", "edges", "parents", "graphs", "alive")
        changed = np.asarray(got.labels != GRAPHS.labels)
        assert not changed[~IS_VARIABLE | ~REAL].any()
        # Each label is still one of its node's type.
        types = VOCABULARY.label_types()[np.asarray(got.labels)]
        np.testing.assert_array_equal(types[REAL], np.asarray(got.types)[REAL])


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_the_published_substitution_changes_operators_with_a_type_too(seed):
    got = view(seed, "substitute_typed", rate=1.0)
    assert_kept(got, "types", "edges", "parents", "graphs", "alive")
    changed = np.asarray(got.labels != GRAPHS.labels)
    assert not changed[~IS_TYPED].any()
    types = VOCABULARY.label_types()[np.asarray(got.labels)]
    np.testing.assert_array_equal(types[REAL], np.asarray(got.types)[REAL])


def test_substitution_chooses_as_many_as_asked_and_all_labels_alike():
    # A vocabulary in which every draw can be told: one label in the formulas, many beside.
    tree = Tree("slt", ("V!x",) * 20, tuple(range(-1, 19)), ("", *["n"] * 19))
    names = [f"V!v{i}" for i in range(9)]
    others = Tree("slt", tuple(names), tuple(range(-1, 8)), ("", *["n"] * 8))
    forest = concatenate([forest_of([tree] * 300), forest_of([others])])
    vocabulary = make_vocabulary([forest])
    table = index_forest(forest, vocabulary)
    graphs = graphs_of(table, 300, 6000)
    substitutes = make_substitutes(vocabulary)
    old = vocabulary.labels.index("V!x")

    got = substitute(jax.random.key(0), graphs, 0.3, substitutes, only_variables=True)
    counts = np.bincount(np.asarray(got.labels), minlength=len(vocabulary.labels))
    # A tenth of the 30 % draw the old label again.
    assert counts[old] / 6000 == pytest.approx(1 - 0.3 * 0.9, abs=0.03)
    others_counts = np.array([counts[vocabulary.labels.index(name)] for name in names])
    assert others_counts.sum() + counts[old] == 6000
    assert (abs(others_counts / 6000 - 0.03) < 0.015).all()

    renamed = np.asarray(rename(jax.random.key(0), graphs, 0.3, substitutes).labels)
    by_formula = renamed.reshape(300, 20)
    assert (by_formula == by_formula[:, :1]).all()
    assert (by_formula[:, 0] != old).mean() == pytest.approx(0.27, abs=0.13)
    assert len(set(by_formula[:, 0].tolist())) > 5


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_renaming_is_consistent_within_a_formula_and_across_layouts(seed):
    key = jax.random.key(seed)
    layouts = [GRAPHS, graphs_of(index_forest(FORMULAS.opt, VOCABULARY), COUNT, NODES)]
    names: dict[tuple[int, int], int] = {}
    for graphs in layouts:
        got = rename(key, graphs, 0.5, SUBSTITUTES)
        rows = np.stack([graphs.graphs, graphs.labels, got.labels], axis=1)[
            np.asarray(graphs.alive)
        ]
        for graph, old, new in rows.tolist():
            assert names.setdefault((graph, old), new) == new


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_generic_augmentations_change_what_their_names_say(seed):
    dropped = view(seed, "node_drop")
    assert_kept(dropped, "types", "labels", "edges", "parents", "graphs")
    roots = np.asarray(GRAPHS.is_root)
    gone = REAL & ~np.asarray(dropped.alive)
    assert not gone[roots].any()
    assert shares(gone, REAL & ~roots)
    # No message passes a dropped node.
    assert not np.asarray(dropped.has_edge)[gone].any()
    assert not np.asarray(dropped.has_edge)[gone[np.asarray(GRAPHS.parents)]].any()

    cut = view(seed, "edge_drop")
    assert_kept(cut, "types", "labels", "parents", "graphs", "alive")
    assert shares(np.asarray(cut.edges == PADDING), np.asarray(GRAPHS.has_edge))

    masked = view(seed, "node_mask")
    assert_kept(masked, "edges", "parents", "graphs", "alive")
    hidden = np.asarray(masked.types == MASK)
    np.testing.assert_array_equal(hidden, np.asarray(masked.labels == MASK))
    assert shares(hidden, REAL)
    assert not hidden[~REAL].any()

    blind = view(seed, "edge_mask")
    assert_kept(blind, "types", "labels", "parents", "graphs", "alive")
    assert shares(np.asarray(blind.edges == MASK), np.asarray(GRAPHS.has_edge))
    np.testing.assert_array_equal(blind.has_edge, GRAPHS.has_edge)


def test_random_takes_one_of_the_four_for_each_formula():
    got = view(3, "random", rate=1.0)
    graphs = np.asarray(GRAPHS.graphs)
    kinds = np.zeros((COUNT, 4), bool)
    changes = (
        REAL & ~np.asarray(got.alive),
        np.asarray(GRAPHS.has_edge) & np.asarray(got.edges == PADDING) & np.asarray(got.alive),
        np.asarray(got.types == MASK),
        np.asarray(got.edges == MASK),
    )
    for kind, changed in enumerate(changes):
        kinds[graphs[changed], kind] = True
    assert (kinds.sum(axis=1) <= 1).all()
    # Of formulas of several nodes each shows; a quarter of each kind.
    several = np.asarray(FORMULAS.slt.sizes) > 1
    assert (kinds[several].sum(axis=1) == 1).all()
    assert (abs(kinds[several].mean(axis=0) - 0.25) < 0.1).all()


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_a_subformula_is_a_subtree_of_enough_nodes(seed):
    got = view(seed, "subformula")
    assert_kept(got, "types", "labels", "edges", "parents", "graphs")
    alive, sizes = np.asarray(got.alive), TABLE.sizes
    left = np.bincount(np.asarray(GRAPHS.graphs)[alive], minlength=COUNT)
    assert (left >= 0.4 * sizes).all()
    assert (left <= sizes).all()
    assert (left < sizes).any()
    # One root each, and all below it.
    has_edge = np.asarray(got.has_edge)
    tops = np.bincount(np.asarray(GRAPHS.graphs)[alive & ~has_edge], minlength=COUNT)
    assert (tops == 1).all()
    parents = np.asarray(GRAPHS.parents)
    roots = np.asarray(GRAPHS.is_root)
    assert not (REAL & ~roots & ~alive & alive[parents]).any()


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_no_graph_is_empty_after_its_root_was_dropped(seed):
    graphs = np.asarray(GRAPHS.graphs)
    for last in ("node_drop", "random"):
        got = view(seed, "subformula", last, rate=1.0)
        assert set(graphs[np.asarray(got.alive)].tolist()) == set(range(COUNT))


def test_of_whole_graphs_dropping_keeps_the_roots_alone():
    key = jax.random.key(5)
    drawn = np.asarray(jax.random.bernoulli(key, 0.3, GRAPHS.alive.shape))
    expected = REAL & ~(drawn & ~np.asarray(GRAPHS.is_root))
    np.testing.assert_array_equal(node_drop(key, GRAPHS, 0.3).alive, expected)


def test_methods_are_combined_and_none_is_none():
    same = view(0, "none")
    assert_kept(same, "types", "labels", "edges", "parents", "graphs", "alive")
    got = view(0, "subformula", "rename", "node_mask", rate=1.0)
    np.testing.assert_array_equal(got.alive, view(0, "subformula").alive)
    assert (np.asarray(got.types)[np.asarray(got.alive)] == MASK).all()


@pytest.mark.parametrize(
    "settings_", [{"methods": ("shuffle",)}, {"rate": 1.5}, {"subformula_share": -0.1}]
)
def test_settings_are_checked(settings_):
    with pytest.raises(InputError):
        AugmentationConfig(**settings_)
