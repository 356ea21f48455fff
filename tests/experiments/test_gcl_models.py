"""The comparison of encoders: what starts them, fusion, and what is tested against what."""

import dataclasses
import sys

import numpy as np
import pytest

from experiments.gcl import baselines, models
from experiments.gcl.models import (
    MODELS,
    WIDE,
    fuse_on_odd,
    fused_name,
    model_changes,
    pairs,
    preset_of_paths,
    untrained_ranking,
)
from experiments.gcl.train import on_odd
from gcl_jax.config import PRESETS, Config, DataConfig, ModelConfig
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.evaluation import rank
from tests.gcl_jax.toy_graphs import random_formulas

POOL = random_formulas(6, 1)
QRELS = {f"q-{i}": {"f0": 4 * (i % 2), "f1": 0, "f2": 1, "f3": 0} for i in range(1, 5)}
JUDGED = JudgedFormulas(
    POOL,
    np.ones(6, bool),
    dataclasses.replace(POOL.subset([0] * 4), ids=tuple(QRELS)),
    QRELS,
    {},
)


def test_the_untrained_encoder_finds_the_formula_itself() -> None:
    config = Config(data=DataConfig(min_count=1), model=ModelConfig(dim=512, depth=1))
    ranking, weight = untrained_ranking(config, POOL, JUDGED)
    assert 0 <= weight <= 1
    for of_topic in ranking.values():
        assert of_topic["f0"] == max(of_topic.values()) == pytest.approx(1, abs=1e-5)


def test_the_fusion_is_chosen_on_odd_topics() -> None:
    good, bad = np.zeros((4, 6)), np.zeros((4, 6))
    good[:, [0, 2]] = 1.0, 0.8
    bad[:, [1, 3]] = 0.6
    bad[:, 4] = 1.0
    ours, lexical = rank(JUDGED, good), rank(JUDGED, bad)
    for first, second, is_best in ((ours, lexical, True), (lexical, ours, False)):
        ranking, weight = fuse_on_odd(JUDGED, first, second)
        assert (weight > 0.43) == is_best
        assert on_odd(JUDGED, ranking) == 1.0


def test_a_system_of_two_runs_has_a_deviation_and_one_value_a_topic() -> None:
    scores = np.zeros((2, 4, 6))
    scores[0, :, 0], scores[0, :, 2] = 2.0, 1.0
    scores[1, :, [1, 3]] = 1.0
    runs = [baselines.evaluate_all(JUDGED, rank(JUDGED, of)) for of in scores]
    cell = baselines.summary(runs)["all"]["odd"]["partial"]
    assert cell["mean"] == 0.5
    assert cell["sd"] == pytest.approx(0.5**0.5)
    assert cell["interval_95"] == [0.5, 0.5]
    rows = baselines.significance({"a": runs, "b": runs[:1]}, [("a", "b")], "odd")
    assert {row["measure"]: row["difference"] for row in rows} == {"partial": -0.5, "full": -0.5}


def test_layouts_are_tested_against_path_dice_of_their_own() -> None:
    found = pairs([baselines.EDGE_DICE, baselines.PATH_DICE_SLT, baselines.PATH_DICE_OPT])
    assert ("ours, SLT", baselines.PATH_DICE_SLT) in found
    assert ("ours, SLT + OPT", baselines.PATH_DICE_SLT) not in found
    assert (fused_name("ours, SLT + OPT"), baselines.EDGE_DICE) in found
    assert all((name, f"{name}, untrained") in found for name in MODELS)


@pytest.mark.parametrize("name", ["small", "smoke"])
def test_the_wide_model_is_four_times_as_wide_as_the_preset(name: str) -> None:
    config = preset_of_paths(name)
    changes = model_changes(config)
    assert tuple(changes) == MODELS
    wide = dataclasses.replace(config.model, **changes[WIDE])
    assert wide == dataclasses.replace(config.model, dim=4 * PRESETS[name].model.dim)


@pytest.mark.parametrize("name", ["paper", "ablation"])
def test_a_preset_of_another_encoder_is_refused_before_anything_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["models", "--preset", name, "--folder", "nowhere"])
    with pytest.raises(SystemExit):
        models.main()
    printed = " ".join(capsys.readouterr().err.split())
    assert f"preset {name} has the encoder gin" in printed
    assert "--preset small or smoke" in printed
