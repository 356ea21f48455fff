"""Checks of what was given name it."""

import numpy as np
import pytest

from retrieval_jax.errors import InputError, check_at_least_1, check_texts


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


def test_the_first_setting_below_1_is_named():
    check_at_least_1(k=1, size=9)
    with pytest.raises(InputError, match=r"^size is 0\n"):
        check_at_least_1(k=1, size=0, rows=-1)
