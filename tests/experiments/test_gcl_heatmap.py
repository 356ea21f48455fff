"""The heat maps: cells of the sweep, means, tests over topics, the picture, and the whole."""

import dataclasses
import json
import os
import sys

import numpy as np
import pytest

from experiments.gcl import heatmap
from experiments.gcl.baselines import evaluate_all
from experiments.gcl.heatmap import Command, draw, grid, means, significance
from experiments.gcl.train import Command as Train
from gcl_jax.config import PRESETS
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.evaluation import rank
from retrieval_jax.config import parse_command_line
from retrieval_jax.rankings import write_ranking
from tests.gcl_jax.toy_graphs import random_formulas

COMMAND = Command(
    augmentations=("rename", "substitute_variables", "none"),
    batch_sizes=(256, 1024),
    layouts=("slt",),
    seeds=2,
)
TOPICS = 8
POOL = random_formulas(4, 1)
QRELS = {f"q-{i}": {"f0": 4, "f1": 0, "f2": 1, "f3": 0} for i in range(1, TOPICS + 1)}
JUDGED = JudgedFormulas(
    POOL,
    np.ones(4, bool),
    dataclasses.replace(POOL.subset([0] * TOPICS), ids=tuple(QRELS)),
    QRELS,
    {},
)
GOOD, BAD = [4.0, 2.0, 3.0, 1.0], [1.0, 3.0, 2.0, 4.0]


def ranking(good_topics):
    """All relevant formulas first in so many topics, last in the rest."""
    return rank(JUDGED, np.array([GOOD] * good_topics + [BAD] * (TOPICS - good_topics)))


def cells(good_topics):
    """A cell of two equal seeds for each augmentation and batch size -> topics that are right."""
    found = {}
    for (augmentation, size), good in good_topics.items():
        runs = [evaluate_all(JUDGED, ranking(good))] * 2
        found.setdefault(augmentation, {})[size] = runs
    return {"slt": found}


