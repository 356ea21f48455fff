"""Vectors of types and values: walks that stay in their trees, determinism, unknown symbols."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest

from gcl_jax.data import Forest, forest_of
from gcl_jax.embeddings import (
    NodeEmbeddingConfig,
    load_node_embeddings,
    train_node_embeddings,
    walk_trees,
)
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_trees import random_tree

pytest.importorskip("gensim", reason="needs gensim")
CONFIG = NodeEmbeddingConfig(dim=8, walks_per_node=3, walk_length=5, epochs=2, buckets=100)


def forest() -> Forest:
    rng = random.Random(0)
    return forest_of([random_tree(rng, "slt", rng.randint(1, 12)) for _ in range(40)])


def test_walks_follow_edges_within_a_tree() -> None:
    trees = forest()
    walks = walk_trees(trees, 3, 6, seed=1)
    assert walks.shape == (3 * len(trees.labels), 6)
    assert np.bincount(walks[:, 0]).tolist() == [3] * len(trees.labels)
    for before, after in zip(walks[:, :-1].T, walks[:, 1:].T, strict=True):
        going = after >= 0
        up = trees.global_parents[before[going]] == after[going]
        down = trees.global_parents[after[going]] == before[going]
        assert (up ^ down).all()
    alone = trees.sizes[trees.tree_ids[walks[:, 0]]] == 1
    assert (walks[alone, 1:] == -1).all()
    assert (walks[~alone] >= 0).all()


def test_features_are_types_beside_values(tmp_path: Path) -> None:
    trees = forest()
    vectors = train_node_embeddings(trees, CONFIG)
    features = vectors.encode(["V!x", "V!y", "=", "V!unheard", "Z!z"])
    assert features.shape == (5, 16)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features[0, :8], features[1, :8])  # one type
    assert not np.array_equal(features[0, 8:], features[1, 8:])
    np.testing.assert_array_equal(features[0, 8:], vectors.values.lookup(["x"])[0])
    np.testing.assert_array_equal(features[2, 8:], vectors.values.lookup(["="])[0])
    assert np.abs(features).sum(axis=1).all()  # unknown ones have their subwords'
    assert vectors.encode([]).shape == (0, 16)
    vectors.save(tmp_path / "vectors")
    np.testing.assert_array_equal(
        load_node_embeddings(tmp_path / "vectors").encode(["V!x", "V!unheard"]), features[[0, 3]]
    )
    assert sorted(path.suffix for path in (tmp_path / "vectors").iterdir()) == [".safetensors"] * 2
    with pytest.raises(InputError, match=r"no .*types.safetensors"):
        load_node_embeddings(tmp_path)


def test_the_same_seed_gives_the_same_vectors() -> None:
    trees, labels = forest(), ["V!x", "=", "V!unheard"]
    first = train_node_embeddings(trees, CONFIG).encode(labels)
    np.testing.assert_array_equal(train_node_embeddings(trees, CONFIG).encode(labels), first)
    other = train_node_embeddings(trees, dataclasses.replace(CONFIG, seed=1)).encode(labels)
    assert not np.array_equal(other, first)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="walks_per_node"):
        train_node_embeddings(forest(), dataclasses.replace(CONFIG, walks_per_node=0))
