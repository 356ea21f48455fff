"""Sweeps: cells, claims, workers, launchers, on an experiment that takes no time."""

import dataclasses
import importlib
import json
import os
import sys
import threading

import jax
import pytest

from docent_jax.config import ModelConfig
from docent_jax.model import init_params, make_model
from experiments.sweep import __main__ as command_line
from experiments.sweep import claims, status
from experiments.sweep.ablations import ABLATIONS
from experiments.sweep.cells import (
    CELL,
    DONE,
    FAILED,
    LOG,
    SPENT,
    Sweep,
    chosen,
    flatten,
    numbers_of_run,
    state,
)
from experiments.sweep.launchers import CommandFile, LocalProcesses
from experiments.sweep.running import run_sweep
from experiments.sweep.worker import BUSY, run_cell
from retrieval_jax.bert import BertConfig
from retrieval_jax.errors import InputError
from retrieval_jax.optimizers import OptimizerConfig, check_patterns

TOY = """
import json, os, pathlib, signal, sys
words = sys.argv[1:]
run = pathlib.Path(words[words.index("--run") + 1])
size, seed = (int(words[words.index(name) + 1]) for name in ("--size", "--training.seed"))
run.mkdir(exist_ok=True)
with (run / "calls").open("a") as file:
    file.write("x")
print("size", size)
if size == 13 and len((run / "calls").read_text()) == 1:
    raise ValueError("unlucky")
if size == 9 and len((run / "calls").read_text()) == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if size == 15 and len((run / "calls").read_text()) == 1:
    raise SystemExit(143)
results = {"test": {"RR": size + seed / 10, "name": "x"}, "loss": 0.5}
(run / "results.json").write_text(json.dumps(results))
(run / "provenance.json").write_text(json.dumps({"data_fingerprint": "abc"}))
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Makes `toy_experiment` importable, here and in children; gives a sweep of it and a folder."""
    (tmp_path / "toy_experiment.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def sweep(*sizes, seeds=(0,)):
        axis = {str(size): ("--size", str(size)) for size in sizes}
        return Sweep("toy_experiment", {"size": axis}, seeds, measures=("test.*",))

    return sweep, tmp_path / "out"


def prepared(sweep, output):
    cells = sweep.cells()
    for cell in cells:
        cell.prepare(output)
    return cells


def test_cells_are_all_combinations_and_their_names_differ_with_the_command():
    axes = {"a": {"x y": ("--a", "x", "y"), "z": ("--a", "z")}, "b": {"1": ("--b", "1")}}
    cells = Sweep("m", axes, (0, 1), ("--preset", "smoke")).cells()
    assert [(c.choices["a"], c.seed) for c in cells] == [("x y", 0), ("z", 0), ("x y", 1), ("z", 1)]
    words = ("--preset", "smoke", "--a", "x", "y", "--b", "1", "--training.seed", "0")
    assert cells[0].words == words
    assert cells[0].name.startswith("x_y-1-0-")
    others = Sweep("m", axes, (0, 1), ("--preset", "paper")).cells()
    assert not {c.name for c in cells} & {c.name for c in others}
    with pytest.raises(InputError, match="nothing to vary in \\['a'\\]"):
        Sweep("m", {"a": {}}).cells()
    with pytest.raises(InputError, match="occur twice"):
        Sweep("m", {}, (1, 1)).cells()


def test_time_of_stopped_attempts_is_counted(toy):
    sweep, output = toy
    (cell,) = prepared(sweep(15), output)
    before = {"seconds": 100.0, "cpu_seconds": 50.0}
    (cell.folder(output) / SPENT).write_text(json.dumps(before))
    assert run_cell(cell, output) == 143
    assert run_cell(cell, output) == 0
    done = json.loads((cell.folder(output) / DONE).read_text())
    assert 100 <= done["seconds"] < 110 and 50 <= done["cpu_seconds"] < 60
    spent = status.budget([cell], output)
    assert spent["timed"] == 1
    assert spent["wall_hours"] == pytest.approx(done["seconds"] / 3600, abs=1e-3)


def test_other_measures_are_those_of_cells_that_are_done(toy):
    sweep, output = toy
    grid = sweep(3, seeds=(0, 1))
    assert run_sweep("toy", grid, output, LocalProcesses(2)) == []
    (row,) = status.rows_of(grid, output)
    assert row.measures == {"test.RR": [3.0, 3.1]}
    (row,) = status.rows_of(dataclasses.replace(grid, measures=("loss",)), output)
    assert row.measures == {"loss": [0.5, 0.5]}


def test_a_worker_runs_a_cell_once(toy):
    sweep, output = toy
    (cell,) = prepared(sweep(3), output)
    folder = cell.folder(output)
    assert state(folder) == "waiting"
    with claims.take(folder):
        assert run_cell(cell, output) == BUSY
    assert run_cell(cell, output) == run_cell(cell, output) == 0
    done = json.loads((folder / DONE).read_text())
    assert done["numbers"] == {"test.RR": 3.0, "loss": 0.5}
    assert done["seconds"] >= 0 and done["cpu_seconds"] >= 0 and done["peak_mib"] > 10
    assert done["attempts"] == 1
    assert (folder / "run" / "calls").read_text() == "x"
    assert (folder / LOG).read_text() == f"$ {cell.command(output)}\nsize 3\n"
    assert json.loads((folder / CELL).read_text())["choices"] == {"size": "3"}


def test_a_failed_cell_is_noted_and_run_again(toy):
    sweep, output = toy
    (cell,) = prepared(sweep(13), output)
    folder = cell.folder(output)
    assert run_cell(cell, output) == 1
    assert state(folder) == "failed"
    assert "ValueError: unlucky" in (folder / LOG).read_text()
    (line,) = status.failures([cell], output)
    assert line.startswith(f"failed: {cell.name} (status 1, 1 attempts)") and line.endswith(LOG)
    assert run_cell(cell, output) == 0
    done = json.loads((folder / DONE).read_text())
    assert done["attempts"] == 2
    assert not list(folder.glob("failed*"))
    spent = json.loads((folder / SPENT).read_text())
    assert spent == {name: done[name] for name in ("seconds", "cpu_seconds")}


def test_a_failed_cell_that_is_run_again_and_stopped_is_interrupted(toy):
    sweep, output = toy
    (cell,) = prepared(sweep(15), output)
    folder = cell.folder(output)
    (folder / FAILED).write_text('{"attempts": 2}')
    assert run_cell(cell, output) == 143
    assert state(folder) == "interrupted"
    assert run_cell(cell, output) == 0
    assert json.loads((folder / DONE).read_text())["attempts"] == 3


def test_a_cell_that_was_told_to_stop_is_interrupted_not_failed(toy):
    sweep, output = toy
    (cell,) = prepared(sweep(15), output)
    assert run_cell(cell, output) == 143
    assert state(cell.folder(output)) == "interrupted"
    assert run_cell(cell, output) == 0


def test_two_launchers_share_a_folder_and_lose_nothing(toy):
    sweep, output = toy
    grid = sweep(1, 2, 9, seeds=(0, 1))
    codes = []

    def launch():
        codes.append(run_sweep("toy", grid, output, LocalProcesses(2)))

    threads = [threading.Thread(target=launch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The killed ones have failed, unless the other launcher has run them again by now.
    left = run_sweep("toy", grid, output, LocalProcesses(2))
    assert left == []
    for cell in grid.cells():
        calls = (cell.folder(output) / "run" / "calls").read_text()
        assert len(calls) == (2 if cell.choices["size"] == "9" else 1)
    record = status.sweep_record("toy", grid, output)
    assert [row["measures"]["test.RR"]["mean"] for row in record["rows"]] == [1.05, 2.05, 9.05]
    assert record["rows"][0]["measures"]["test.RR"]["seeds"] == 2
    assert record["provenance"]["data_fingerprint"] == "abc"
    spent = record["budget"]
    assert (spent["cells"], spent["timed"]) == (6, 6) and spent["peak_mib"] > 10
    assert status.progress_table("toy", status.rows_of(grid, output)).row_count == 3


def test_a_killed_worker_is_listed(toy):
    sweep, output = toy
    (cell,) = left = run_sweep("toy", sweep(9), output, LocalProcesses())
    assert state(cell.folder(output)) == "failed" and len(left) == 1
    assert "status -9" in status.failures(left, output)[0]


def test_the_command_line_lists_runs_and_reports(toy, monkeypatch, capsys):
    _, output = toy

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["sweep", "--output", str(output), *words])
        command_line.main()
        return capsys.readouterr().out

    grid = ("--module", "toy_experiment", "--fields", "size=4,5", "--measures", "test.RR")
    listed = call(*grid, "--dry-run", "--", "--extra", "1").splitlines()
    assert listed[0].startswith(
        "waiting     python -m toy_experiment --extra 1 --size 4 --training"
    )
    assert listed[-1] == "2 cells"
    assert not output.exists()
    results = ("--results", str(output / "copy.json"))
    written = call(*grid, "--launcher", "commands", *results)
    assert "2 commands" in written and "is not written: 2 cells are not done" in written
    assert not (output / "copy.json").exists()
    lines = (output / "commands.txt").read_text().splitlines()
    assert len(lines) == 2 and "experiments.sweep.worker --output" in lines[0]
    assert "2 done" in call(*grid, *results)
    assert (output / "copy.json").read_text() == (output / "results.json").read_text()
    rows = json.loads((output / "results.json").read_text())["rows"]
    assert [row["choices"] for row in rows] == [{"size": "4"}, {"size": "5"}]


def test_wrong_sweeps_are_refused(tmp_path):
    command = command_line.Command(tmp_path)
    with pytest.raises(InputError, match="no experiment"):
        command_line.sweep_of(command, ())
    with pytest.raises(InputError, match="no ablation 'x'"):
        command_line.sweep_of(dataclasses.replace(command, ablation="x"), ())
    with pytest.raises(InputError, match="no field with values"):
        command_line.sweep_of(dataclasses.replace(command, module="m", fields=("a=1,",)), ())
    for fields in (("a=1", "a=2"), ("a=1,1",)):
        with pytest.raises(InputError, match="is given twice"):
            command_line.sweep_of(dataclasses.replace(command, module="m", fields=fields), ())
    with pytest.raises(InputError, match="No closing quotation"):
        command_line.sweep_of(dataclasses.replace(command, module="m", fields=("a=1 '",)), ())
    for given in ({"module": "m"}, {"ablation": "gcl_rate"}):
        with pytest.raises(InputError, match="--seeds: 3 is given twice"):
            command_line.sweep_of(dataclasses.replace(command, seeds=(3, 3), **given), ())
        nothing = command_line.sweep_of(dataclasses.replace(command, seeds=(), **given), ())
        with pytest.raises(InputError, match="nothing to vary in seeds"):
            nothing.cells()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--module", "experiments.no_such_thing"), "there is no module experiments.no_such_thing"),
        (("--module", "nowhere.train"), "there is no module nowhere.train"),
        (("--ablation", "gcl_rate", "--slurm.nodes", "2"), "options --slurm were given"),
        (("--ablation", "gcl_rate", "--launcher", "commands", "--workers", "2"), "--workers was"),
        (("--ablation", "gcl_rate", "--workers", "0"), "workers is 0"),
    ],
)
def test_what_would_do_nothing_or_fail_in_every_cell_is_refused_first(
    tmp_path, monkeypatch, capsys, words, problem
):
    output = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["sweep", "--output", str(output), *words])
    with pytest.raises(SystemExit, match="2"):
        command_line.main()
    assert f"error: {problem}" in capsys.readouterr().err
    assert not output.exists()