def config_of(cell, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train", *cell.words])
    commands = {name: Train(config) for name, config in PRESETS.items()}
    return parse_command_line(commands, "train", "").config


def test_batches_of_all_sizes_see_as_many_formulas(monkeypatch):
    sweep_cells = grid(COMMAND).cells()
    assert len(sweep_cells) == 2 * 2 * 3
    assert [cell.seed for cell in sweep_cells] == [0] * 6 + [1] * 6
    small, large = (config_of(sweep_cells[i], monkeypatch) for i in (6, 9))
    assert (small.training.batch_size, large.training.batch_size) == (256, 1024)
    seen = [of.training.steps * of.training.batch_size for of in (small, large)]
    assert seen[0] == pytest.approx(seen[1], rel=0.02)
    assert (small.model.layout, small.augmentation.methods) == ("slt", ("rename",))
    # One evaluation and one checkpoint, both at the end.
    ends = (small.training.evaluate_every, small.training.checkpoint_every, small.training.keep)
    assert ends == (small.training.steps, small.training.steps, 1)
    assert (small.training.seed, small.data.formulas) == (1, 20_000)


def test_means_over_seeds_and_their_picture(tmp_path):
    names, sizes = COMMAND.augmentations, ("256", "1024")
    of_cells = means(cells({(name, size): 4 for name in names for size in sizes}))
    found = of_cells["slt"]["rename"]["1024"]["all"]
    assert (found["full"]["mean"], found["full"]["sd"]) == (0.5, 0.0)
    low, high = found["full"]["interval_95"]
    assert 0 <= low < 0.5 < high <= 1
    draw(of_cells["slt"], COMMAND, "slt", tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_substitution_is_tested_against_all_others_at_each_size_and_at_the_best():
    good = {
        ("substitute_variables", "256"): 8,
        ("substitute_variables", "1024"): 4,
        ("substitute_typed", "256"): 0,  # neither tested nor tested against
        ("substitute_typed", "1024"): 0,
        ("none", "256"): 0,
        ("none", "1024"): 4,
    }
    rows = [row for row in significance(cells(good)) if row["measure"] == "full"]
    topics = {row["at"]: (row["layout"], row["topics"], row["queries"]) for row in rows}
    assert topics.pop("best") == ("slt", "even", TOPICS // 2)
    assert set(topics.values()) == {("slt", "all", TOPICS)}
    ours = [row for row in rows if row["at"] != "batch sizes"]
    assert [(row["at"], row["second"], row["difference"]) for row in ours] == [
        ("256", "none, batch 256", 1.0),
        ("1024", "none, batch 1024", 0.0),
        ("best", "none, batch 1024", 0.5),
    ]
    assert {row["first"].split(",")[0] for row in ours} == {"substitute_variables"}
    assert ours[0]["p_holm"] == pytest.approx(2 / 2**TOPICS)
    ends = {row["first"]: row for row in rows if row["at"] == "batch sizes"}
    row = ends["none, batch 1024"]
    assert (row["second"], row["difference"]) == ("none, batch 256", 0.5)
    assert ends["substitute_variables, batch 1024"]["difference"] == -0.5
    # Of three tests the smallest p-value counts three times.
    assert row["p_holm"] == pytest.approx(3 * row["p"])


def test_the_best_size_is_chosen_on_odd_topics_and_tested_on_even_ones():
    # Of the first three topics two are odd: better than one odd and one even topic of two.
    good = {
        ("substitute_variables", "256"): 8,
        ("substitute_variables", "1024"): 0,
        ("none", "256"): 3,
        ("none", "1024"): 2,
    }
    rows = significance(cells(good))
    best = next(row for row in rows if (row["at"], row["measure"]) == ("best", "full"))
    assert (best["first"], best["second"]) == (
        "substitute_variables, batch 256",
        "none, batch 256",
    )
    assert best["difference"] == 0.75


TRAIN = """
import json, pathlib, shutil, sys
words = sys.argv[1:]
run = pathlib.Path(words[words.index("--run") + 1])
run.mkdir()
kind = words[words.index("--augmentation.methods") + 1]
shutil.copy(pathlib.Path(__file__).with_name(f"{kind}.trec"), run / "ranking.trec")
(run / "results.json").write_text(json.dumps({"bpref": {"all": {"all": {"full": 0.5}}}}))
(run / "provenance.json").write_text(json.dumps({"data_fingerprint": "abc"}))
"""


def test_the_command_sweeps_and_writes_a_record(tmp_path, monkeypatch, capsys):
    (tmp_path / "toy_training.py").write_text(TRAIN)
    write_ranking(tmp_path / "none.trec", ranking(2), "x")
    write_ranking(tmp_path / "substitute_variables.trec", ranking(6), "x")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(heatmap, "TRAINING", "toy_training")
    monkeypatch.setattr(heatmap.Sources, "judged", lambda self: JUDGED)
    monkeypatch.setattr(heatmap.Sources, "chosen_formulas", lambda self, data: None)
    output = tmp_path / "out"
    words = ["--output", output, "--results", tmp_path / "kept.json", "--seeds", 1, "--workers", 2]
    words += ["--batch-sizes", 256, "--layouts", "opt", "--augmentations"]
    words += ["none", "substitute_variables"]
    monkeypatch.setattr(sys, "argv", ["heatmap", *map(str, words)])
    heatmap.main()
    heatmap.main()  # reads what is there
    record = json.loads((tmp_path / "kept.json").read_text())
    assert record["means"]["opt"]["substitute_variables"]["256"]["all"]["full"]["mean"] == 0.75
    assert record["configs"]["grid"]["batch_sizes"] == [256]
    assert record["configs"]["preset"]["model"]["encoder"] == "gin"
    assert (record["seeds"], record["budget"]["timed"]) == ([0], 2)
    assert record["provenance"]["data_fingerprint"] == "abc"
    assert {row["at"] for row in record["significance"]} == {"256", "best"}
    assert (output / "heatmap_opt.png").is_file()
    assert "Variable Substitution" in capsys.readouterr().out
