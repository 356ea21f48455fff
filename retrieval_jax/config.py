"""Configurations: frozen dataclasses, to and from JSON, presets and the command line."""

import argparse
import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import tyro

from retrieval_jax.errors import InputError

C = TypeVar("C")


ADDED_LATER = "added_later"


def added_later(default: Any, *, earlier: Any = dataclasses.MISSING) -> Any:
    """A field that earlier configurations lack: they meant `earlier`, or else the default."""
    meant = default if earlier is dataclasses.MISSING else earlier
    return dataclasses.field(default=default, metadata={ADDED_LATER: meant})


def to_dict(config: Any) -> dict[str, Any]:
    """Turns a (nested) dataclass into plain dicts, lists and scalars, ready for JSON."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        if isinstance(value, tuple | list):
            return [plain(item) for item in value]
        return value

    return plain(config)


def lasting(config: Any) -> dict[str, Any]:
    """As `to_dict`, without fields `added_later` that have what earlier ones meant.

    A name made of it stays the same when a field is added.
    """
    kept = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            kept[field.name] = lasting(value)
        elif ADDED_LATER not in field.metadata or value != field.metadata[ADDED_LATER]:
            kept[field.name] = to_dict(value)
    return kept


def from_dict(cls: type[C], values: Mapping[str, Any], where: str = "config") -> C:
    """Builds the dataclass `cls` from what `to_dict` gave.

    Strict: a field that is not known is an error, and so is one that is absent, so that an old
    configuration never silently means something else; but for fields that are `added_later`.

    Raises:
        InputError: unknown or absent fields, named with `where`.
    """
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    meant = {f.name: f.metadata[ADDED_LATER] for f in fields if ADDED_LATER in f.metadata}
    values = meant | dict(values)
    names = [f.name for f in fields]
    unknown, absent = sorted(set(values) - set(names)), [n for n in names if n not in values]
    if unknown or absent:
        raise InputError(
            f"{where} does not fit {cls.__name__}: unknown {unknown}, absent {absent}",
            "It was written by another version; use that version, or edit the file.",
        )
    return cls(**{n: _convert(hints[n], values[n], f"{where}.{n}") for n in names})


def _convert(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_dict(hint, value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is tuple:
        hints = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(_convert(h, item, where) for h, item in zip(hints, value, strict=True))
    return value


def differences(old: Mapping[str, Any], new: Mapping[str, Any], where: str = "") -> list[str]:
    """Lists the fields in which two `to_dict` results differ, as `path: old -> new`."""
    lines = []
    for name in sorted({*old, *new}):
        before, after, path = old.get(name), new.get(name), f"{where}{name}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += differences(before, after, f"{path}.")
        elif before != after:
            lines.append(f"{path}: {before!r} -> {after!r}")
    return lines


def preset(presets: Mapping[str, C], name: str) -> C:
    """Looks a preset up.

    Raises:
        InputError: no such preset, with the known ones and the nearest.
    """
    if name in presets:
        return presets[name]
    near = difflib.get_close_matches(name, presets, n=1)
    hint = f" Perhaps you meant {near[0]!r}." if near else ""
    raise InputError(f"unknown preset {name!r}", f"Presets are {', '.join(presets)}.{hint}")


def split_at_dashes(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words of a command line before the first `--`, its own, and those after it, of another."""
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


def given_options(words: Sequence[str]) -> set[str]:
    """Options that a command line names, as the help writes them: `--training.batch-size`."""
    own, _ = split_at_dashes(words)
    return {word.partition("=")[0].replace("_", "-") for word in own if word.startswith("--")}


def parse_command_line(
    presets: Mapping[str, C],
    prog: str,
    description: str,
    default: str = "small",
    args: Sequence[str] | None = None,
) -> C:
    """Reads a configuration from the command line: `--preset NAME`, then overrides by field.

    Args:
        presets: name -> configuration.
        prog: how the command is called, for the help.
        description: what the command does, for the help.
        default: preset used without `--preset`.
        args: words of the command line; `sys.argv[1:]` by default.

    Returns:
        The configuration.

    Raises:
        InputError: unknown preset.
        SystemExit: `--help`, or a wrong option (message and nearest option printed).
    """
    chooser = argparse.ArgumentParser(prog, add_help=False, allow_abbrev=False)
    chooser.add_argument("--preset", default=default)
    chosen, rest = chooser.parse_known_args(args)
    start = preset(presets, chosen.preset)
    return tyro.cli(
        type(start),
        prog=prog,
        description=f"{description}\n\n--preset {{{','.join(presets)}}} sets the defaults shown"
        f" below (now: {chosen.preset}); every option overrides one field.",
        default=start,
        args=rest,
    )
