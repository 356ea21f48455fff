"""The blocked loss beside the plain one, and the script for accelerators, at toy sizes."""

import importlib.util
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import blocked_loss, device, measure
from retrieval_jax.bert import Bert
from tests.bert_folders import tiny_config

OPTIONS = measure.Options(repeats=1, threads=len(os.sched_getaffinity(0)))


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_all_ways_to_the_loss_agree_and_tiles_take_less_memory():
    command = blocked_loss.Command(OPTIONS, pairs=96, large=2048, dim=8, block_size=32)
    record = measure.compare("blocked_loss", blocked_loss.prepare, command, OPTIONS)
    assert list(record["sides"]) == ["ours", "ours_rows", "plain", "torch"]
    large = record["temporaries_mib"]["2048"]
    assert large["ours"] < large["plain"] / 10
    wrong = {"ours": np.array([1.0]), "plain": np.array([1.1])}
    with pytest.raises(measure.DisagreementError, match="ours and plain differ"):
        blocked_loss.prepare(command).check(wrong)


@pytest.mark.long
def test_tiles_of_all_sizes_agree_and_the_fastest_is_named():
    command = blocked_loss.Command(OPTIONS, pairs=96, large=96, dim=8, tiles=(32, 48))
    record = measure.compare("blocked_loss", blocked_loss.prepare, command, OPTIONS)
    assert list(record["sides"]) == ["tile_32", "tile_48"]
    assert record["settings"]["tiles"] == [32, 48]
    rates = {"tile_32": {"items_per_second": 1.0}, "tile_48": {"items_per_second": 2.0}}
    assert blocked_loss.fastest_tile({"sides": rates}).endswith("--contrast.block-size 48")


@pytest.mark.long
def test_the_script_measures_everything_at_toy_sizes(tmp_path, monkeypatch, capsys):
    output = tmp_path / "results" / "device.json"
    arguments = ["--small", "--peak-tflops", "0.5", "--output", str(output)]
    monkeypatch.setattr("sys.argv", ["device", *arguments])
    device.main()
    record = json.loads(output.read_text())
    assert record == json.loads(capsys.readouterr().out)
    bert, graphs, loss = (record[part] for part in ("bert", "graphs", "loss"))
    assert bert["mfu"] == pytest.approx(bert["tflops"] / 0.5, abs=2e-3)
    assert bert["pieces_a_second"] == pytest.approx(64 / bert["ms_a_step"] * 1e3, rel=0.01)
    assert graphs["graphs_a_second"] == pytest.approx(16 / graphs["ms_a_step"] * 1e3, rel=0.01)
    assert list(loss) == ["64"]
    assert loss["64"]["ms"] > 0
    assert loss["64"]["temporaries_mib"] < 100
    assert record["settings"]["pairs"] == 256
    assert record["devices"]


def test_operations_are_those_of_the_matrix_products():
    config = tiny_config(hidden_dropout=0.0)
    rows, length, masked = 3, 24, 5
    pieces, at = jnp.ones((rows, length), jnp.int32), jnp.ones((rows, masked), jnp.int32)
    model = Bert(config, with_mlm_head=True)
    params = device.FullRowsTask(config).init(jax.random.key(0))

    def forward(params):
        hidden = model.apply({"params": params}, pieces, pieces)
        return model.apply({"params": params}, hidden, at, method=Bert.mlm_logits)

    counted = 0
    todo = [jax.make_jaxpr(forward)(params).jaxpr]
    while todo:
        for equation in todo.pop().eqns:
            todo += [p.jaxpr for p in equation.params.values() if hasattr(p, "jaxpr")]
            if equation.primitive.name == "dot_general":
                (contracted, _), _ = equation.params["dimension_numbers"]
                depth = np.prod([equation.invars[0].aval.shape[axis] for axis in contracted])
                counted += 2 * depth * equation.outvars[0].aval.size
    assert device.bert_flops(config, rows, length, masked) == 3 * counted


def test_trees_are_trees():
    table, _ = device.random_trees(5, 7)
    np.testing.assert_array_equal(table.sizes, [7] * 5)
    assert (table.parents < 7).all()
