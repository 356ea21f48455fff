"""The choice of a fusion's weight."""

import pytest

from experiments.fusion import WEIGHTS, best_weight


def test_weights_are_tenths_between_the_systems():
    assert WEIGHTS == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def test_the_best_weight_is_taken():
    assert best_weight(lambda weight: -abs(weight - 0.68)) == 0.7
    assert best_weight(lambda weight: weight, (0.0, 0.5)) == 0.5


@pytest.mark.parametrize("weights", [(0.2, 0.8), (0.8, 0.2)])
def test_of_equally_good_weights_the_first_is_taken(weights):
    assert best_weight(lambda weight: 1.0, weights) == weights[0]
