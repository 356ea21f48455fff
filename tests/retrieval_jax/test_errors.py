"""Checks of what was given name it."""

import math
import types

import numpy as np
import pytest

from retrieval_jax.errors import (
    InputError,
    check_at_least_1,
    check_fields,
    check_range,
    check_texts,
)


@pytest.mark.parametrize("texts", [["a"], ("a", ""), np.array(["a", "b"]), np.array(["a"], object)])
def test_texts_may_stand_in_any_sequence(texts):
    check_texts("texts", texts)


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        ([], "none"),
        (np.array([], str), "none"),
        ("", "none"),
        ("a text", "'a text'"),
        (["a", 3], "3"),
        ([None, "a"], "None"),
        (np.array(["a", b"b"], object), "b'b'"),
        ("x" * 100, "'" + "x" * 79),
    ],
)
def test_what_are_no_texts_is_shown(texts, what):
    with pytest.raises(InputError) as refused:
        check_texts("documents", texts)
    assert refused.value.problem == f"documents: {what}"


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "words"),
    [
        ({"at_least": 1}, (1, 7, None), (0, -1, math.nan), "1 or more"),
        ({"above": 0}, (1e-9, 5.0), (0, -0.5, math.nan), "more than 0"),
        ({"at_least": 0, "below": 1}, (0, 0.999, None), (1, 1.0, -0.1), "0 or more, less than 1"),
        ({"above": 0, "at_most": 1}, (0.1, 1), (0, 1.1), "more than 0, 1 at most"),
    ],
)
def test_a_number_out_of_range_is_named_with_its_range(bounds, inside, outside, words):
    for value in inside:
        check_range("model.x", value, **bounds)
    for value in outside:
        with pytest.raises(InputError) as refused:
            check_range("model.x", value, **bounds)
        assert refused.value.problem == f"model.x is {value}"
        assert refused.value.remedy == f"Give {words}."


def test_the_first_field_out_of_range_is_named():
    config = types.SimpleNamespace(a=0.5, b=2, c=3)
    check_fields(config, ("a",), "group", above=0, below=1)
    for group, name in (("group", "group.b"), ("", "b")):
        with pytest.raises(InputError, match=rf"^{name} is 2\nGive more than 0, less than 1\.$"):
            check_fields(config, ("a", "b", "c"), group, above=0, below=1)


def test_the_first_setting_below_1_is_named():
    check_at_least_1(k=1, size=9)
    with pytest.raises(InputError, match=r"^size is 0\n"):
        check_at_least_1(k=1, size=0, rows=-1)
