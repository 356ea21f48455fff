"""Measures by hand, by rank, by group; intervals that resample groups."""

import math

import numpy as np
import pytest

from mathsim_jax.datasets.pairs import Pairs
from mathsim_jax.evaluation import (
    best_accuracy,
    bootstrap_groups,
    cosines,
    pair_measures,
    percentile_interval,
    retrieval_measures,
)
from retrieval_jax.errors import InputError


def test_cosines_by_hand():
    first = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
    second = np.array([[4.0, 3.0], [-2.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(cosines(first, second), [0.96, -1, 0])


def test_measures_of_four_pairs_by_hand():
    scores, labels = np.array([0.9, 0.7, 0.5, 0.1]), np.array([1, 0, 1, 0])
    measures = pair_measures(scores, labels)
    # Ranks 4 3 2 1 against 3.5 1.5 3.5 1.5.
    assert measures["Spearman"] == pytest.approx(2 / math.sqrt(5 * 4))
    centred = scores - 0.55
    pearson = (centred * (labels - 0.5)).sum() / math.sqrt((centred**2).sum() * 1.0)
    assert measures["Pearson"] == pytest.approx(pearson)
    assert measures["AP"] == pytest.approx((1 + 2 / 3) / 2)
    assert measures["best accuracy"] == 0.75


def test_perfect_scores_reach_the_bound_of_binary_labels():
    labels = np.repeat([0, 1], 50)
    measures = pair_measures(np.arange(100) / 100, labels)
    assert measures["AP"] == measures["best accuracy"] == 1
    # Ties of the labels keep a rank correlation below 1: sqrt(3) / 2 for many balanced pairs.
    assert measures["Spearman"] == pytest.approx(math.sqrt(3) / 2, abs=1e-3)


def test_equal_scores_tell_nothing():
    measures = pair_measures(np.full(4, 0.3), np.array([1, 0, 1, 0]))
    assert measures["Spearman"] == measures["Pearson"] == 0
    assert measures["AP"] == measures["best accuracy"] == 0.5
    assert best_accuracy(np.array([0.1, 0.9]), np.array([1, 0])) == 0.5


@pytest.mark.parametrize(
    ("scores", "labels"),
    [([0.1, math.nan], [0, 1]), ([0.1, 0.2], [0, 2]), ([0.1, 0.2], [1, 1]), ([0.1], [0, 1])],
)
def test_what_cannot_be_measured_is_refused(scores, labels):
    with pytest.raises(InputError):
        pair_measures(scores, labels)


def make_pairs(labels, groups):
    texts = tuple(f"t{i}" for i in range(len(labels)))
    return Pairs(texts, texts[::-1], np.array(labels, np.int32), tuple(groups))


def test_second_texts_are_ranked_within_their_group():
    pairs = make_pairs([1, 0, 0, 1, 1, 0], "aaabbc")
    scores = np.array([0.2, 0.9, 0.1, 0.3, 0.4, 0.5])
    with pytest.raises(InputError, match="no group"):
        retrieval_measures(make_pairs([1, 0], "ab"), scores[:2])
    evaluation = retrieval_measures(pairs, scores)
    assert list(evaluation.per_query) == ["a"]  # b has positives only, c no positive
    assert evaluation.mean == pytest.approx({"MAP": 0.5, "RR": 0.5})


def test_groups_are_resampled_whole_and_systems_alike():
    rng = np.random.default_rng(0)
    labels = np.tile([1, 0], 40)
    groups = [f"g{i // 4}" for i in range(80)]
    good = labels + rng.normal(0, 0.5, 80)
    systems = {"good": good, "copy": np.stack([good, good]), "noise": rng.normal(size=80)}
    values = bootstrap_groups(systems, labels, groups, resamples=200)
    np.testing.assert_allclose(values["good"]["AP"], values["copy"]["AP"])
    low, high = percentile_interval(values["good"]["Spearman"] - values["noise"]["Spearman"])
    difference = pair_measures(good, labels)["Spearman"]
    difference -= pair_measures(systems["noise"], labels)["Spearman"]
    assert 0 < low < difference < high
    # Groups of equal pairs vary more than as many single pairs.
    same = np.repeat([0.9, 0.1, 0.4, 0.6], 20)
    of_labels = np.repeat([1, 0, 1, 0], 20)
    by_group = bootstrap_groups({"x": same}, of_labels, np.repeat(list("abcd"), 20).tolist())
    by_pair = bootstrap_groups({"x": same}, of_labels, [str(i) for i in range(80)])
    assert by_group["x"]["Spearman"].std() > 3 * by_pair["x"]["Spearman"].std()
    with pytest.raises(InputError):
        bootstrap_groups({"x": same[:20]}, of_labels[:20], ["a"] * 20)
