"""Pairs hold what they promise."""

import numpy as np
import pytest

from mathsim_jax.datasets.pairs import Pairs, join_pairs, with_negatives
from retrieval_jax.errors import InputError


def make(labels=(1, 0), second=("b", "d")):
    return Pairs(("a", "c"), tuple(second), np.array(labels), ("g", "h"), {"made": 2})


def test_what_is_no_pair_is_refused():
    with pytest.raises(InputError, match="pair 1: the label is"):
        make(labels=(1, 2))
    with pytest.raises(InputError, match="pair 0: its second text is only white space"):
        make(second=(" \t", "d"))
    with pytest.raises(InputError, match="lengths"):
        make(second=("b",))
    with pytest.raises(InputError, match="no pairs"):
        Pairs((), (), np.array([], np.int32), ())
    with pytest.raises(InputError, match="the test pairs hold no positive pair among 2"):
        make(labels=(0, 0)).require_both_labels("the test pairs")
    with pytest.raises(InputError, match="no negative"):
        make(labels=(1, 1)).require_both_labels("x")
    assert make().require_both_labels("x").summary == "2 pairs (1 alike) of 2 groups"


def test_parts_and_wholes():
    pairs = make()
    joined = join_pairs([pairs, pairs.take(np.array([True, False]))])
    assert joined.first == ("a", "c", "a")
    assert joined.labels.tolist() == [1, 0, 1]
    assert joined.card == {"made": 4}
    assert pairs.texts == ("a", "c", "b", "d")
    prints = {p.fingerprint for p in (pairs, joined, make((0, 1)), make(second=("b", "e")))}
    assert len(prints) == 4
    assert make().fingerprint == pairs.fingerprint
    with pytest.raises(InputError, match="no pairs"):
        pairs.take(np.array([], int))


def test_negatives_come_from_other_groups():
    first = tuple(f"a{i}" for i in range(40))
    second = tuple(f"b{i}" for i in range(40))
    groups = tuple("big" if i < 30 else f"g{i}" for i in range(40))
    pairs = with_negatives(first, second, groups, seed=0)
    assert pairs.labels.tolist() == [1] * 40 + [0] * 40
    assert pairs.first == first * 2
    group_of = dict(zip(second, groups, strict=True))
    assert all(group_of[pairs.second[i]] != groups[i - 40] for i in range(40, 80))
    assert pairs.fingerprint == with_negatives(first, second, groups, seed=0).fingerprint
    with pytest.raises(InputError, match="1 groups"):
        with_negatives(first, second, ("x",) * 40, seed=0)