def test_an_ablation_takes_no_experiment_fields_or_seed_option(tmp_path):
    ablation = command_line.Command(tmp_path, ablation="gcl_augmentation", seeds=(7,))
    assert command_line.sweep_of(ablation, ()).seeds == (7,)
    own = {"module": "m", "fields": ("a=1",), "seed_option": "--training.seed"}
    for name, value in own.items():
        option = "--" + name.replace("_", "-")
        with pytest.raises(InputError, match=f"ablation gcl_augmentation has its own {option}\n"):
            command_line.sweep_of(dataclasses.replace(ablation, **{name: value}), ())
    with pytest.raises(InputError, match="--module, --fields, --seed-option"):
        command_line.sweep_of(dataclasses.replace(ablation, **own), ())


@pytest.mark.parametrize(
    ("ablation", "words", "problem"),
    [
        ("ltr_features", "--training.steps 50", "--training.steps after `--` .* --epochs decides"),
        ("ltr_objective", "--training.evaluate_every=50", "--training.evaluate-every after"),
        ("gcl_batch_size", "--training.steps 50", r"--training.steps .* varies it \(batch\)"),
        ("docent_names", "--data.no-keep-names", r"--data.keep-names .* varies it \(names kept\)"),
        ("gcl_rate", "--training.seed 1", "--training.seed .* each cell has its own\nGive --seeds"),
        ("gcl_rate", "--run here", "--run stands after"),
    ],
)
def test_words_that_would_change_nothing_are_refused(tmp_path, ablation, words, problem):
    command = command_line.Command(tmp_path, ablation=ablation)
    with pytest.raises(InputError, match=problem):
        command_line.sweep_of(command, words.split())


