"""What training logs and profiles: means, keys of each step, rates, times."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrieval_jax import optimizers, training
from retrieval_jax.logs import read_metrics
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.training import train
from tests.retrieval_jax.test_training import CONFIG, run_folder
from tests.retrieval_jax.toy import ToyTask


def test_metrics_are_means_over_the_interval_by_count(tmp_path):
    train(ToyTask(), CONFIG, run_folder(tmp_path), show_progress=False)
    iterator = ToyTask().batches(16, 0)
    ids = [batch["id"].mean() for batch in itertools.islice(iterator, 4)]
    assert read_metrics(tmp_path)[0]["mean_id"] == pytest.approx(np.mean(ids))


class Busy(ToyTask):
    """Multiplies matrices as well."""

    def loss(self, params, batch, rng, train):
        loss, metrics = super().loss(params, batch, rng, train)
        wide = jnp.full((600, 600), params["dense"]["bias"][0])
        return loss + jnp.sum(wide @ wide @ wide), metrics


def test_a_profile_has_the_work_of_its_steps(tmp_path):
    def products(task, path):
        config = dataclasses.replace(CONFIG, profile=True, log_every=20)
        config = dataclasses.replace(config, evaluate_every=20, checkpoint_every=20)
        train(task, config, run_folder(path, config), show_progress=False)
        (trace,) = (path / "profile").glob("**/*.xplane.pb")
        planes = jax.profiler.ProfileData.from_file(str(trace)).planes
        names = [event.name for plane in planes for line in plane.lines for event in line.events]
        return sum(name.startswith("dot") for name in names)

    found = products(Busy(), tmp_path)
    assert found > 0
    assert found % 5 == 0  # steps


class Telling(ToyTask):
    """Tells a number that its key draws, and the number's square."""

    def loss(self, params, batch, rng, train):
        loss, metrics = super().loss(params, batch, rng, train)
        drawn, one = jax.random.uniform(rng), jnp.float32(1)
        return loss, metrics | {"drawn": (drawn, one), "square": (drawn**2, one)}


def test_each_step_and_each_part_of_a_batch_draws_its_own_numbers(tmp_path):
    for accumulate in (1, 2):
        config = dataclasses.replace(CONFIG, steps=6, log_every=1, accumulate=accumulate)
        path = tmp_path / str(accumulate)
        train(Telling(), config, run_folder(path, config), show_progress=False)
        entries = [entry for entry in read_metrics(path) if entry["kind"] == "train"]
        assert len({entry["drawn"] for entry in entries}) == 6
        # The mean of squares is the square of the mean where all numbers are one.
        alike = [entry["square"] == pytest.approx(entry["drawn"] ** 2) for entry in entries]
        assert alike == [accumulate == 1] * 6


def test_the_log_tells_what_each_step_was_done_with(tmp_path):
    optimizer = OptimizerConfig(learning_rate=1e-2, warmup=0.5)
    config = dataclasses.replace(CONFIG, log_every=1, optimizer=optimizer)
    train(ToyTask(), config, run_folder(tmp_path / "a", config), show_progress=False)
    rates = [e["learning_rate"] for e in read_metrics(tmp_path / "a") if e["kind"] == "train"]
    schedule = optimizers.make_schedule(optimizer, config.steps)
    np.testing.assert_allclose(rates, [float(schedule(step)) for step in range(20)])

    frozen = dataclasses.replace(optimizer, frozen=("^table/", "^dense/kernel"))
    config = dataclasses.replace(config, optimizer=frozen)
    train(ToyTask(dropout=0.0), config, run_folder(tmp_path / "b", config), show_progress=False)
    task = ToyTask(dropout=0.0)
    params, batch = task.init(jax.random.key(0)), next(task.batches(16, 0))
    gradient = jax.grad(lambda p: task.loss(p, batch, jax.random.key(0), False)[0])(params)
    norm = float(jnp.linalg.norm(gradient["dense"]["bias"]))
    assert read_metrics(tmp_path / "b")[0]["grad_norm"] == pytest.approx(norm, rel=1e-5)


def test_evaluation_is_no_time_of_training(tmp_path, monkeypatch):
    clock = itertools.count()

    class Slow(ToyTask):
        def evaluate(self, params):
            for _ in range(1000):
                next(clock)
            return super().evaluate(params)

    monkeypatch.setattr(training.time, "perf_counter", lambda: float(next(clock)))
    config = dataclasses.replace(CONFIG, log_every=4, evaluate_every=4)
    train(Slow(), config, run_folder(tmp_path, config), show_progress=False)
    rates = [e["examples_per_second"] for e in read_metrics(tmp_path) if e["kind"] == "train"]
    assert min(rates) > 16 * 4 / 1000
