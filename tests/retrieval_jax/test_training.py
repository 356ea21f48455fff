"""The training loop: exact resume, shardings, freezing, early stop, divergence."""

import dataclasses
import itertools
import json
import os
import signal

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from retrieval_jax import training
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.errors import InputError
from retrieval_jax.interruption import InterruptedRunError
from retrieval_jax.logs import read_metrics
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.pipeline import iterate
from retrieval_jax.runs import create_run
from retrieval_jax.sharding import MeshConfig, make_mesh
from retrieval_jax.train_step import check_memory
from retrieval_jax.training import TrainingConfig, TrainingDivergedError, train
from tests.retrieval_jax.toy import INPUTS, ToyTask

CONFIG = TrainingConfig(
    steps=20,
    batch_size=16,
    log_every=4,
    evaluate_every=8,
    checkpoint_every=6,
    mesh=MeshConfig(data=1, model=8),
    optimizer=OptimizerConfig(learning_rate=1e-2),
)


def run_folder(path, config=CONFIG):
    return create_run(path, "toy", config, "fingerprint")


def same(a, b):
    return jax.tree.all(jax.tree.map(np.array_equal, jax.device_get(a), jax.device_get(b)))


def logged(path):
    """The log without times."""
    return [
        {k: v for k, v in entry.items() if k not in ("time", "examples_per_second")}
        for entry in read_metrics(path)
    ]


class Interrupted(Exception):
    """Stands for a process that is killed."""


def interrupt_after(monkeypatch, batches):
    """Makes this process stop when it has taken some batches."""
    shard_batch = training.shard_batch
    taken = []

    def interrupting(batch, *args):
        if len(taken) == batches:
            raise Interrupted
        taken.append(batch)
        return shard_batch(batch, *args)

    monkeypatch.setattr(training, "shard_batch", interrupting)


def test_training_lowers_the_loss_and_fills_the_run_folder(tmp_path):
    config = dataclasses.replace(
        CONFIG, steps=200, optimizer=OptimizerConfig(learning_rate=3e-2), tensorboard=True
    )
    result = train(ToyTask(), config, run_folder(tmp_path), show_progress=False)
    entries = read_metrics(tmp_path)
    losses = [entry["loss"] for entry in entries if entry["kind"] == "train"]
    assert losses[-1] < 0.5 * losses[0]
    assert result.step == 200
    assert {entry["step"] for entry in entries if entry["kind"] == "dev"} == {*range(8, 201, 8)}
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["198", "200"]
    assert list((tmp_path / "tensorboard").iterdir())
    best = restore_params(tmp_path)
    measured = ToyTask().evaluate(best)["RR"]
    assert measured == pytest.approx(result.best["RR"])
    assert result.best["RR"] == max(entry["RR"] for entry in entries if entry["kind"] == "dev")


@pytest.mark.parametrize(
    "batches", [6, 13, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 7, 19))]
)
def test_an_interrupted_run_resumes_bit_identically(tmp_path, monkeypatch, batches):
    whole = train(ToyTask(), CONFIG, run_folder(tmp_path / "whole"), show_progress=False)
    run = run_folder(tmp_path / "parts")
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, batches)
        train(ToyTask(), CONFIG, run, show_progress=False)
    resumed = train(ToyTask(), CONFIG, run_folder(tmp_path / "parts"), show_progress=False)
    assert same(whole.params, resumed.params)
    assert (whole.best, whole.best_step) == (resumed.best, resumed.best_step)
    assert logged(tmp_path / "whole") == logged(tmp_path / "parts")
    assert same(restore_params(tmp_path / "whole"), restore_params(tmp_path / "parts"))


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = train(ToyTask(), CONFIG, run_folder(tmp_path), show_progress=False)
    task = ToyTask()
    again = train(task, CONFIG, run_folder(tmp_path), show_progress=False)
    assert task.evaluations == 0
    assert same(first.params, again.params)
    assert (again.step, again.best_step, again.examples_per_second) == (20, first.best_step, None)


def test_another_seed_gives_other_parameters():
    first = train(ToyTask(), CONFIG, show_progress=False)
    second = train(ToyTask(), dataclasses.replace(CONFIG, seed=1), show_progress=False)
    assert not same(first.params, second.params)


