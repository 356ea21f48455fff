"""Errors that a person can act on, and how command lines show them."""

import functools
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


def check_at_least_1(**settings: int) -> None:
    """Raises an `InputError` that names the first of the settings that is below 1."""
    for name, value in settings.items():
        if value < 1:
            raise InputError(f"{name} is {value}", "It must be 1 or more.")


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
