"""Configurations: JSON round trip, strictness, presets, command line."""

import dataclasses
import json

import pytest

from retrieval_jax.config import (
    added_later,
    differences,
    from_dict,
    given_options,
    lasting,
    parse_command_line,
    preset,
    split_at_dashes,
    to_dict,
)
from retrieval_jax.errors import InputError
from retrieval_jax.training import TrainingConfig


@dataclasses.dataclass(frozen=True)
class Example:
    """A configuration.

    Attributes:
        training: how to train.
        names: of something.
        limit: at most so many.
    """

    training: TrainingConfig = TrainingConfig()
    names: tuple[str, ...] = ("a", "b")
    limit: int | None = None


PRESETS = {"small": Example(), "smoke": Example(limit=3)}


def test_json_round_trip():
    config = Example(
        training=dataclasses.replace(
            TrainingConfig(),
            optimizer=dataclasses.replace(
                TrainingConfig().optimizer, scaled=(("^table/", 10.0),), clip_norm=None
            ),
        ),
        limit=4,
    )
    assert from_dict(Example, json.loads(json.dumps(to_dict(config)))) == config


def test_unknown_and_absent_fields_are_named_with_their_place():
    values = to_dict(Example())
    values["training"]["stepz"] = values["training"].pop("steps")
    with pytest.raises(InputError, match=r"x\.json\.training.*\['stepz'\].*\['steps'\]"):
        from_dict(Example, values, "x.json")


def test_a_field_that_was_added_later_may_be_absent():
    old = to_dict(Example(limit=4))

    @dataclasses.dataclass(frozen=True)
    class Later(Example):
        extent: int | None = added_later(None)

    assert from_dict(Later, old) == Later(limit=4)
    assert from_dict(Later, old | {"extent": 3}) == Later(limit=4, extent=3)
    assert differences(old, to_dict(Later(limit=4))) == []
    lasts = lasting(Later(limit=4))
    assert lasts == lasting(Example(limit=4))
    assert "prefetch" in old["training"] and "prefetch" not in lasts["training"]
    assert lasting(Later(limit=4, extent=3)) == lasts | {"extent": 3}


def test_a_field_that_was_added_later_may_have_meant_something_else():
    @dataclasses.dataclass(frozen=True)
    class Later(Example):
        exact: bool = added_later(True, earlier=False)

    assert Later().exact
    assert not from_dict(Later, to_dict(Example())).exact
    assert lasting(Later(exact=False)) == lasting(Example())
    assert lasting(Later()) == lasting(Example()) | {"exact": True}


def test_differences_name_the_path():
    other = Example(training=TrainingConfig(steps=5), limit=2)
    assert differences(to_dict(Example()), to_dict(other)) == [
        "limit: None -> 2",
        "training.steps: 1000 -> 5",
    ]


def test_unknown_preset_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="Perhaps you meant 'small'"):
        preset(PRESETS, "smal")


def parse(*args):
    return parse_command_line(PRESETS, "example", "Does something.", args=args)


def test_command_line_overrides_a_preset():
    assert parse() == PRESETS["small"]
    assert parse("--preset", "smoke") == PRESETS["smoke"]
    config = parse("--preset=smoke", "--training.steps", "7", "--names", "x", "y", "z")
    assert (config.limit, config.training.steps, config.names) == (3, 7, ("x", "y", "z"))


def test_a_typo_is_an_error_with_the_nearest_option(capsys):
    with pytest.raises(SystemExit) as exit_info:
        parse("--training.stepz", "7")
    assert exit_info.value.code == 2
    assert "--training.steps" in capsys.readouterr().err


def test_help_names_presets_fields_and_what_they_mean(capsys):
    with pytest.raises(SystemExit) as exit_info:
        parse("--preset", "smoke", "--help")
    assert exit_info.value.code == 0
    out = capsys.readouterr().out
    for words in ("Does something.", "small,smoke", "--training.steps", "at most so many"):
        assert words in out


def test_words_are_split_at_the_first_dashes():
    assert split_at_dashes(["a", "--b", "--", "c", "--", "d"]) == (["a", "--b"], ["c", "--", "d"])
    assert split_at_dashes(["a"]) == (["a"], [])
    assert split_at_dashes(["--"]) == ([], [])
    words = ["--preset", "small", "--a_b.c-d=--e", "x", "-1", "--", "--other"]
    assert given_options(words) == {"--preset", "--a-b.c-d"}
