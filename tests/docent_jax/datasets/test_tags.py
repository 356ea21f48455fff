"""Votes counted by hand, vocabularies closed, entities renumbered."""

import numpy as np
import pytest

from docent_jax.datasets.tags import TagVotes, tag_votes
from retrieval_jax.errors import InputError

APPLICATIONS = [
    (0, "Space", "a:1"),
    (0, " space ", "a:1"),  # The same vote.
    (0, "space", "b:1"),
    (2, "noir", "a:2"),
    (2, "space", "a:2"),
]


def test_votes_are_different_users() -> None:
    tags = tag_votes(APPLICATIONS)
    assert tags.tags == ("noir", "space")
    assert tags.votes(3).tolist() == [[0, 2], [0, 0], [1, 1]]
    assert tags.votes(3).dtype == np.int32
    assert len(tags) == 4
    # Users are numbered; "a:2" gave both tags of entity 2.
    assert len(set(tags.user_ids.tolist())) == 3
    assert len(set(tags.user_ids[tags.entity_ids == 2].tolist())) == 1


def test_a_user_who_repeats_a_tag_counts_once() -> None:
    zeros = np.zeros(3, np.int32)
    assert TagVotes(("x",), zeros, zeros, zeros).votes(1).tolist() == [[1]]


def test_the_vocabulary_comes_first_and_closes() -> None:
    tags = tag_votes(APPLICATIONS, ("western", "space"))
    assert tags.tags == ("western", "space", "noir")
    closed = tags.restrict(("western", "space"))
    assert closed.tags == ("western", "space")
    assert closed.votes(3).tolist() == [[0, 2], [0, 0], [0, 1]]
    assert tags.restrict(()).votes(3).shape == (3, 0)


def test_entities_are_renumbered() -> None:
    tags = tag_votes(APPLICATIONS).for_entities(("x", "y", "z"), ("z", "y"))
    assert tags.votes(2).tolist() == [[1, 1], [0, 0]]


def test_no_applications() -> None:
    tags = tag_votes([], ("space",))
    assert tags.votes(2).tolist() == [[0], [0]]
    assert len(tags.restrict(("noir",))) == len(tags.for_entities(("x",), ())) == 0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tags": ("x", "x")}, "only 1 different"),
        ({"user_ids": np.zeros(2, np.int32)}, r"`user_ids` is int32\[2\], not int32\[1\]"),
        ({"user_ids": np.zeros(1, np.int64)}, "`user_ids` is int64"),
        ({"entity_ids": np.array([-1], np.int32)}, "`entity_ids` is -1 in row 0"),
        ({"tag_ids": np.array([2], np.int32)}, "`tag_ids` is 2 in row 0"),
    ],
)
def test_parts_that_do_not_fit_are_named(changes: dict, problem: str) -> None:
    one = np.zeros(1, np.int32)
    parts = {"tags": ("x", "y"), "entity_ids": one, "tag_ids": one, "user_ids": one}
    with pytest.raises(InputError, match=problem):
        TagVotes(**{**parts, **changes})


def test_an_entity_beyond_the_corpus_is_named() -> None:
    with pytest.raises(InputError, match="`entity_ids` is 2 in row 2"):
        tag_votes(APPLICATIONS).votes(2)