@pytest.mark.parametrize(
    ("mesh", "rules"),
    [
        (MeshConfig(data=8), ()),
        *(
            pytest.param(*variant, marks=pytest.mark.long)
            for variant in (
                (MeshConfig(data=4, model=2), (("kernel", PartitionSpec(None, "model")),)),
                (MeshConfig(data=2, model=4), (("table", PartitionSpec(None, "model")),)),
                (MeshConfig(data=8, fsdp_mib=0.0), ()),
            )
        ),
        (MeshConfig(data=4, model=2, fsdp_mib=0.0), (("kernel", PartitionSpec(None, "model")),)),
    ],
)
def test_eight_devices_train_like_one(mesh, rules):
    def run(mesh, rules, devices):
        task = ToyTask()
        task.rules = rules
        config = dataclasses.replace(CONFIG, mesh=mesh)
        return train(task, config, mesh=make_mesh(mesh, devices), show_progress=False)

    one = run(MeshConfig(), (), jax.devices()[:1])
    eight = run(mesh, rules, jax.devices())
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        eight.params,
        one.params,
    )
    kernel = eight.params["dense"]["kernel"]
    assert len(kernel.sharding.device_set) == 8


def test_warm_start_of_another_shape_is_refused():
    task = ToyTask(warm_start={"dense": {"kernel": np.eye(4)}})
    with pytest.raises(InputError, match="dense/kernel"):
        train(task, CONFIG, show_progress=False)


def test_frozen_parameters_stay_and_scaled_ones_learn_at_their_own_rate():
    config = OptimizerConfig(learning_rate=1e-3, frozen=("^table/",), weight_decay=0.0)
    frozen = train(ToyTask(), dataclasses.replace(CONFIG, optimizer=config), show_progress=False)
    start = ToyTask().init(jax.random.key(0))
    assert same(frozen.params["table"], start["table"])
    assert not same(frozen.params["dense"], start["dense"])

    def moved(optimizer):
        one_step = dataclasses.replace(CONFIG, steps=1, optimizer=optimizer)
        params = train(ToyTask(), one_step, show_progress=False).params
        return np.abs(params["table"]["embedding"] - start["table"]["embedding"]).max()

    base = OptimizerConfig(learning_rate=1e-4, weight_decay=0.0, warmup=0.0)
    scaled = dataclasses.replace(base, scaled=(("^table/", 10.0),))
    assert moved(scaled) == pytest.approx(10 * moved(base), rel=1e-3)


def test_early_stop_after_patience_and_its_resume(tmp_path):
    measures = [0.1, 0.5, 0.4, 0.3, 0.9]
    config = dataclasses.replace(CONFIG, steps=100, evaluate_every=4, patience=2)
    run = run_folder(tmp_path, config)
    result = train(ToyTask(measures=measures), config, run, show_progress=False)
    assert (result.step, result.best_step, result.best) == (16, 8, {"RR": 0.5})
    task = ToyTask(measures=measures)
    again = train(task, config, run_folder(tmp_path, config), show_progress=False)
    assert (task.evaluations, again.step) == (0, 16)


def test_last_step_is_evaluated_and_saved_whatever_the_intervals(tmp_path):
    config = dataclasses.replace(CONFIG, steps=7, evaluate_every=5, checkpoint_every=100)
    train(ToyTask(), config, run_folder(tmp_path, config), show_progress=False)
    assert [e["step"] for e in read_metrics(tmp_path) if e["kind"] == "dev"] == [5, 7]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["7"]


def test_not_a_number_stops_with_the_steps_and_saves_nothing_after(tmp_path):
    tenth = next(itertools.islice(ToyTask().batches(16, 0), 9, None))
    task = ToyTask(explode_at=int(tenth["id"].sum()))
    with pytest.raises(TrainingDivergedError, match="loss is no longer finite at step 10"):
        train(task, CONFIG, run_folder(tmp_path), show_progress=False)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["6"]
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        assert None not in json.loads(line).values()


def test_a_measure_that_is_no_number_stops_the_run():
    with pytest.raises(TrainingDivergedError, match="RR on dev is nan at step 8"):
        train(ToyTask(measures=[float("nan")]), CONFIG, show_progress=False)


def test_an_early_stop_logs_its_last_interval(tmp_path):
    config = dataclasses.replace(CONFIG, evaluate_every=3, log_every=100, patience=1)
    task = ToyTask(measures=[0.5, 0.4])
    train(task, config, run_folder(tmp_path, config), show_progress=False)
    assert [(e["step"], e["kind"]) for e in read_metrics(tmp_path)] == [
        (3, "dev"),
        (6, "dev"),
        (6, "train"),
    ]


