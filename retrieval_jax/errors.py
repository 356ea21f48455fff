"""Errors that a person can act on, and how command lines show them."""

import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from retrieval_jax.interruption import InterruptedRunError

P = ParamSpec("P")
R = TypeVar("R")


class InputError(ValueError):
    """Something the user gave cannot be used.

    Args:
        problem: what is wrong, naming the input and the place (file, line, row, field).
        remedy: what to do about it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}\n{remedy}")
        self.problem = problem
        self.remedy = remedy


def check_range(
    name: str,
    value: float | None,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> None:
    """Refuses a number out of a range.

    Args:
        name: of the setting, such as "model.dropout".
        value: the number; None, where a setting may be left open, is in every range.
        at_least: the least number of the range.
        above: what all of its numbers are above.
        at_most: its largest number.
        below: what all of its numbers are below.

    Raises:
        InputError: with name, value and range; also for a NaN.
    """
    bounds = (
        ("{} or more", at_least, operator.ge),
        ("more than {}", above, operator.gt),
        ("{} at most", at_most, operator.le),
        ("less than {}", below, operator.lt),
    )
    given = [(words, bound, compare) for words, bound, compare in bounds if bound is not None]
    if value is not None and not all(compare(value, bound) for _, bound, compare in given):
        words = ", ".join(words.format(bound) for words, bound, _ in given)
        raise InputError(f"{name} is {value}", f"Give {words}.")


def check_fields(config: object, names: Sequence[str], group: str = "", **bounds: float) -> None:
    """Refuses fields of a configuration that are out of a range.

    Args:
        config: whose.
        names: of fields.
        group: where the configuration stands in a larger one, such as "model".
        bounds: of `check_range`.

    Raises:
        InputError: names the first of the fields that is, with its value and the range.
    """
    for name in names:
        check_range(f"{group}.{name}" if group else name, getattr(config, name), **bounds)


def check_at_least_1(**settings: int) -> None:
    """Raises an `InputError` that names the first of the settings that is below 1."""
    for name, value in settings.items():
        check_range(name, value, at_least=1)


def check_texts(name: str, texts: Sequence[str]) -> None:
    """Raises an `InputError` unless there are texts, one or more, in a list, tuple or array."""
    wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
    if isinstance(texts, str) or not len(texts) or wrong is not None:
        what = "none" if not len(texts) else repr(texts if wrong is None else texts[wrong])
        raise InputError(f"{name}: {what[:80]}", "Give a list of one or more strings.")


def one_screen_errors(main: Callable[P, R]) -> Callable[P, R]:
    """Makes a command's `main` show an `InputError` without traceback and exit with 2."""

    @functools.wraps(main)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return main(*args, **kwargs)
        except InterruptedRunError as error:
            print(error, file=sys.stderr)
            raise
        except InputError as error:
            print(f"error: {error.problem}\n{error.remedy}", file=sys.stderr)
            raise SystemExit(2) from None
        except OSError as error:
            print(
                f"error: {error.filename or 'a file'}: {error.strerror or error}\n"
                "Check that the path exists, that it may be written, and that the disk has room.",
                file=sys.stderr,
            )
            raise SystemExit(2) from None

    return guarded
