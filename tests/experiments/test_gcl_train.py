"""What experiments of formula retrieval train on: chosen once, then read."""

import types

import numpy as np

from experiments.gcl import train
from experiments.gcl.train import Sources
from gcl_jax.config import Config, DataConfig
from gcl_jax.pretraining import choose_formulas
from tests.gcl_jax.toy_graphs import random_formulas


def test_a_sample_is_chosen_once_for_its_configuration(tmp_path, monkeypatch):
    formulas, reads = random_formulas(40, 1), []
    builder = types.SimpleNamespace(data_dir=str(tmp_path))

    def read(builder):
        reads.append(builder)
        return formulas

    monkeypatch.setattr(train.wikipedia_formulas, "prepare", lambda path, data_dir: builder)
    monkeypatch.setattr(train, "read_formulas", read)
    sources = Sources(formulas=tmp_path / "x.tsv", folder=tmp_path)
    data = DataConfig(formulas=10)
    first, second = sources.chosen_formulas(data), sources.chosen_formulas(data)
    expected = choose_formulas(formulas, Config(data))
    assert tuple(first.ids) == tuple(second.ids) == tuple(expected.ids)
    np.testing.assert_array_equal(first.slt.sizes, expected.slt.sizes)
    assert len(reads) == 1
    assert len(sources.chosen_formulas(DataConfig(formulas=11)).ids) == 11
    assert len(sources.chosen_formulas(DataConfig()).ids) == 40  # all: nothing to keep
    assert len(reads) == 3