@pytest.mark.parametrize(
    "name", ["steps", "batch_size", "log_every", "evaluate_every", "keep", "patience"]
)
def test_counts_below_one_are_refused(name):
    with pytest.raises(InputError, match=f"training.{name} is 0"):
        TrainingConfig(**{name: 0})
    with pytest.raises(InputError, match=r"training\.prefetch is -1"):
        TrainingConfig(prefetch=-1)
    with pytest.raises(InputError, match=r"training\.seed is -1"):
        TrainingConfig(seed=-1)


def test_a_run_of_eight_devices_goes_on_with_two(tmp_path, monkeypatch):
    eight = dataclasses.replace(CONFIG, mesh=MeshConfig(data=8))
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 13)
        train(ToyTask(), eight, run_folder(tmp_path / "a", eight), show_progress=False)
    two = make_mesh(MeshConfig(data=2), jax.devices()[:2])
    config = dataclasses.replace(CONFIG, mesh=MeshConfig(data=2))
    run = run_folder(tmp_path / "a", config)
    resumed = train(ToyTask(), config, run, mesh=two, show_progress=False)
    whole = train(ToyTask(), eight, show_progress=False)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        jax.device_get(resumed.params),
        jax.device_get(whole.params),
    )


def test_batch_that_the_mesh_cannot_split_is_refused():
    config = dataclasses.replace(CONFIG, batch_size=12, mesh=MeshConfig(data=8))
    with pytest.raises(InputError, match="batch of 12 cannot be split over 8"):
        train(ToyTask(), config, show_progress=False)


def test_more_batch_than_examples_is_refused():
    config = dataclasses.replace(CONFIG, batch_size=64)
    with pytest.raises(InputError, match="50 examples do not fill one batch of 64"):
        train(ToyTask(), config, show_progress=False)


def test_unknown_best_measure_is_refused():
    config = dataclasses.replace(CONFIG, best_measure="MRR")
    with pytest.raises(InputError, match="'MRR'"):
        train(ToyTask(), config, show_progress=False)


def test_no_wait_for_the_device_between_logs(monkeypatch):
    fetched = []
    device_get = jax.device_get

    def counting(tree):
        fetched.append(tree)
        return device_get(tree)

    monkeypatch.setattr(jax, "device_get", counting)
    config = dataclasses.replace(CONFIG, log_every=10, evaluate_every=20, checkpoint_every=20)
    train(ToyTask(), config, show_progress=False)
    assert len(fetched) == 2


def test_every_input_is_seen_once_an_epoch():
    batches = itertools.islice(ToyTask().batches(10, 0), 5)
    ids = np.concatenate([batch["id"] for batch in batches])
    np.testing.assert_array_equal(np.sort(ids), np.arange(len(INPUTS)))


def test_accumulation_resumes_bit_identically(tmp_path, monkeypatch):
    config = dataclasses.replace(CONFIG, accumulate=4)
    whole = train(ToyTask(), config, run_folder(tmp_path / "a", config), show_progress=False)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 4 * 9)
        train(ToyTask(), config, run_folder(tmp_path / "b", config), show_progress=False)
    resumed = train(ToyTask(), config, run_folder(tmp_path / "b", config), show_progress=False)
    assert same(whole.params, resumed.params)
    assert logged(tmp_path / "a") == logged(tmp_path / "b")


def test_accumulation_is_refused_where_it_would_change_the_loss():
    task = ToyTask()
    task.inseparable = "negatives are taken from the batch"
    config = dataclasses.replace(CONFIG, accumulate=2)
    with pytest.raises(InputError, match="negatives are taken from the batch"):
        train(task, config, show_progress=False)
    with pytest.raises(InputError, match="no 3 equal parts"):
        train(ToyTask(), dataclasses.replace(CONFIG, accumulate=3), show_progress=False)


def test_what_cannot_fit_a_device_is_refused_before_anything_is_compiled(monkeypatch):
    parts = {"parameters": 2.0**30, "optimizer": 2.0**31, "saved for backward": 2.0**32}
    assert check_memory(parts, None).startswith("memory a device, estimated: 7168 MiB (parameters")
    assert "runs out" not in check_memory(parts, 2.0**33)
    assert "if it runs out of memory" in check_memory(parts, 2.0**32)
    with pytest.raises(InputError, match=r"a device has 2048 MiB\n.*fsdp"):
        check_memory(parts, 2.0**31)
    monkeypatch.setattr(training, "device_memory", lambda mesh: 2.0**10)
    monkeypatch.setattr(training, "make_train_step", None)  # not called
    monkeypatch.setattr(training, "create_state", None)
    with pytest.raises(InputError, match="a device has 0 MiB"):
        train(ToyTask(), CONFIG, show_progress=False)


