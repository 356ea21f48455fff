"""Results kept on disk by what they were made of: made once, whole or not at all."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from retrieval_jax.errors import InputError


def content_name(parts: Iterable[str | np.ndarray]) -> str:
    """Name for what is made of `parts`: their SHA-256, 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        else:
            digest.update(f"{part.dtype} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:32]


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
