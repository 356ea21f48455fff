"""Results kept on disk by what they were made of: made once, whole or not at all."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import content_fingerprint


def content_name(parts: Iterable[str | np.ndarray]) -> str:
    """Name for what is made of `parts`: half of their fingerprint, 32 hexadecimal digits."""
    return content_fingerprint(parts)[:32]


def keep(folder: Path, name: str, write: Callable[[Path], None]) -> Path:
    """Gives `folder / name`, written if it is not there yet.

    Args:
        folder: made if absent; several processes may share it.
        name: says what it is made of (`content_name`).
        write: fills an empty folder.

    Raises:
        InputError: it cannot be written.
    """
    kept = folder / name
    if kept.is_dir():
        return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as unfinished:
            write(Path(unfinished))
            Path(unfinished).chmod(0o755)  # as other folders: it may be shared
            # Whole or not at all, also where several processes do the same.
            Path(unfinished).rename(kept)
    except OSError as error:
        if not kept.is_dir():
            raise InputError(
                f"what was made cannot be kept in {folder}: {error}",
                "Make room, or give another folder.",
            ) from error
    return kept
