import itertools

import numpy as np
import pytest

from retrieval_jax.errors import InputError
from retrieval_jax.significance import bootstrap_interval, holm, paired_randomisation


def test_exact_p_value_where_one_system_always_wins():
    # Of 2^5 sign patterns only all plus and all minus are as extreme.
    assert paired_randomisation([2, 3, 4, 5, 6], [1, 1, 1, 1, 1]) == 2 / 32


def test_exact_p_value_equals_an_enumeration():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 10, (2, 8))
    means = np.array([np.mean(np.array(s) * (a - b)) for s in itertools.product((1, -1), repeat=8)])
    extreme = np.mean(np.abs(means) >= abs(np.mean(a - b)))
    assert paired_randomisation(a, b) == pytest.approx(extreme)
    assert paired_randomisation(b, a) == pytest.approx(extreme)


def test_random_p_value_is_near_the_exact_one_and_repeatable():
    a = np.random.default_rng(0).normal(0.3, 1, 12)
    exact = paired_randomisation(a, np.zeros(12), resamples=4096)
    sampled = paired_randomisation(a, np.zeros(12), resamples=4000, seed=1)
    assert sampled != exact
    assert sampled == pytest.approx(exact, abs=0.03)
    assert sampled == paired_randomisation(a, np.zeros(12), resamples=4000, seed=1)


def test_blocks_do_not_change_the_p_value(monkeypatch):
    a, b = np.random.default_rng(0).random((2, 50))
    whole = paired_randomisation(a, b, resamples=500)
    monkeypatch.setattr("retrieval_jax.significance.BLOCK_VALUES", 60)
    assert paired_randomisation(a, b, resamples=500) == whole


def test_equal_systems_do_not_differ():
    assert paired_randomisation([0.5, 0.25], [0.5, 0.25]) == 1.0


def test_queries_of_equal_values_change_nothing():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 10, (2, 9))
    a[:2] = b[:2]
    kept = paired_randomisation(a[2:], b[2:])
    assert paired_randomisation(a, b) == kept
    means = [np.mean(np.array(s) * (a - b)) for s in itertools.product((1, -1), repeat=9)]
    assert kept == pytest.approx(np.mean(np.abs(means) >= abs(np.mean(a - b)) - 1e-12))
    assert paired_randomisation([1, 2, 3], [1, 2, 2]) == 1.0


def test_smallest_random_p_value():
    assert paired_randomisation(np.ones(40), np.zeros(40), resamples=999) == 2 / 1000


def test_holm_steps_down_in_the_order_given():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.04, 0.5, 0.02, 0.9]) == pytest.approx([0.12, 1.0, 0.08, 1.0])
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_bootstrap_interval_is_near_the_normal_one():
    values = np.random.default_rng(0).normal(2, 1, 400)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.01)
    assert high == pytest.approx(values.mean() + half, abs=0.01)
    narrow_low, narrow_high = bootstrap_interval(values, level=0.5)
    assert low < narrow_low < narrow_high < high
    assert bootstrap_interval(values, seed=1) == bootstrap_interval(values, seed=1) != (low, high)


def test_bootstrap_interval_of_equal_values_is_a_point():
    assert bootstrap_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: paired_randomisation([1, 2], [1, 2, 3]), "a has 2 values, b has 3"),
        (lambda: paired_randomisation([1], [1]), r"a has shape \(1,\)"),
        (lambda: paired_randomisation([1, 2], [1, np.nan]), r"b\[1\] is nan"),
        (lambda: holm([0.1, 1.5]), r"p_values\[1\] is 1.5"),
        (lambda: holm([float("nan")]), r"p_values\[0\] is nan"),
        (lambda: bootstrap_interval([[1, 2]]), r"values has shape \(1, 2\)"),
        (lambda: bootstrap_interval([1, 2], level=95), "level is 95"),
    ],
)
def test_refuses_bad_input(call, problem):
    with pytest.raises(InputError, match=problem):
        call()