def test_memory_counts_all_batches_that_wait(monkeypatch):
    held = []
    estimate = training.memory_estimate

    def recording(*args):
        held.append(args[-1])
        return estimate(*args)

    monkeypatch.setattr(training, "memory_estimate", recording)
    train(ToyTask(), dataclasses.replace(CONFIG, accumulate=2, prefetch=3), show_progress=False)
    assert held == [2 * (2 + 3)]


def test_of_equal_evaluations_the_first_is_best(tmp_path):
    result = train(ToyTask(measures=[0.5, 0.5, 0.4]), CONFIG, run_folder(tmp_path))
    assert (result.best_step, result.best) == (8, {"RR": 0.5})


class Recording(ToyTask):
    """Keeps what it evaluates."""

    def __init__(self, measures):
        super().__init__(measures=measures)
        self.evaluated = []

    def evaluate(self, params):
        self.evaluated.append(jax.device_get(params))
        return super().evaluate(params) | {"other": float("nan")}


@pytest.mark.parametrize(("again", "step"), [([0.9, 0.1, 0.1], 24), ([0.1, 0.1, 0.1], 16)])
def test_best_parameters_are_of_the_run_that_went_on(tmp_path, monkeypatch, again, step):
    # As on another mesh, what comes after the state at step 20 is not what it was.
    config = dataclasses.replace(CONFIG, steps=40, checkpoint_every=20)
    first, second = Recording([0.1, 0.6, 0.7, 0.8]), Recording(again)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 37)
        train(first, config, run_folder(tmp_path, config), show_progress=False)
    result = train(second, config, run_folder(tmp_path, config), show_progress=False)
    assert result.best_step == step
    expected = second.evaluated[0] if step == 24 else first.evaluated[1]
    assert same(restore_params(tmp_path), expected)
    assert np.isnan(result.best["other"])


@pytest.mark.parametrize("evaluation", [2, 3])
def test_a_signal_in_the_last_evaluation_is_not_lost(tmp_path, evaluation):
    class Told(ToyTask):
        def evaluate(self, params):
            measures = super().evaluate(params)
            if self.evaluations == evaluation:
                os.kill(os.getpid(), signal.SIGTERM)
            return measures

    with pytest.raises(InterruptedRunError) as stopped:
        train(Told(), CONFIG, run_folder(tmp_path), show_progress=False)
    assert (stopped.value.code, stopped.value.step) == (143, 17 if evaluation == 2 else 20)
    assert train(ToyTask(), CONFIG, run_folder(tmp_path), show_progress=False).step == 20


def test_what_is_prefetched_but_not_yet_used_is_used_after_a_resume(tmp_path, monkeypatch):
    config = dataclasses.replace(CONFIG, accumulate=2)
    whole = train(ToyTask(), config, show_progress=False)
    far, none = (dataclasses.replace(config, prefetch=count) for count in (5, 0))
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_after(patch, 2 * 9)
        train(ToyTask(), far, run_folder(tmp_path, far), show_progress=False)
    position = tmp_path / "checkpoints" / "6" / "iterator" / "process_0-of-1.json"
    assert json.loads(position.read_text()) == {"next_index": 2 * 6}
    resumed = train(ToyTask(), none, run_folder(tmp_path, none), show_progress=False)
    assert same(whole.params, resumed.params)


class Breaking(ToyTask):
    """The data have some batches, of which number 8 cannot be read."""

    def __init__(self, length):
        super().__init__()
        self.length = length

    def batches(self, batch_size, seed):
        readable = list(itertools.islice(super().batches(batch_size, seed), 8))

        def make_batch(index):
            if index == 8:
                raise OSError("row 8 is gone")
            return readable[index]

        return iterate(range(self.length), make_batch)


def test_all_batches_before_a_broken_one_or_the_end_are_used(tmp_path):
    with pytest.raises(OSError, match="row 8 is gone"):
        train(Breaking(9), CONFIG, run_folder(tmp_path / "broken"), show_progress=False)
    with pytest.raises(InputError, match="came to an end"):
        train(Breaking(8), CONFIG, run_folder(tmp_path / "ended"), show_progress=False)
    train(ToyTask(), CONFIG, run_folder(tmp_path / "whole"), show_progress=False)
    whole = [entry for entry in logged(tmp_path / "whole") if entry["step"] <= 8]
    assert logged(tmp_path / "broken") == logged(tmp_path / "ended") == whole