def test_words_after_the_dashes_come_after_those_of_the_ablation(tmp_path):
    command = command_line.Command(tmp_path, ablation="ltr_features", seeds=(4,))
    for more in (("--epochs", "2"), ("--epochs", "None", "--training.steps", "50")):
        cell = command_line.sweep_of(command, more).cells()[0]
        own = ("--preset", "small", "--data.pair", "en-de")
        assert cell.words == (*own, *more, "--model.features", "text", "--training.seed", "4")
    command = command_line.Command(
        tmp_path, module="m", fields=("a.b-c=1,2",), seed_option="--seed"
    )
    with pytest.raises(InputError, match=r"--a\.b-c .* varies it \(a\.b-c\)"):
        command_line.sweep_of(command, ("--a.b_c", "3"))
    with pytest.raises(InputError, match="--seed stands after"):
        command_line.sweep_of(command, ("--seed", "3"))
    assert command_line.sweep_of(command, ("--training.seed", "3")).options[1] == "3"


def test_the_seed_is_given_by_the_option_that_the_experiment_has(tmp_path):
    command = command_line.Command(tmp_path, module="m", seeds=(3,))
    for given, option in ((None, "--training.seed"), ("--seed", "--seed")):
        sweep = command_line.sweep_of(dataclasses.replace(command, seed_option=given), ())
        assert sweep.cells()[0].words == (option, "3")


