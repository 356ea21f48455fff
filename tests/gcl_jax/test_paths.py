"""Downward paths; their values are tested where they are used, in `test_baselines`."""

import pytest

from gcl_jax.data import forest_of
from gcl_jax.paths import tree_paths
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_formulas import chain


def test_paths_have_an_edge() -> None:
    forest = forest_of([chain("abc")[0]])
    assert tree_paths(forest, 2).lengths.tolist() == [1, 1, 2]
    with pytest.raises(InputError, match="has 0 edges"):
        tree_paths(forest, 0)
