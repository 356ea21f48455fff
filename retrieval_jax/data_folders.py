"""Where source files of data lie: a folder that is given, or one below a folder of them all."""

import os
from pathlib import Path

from retrieval_jax.errors import InputError

DATA_VARIABLE = "RETRIEVAL_DATA"
"""The environment variable that names the folder which holds a folder for each source."""


def data_folder(name: str, given: Path | str | None, option: str, hint: str = "") -> Path:
    """The folder of a source, which need not exist.

    Args:
        name: of its folder below the one that RETRIEVAL_DATA names.
        given: the folder, where the user names it.
        option: how the user does, for the error.
        hint: what else the error should say.

    Raises:
        InputError: neither is given.
    """
    if given is not None:
        return Path(given)
    parent = os.environ.get(DATA_VARIABLE)
    if parent is None:
        raise InputError(
            f"There is no folder to read {name} from.",
            f"Give it as {option}, or in {DATA_VARIABLE} the folder that holds a folder {name}."
            + hint,
        )
    return Path(parent) / name


def present_folder(name: str, given: Path | str | None, option: str, content: str) -> Path:
    """The folder of a source, which must exist.

    Args:
        name: as in `data_folder`.
        given: as in `data_folder`.
        option: as in `data_folder`.
        content: some of what it holds, for the error.

    Raises:
        InputError: none is given, or there is none.
    """
    folder = data_folder(name, given, option)
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {folder}.",
            f"Check {option}, or {DATA_VARIABLE}; the folder holds {content} and others.",
        )
    return folder