def test_commands_of_any_launcher_are_quoted(tmp_path):
    CommandFile(tmp_path / "c.txt")([["python", "-m", "x", "a b"]], lambda: None)
    assert (tmp_path / "c.txt").read_text() == "python -m x 'a b'\n"


def test_measures_of_a_run(tmp_path):
    assert flatten({"a": {"b": 1, "c": [0.5, {"d": 2}]}, "e": True, "f": "x"}) == {
        "a.b": 1,
        "a.c.0": 0.5,
        "a.c.1.d": 2,
    }
    config = {"config": {"training": {"best_measure": "RR"}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    lines = [{"step": s, "kind": "dev", "RR": v} for s, v in ((1, 0.25), (2, 0.75), (3, 0.5))]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "results.json").write_text(json.dumps({"AP": {"all": 0.5, "odd": 0.25}}))
    numbers = numbers_of_run(tmp_path)
    assert numbers == {"dev RR": 0.75, "AP.all": 0.5, "AP.odd": 0.25}
    assert chosen(numbers, ()) == {"dev RR": 0.75}
    assert chosen(numbers, ("AP.o*", "*")) == {"dev RR": 0.75, "AP.odd": 0.25, "AP.all": 0.5}


class ParsedError(Exception):
    pass


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_cell_of_an_ablation_parses(name, tmp_path, monkeypatch):
    sweep = ABLATIONS[name]
    module = importlib.import_module(sweep.module)

    def parsed():  # what every experiment calls after its command line
        raise ParsedError

    monkeypatch.setattr(module, "quiet_libraries", parsed)
    cells = [cell for cell in sweep.cells() if cell.seed == sweep.seeds[0]]
    assert len(cells) >= 2 and sweep.about.endswith(".")
    for cell in cells:
        monkeypatch.setattr(sys, "argv", [sweep.module, *cell.arguments(tmp_path)])
        with pytest.raises(ParsedError):
            module.main()


def test_what_the_ablations_freeze_is_there():
    bert = BertConfig(8, 8, num_layers=6, num_heads=2, intermediate_size=8)
    params = jax.eval_shape(
        lambda: init_params(make_model(ModelConfig(), bert, 2), jax.random.key(0))
    )
    axis = ABLATIONS["docent_frozen"].axes["trained"]
    for words in filter(None, axis.values()):
        check_patterns(OptimizerConfig(frozen=words[1:]), params)
