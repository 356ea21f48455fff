"""Fingerprints: hashes of what something was made from, and of names, the same in every process."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

_END = 1 << 16  # bytes read at either end of a file


def stable_hash(name: str) -> int:
    """A number of 128 bits for a name that is the same in every process: its MD5."""
    return int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), 16)


def content_fingerprint(parts: Iterable[str | np.ndarray]) -> str:
    """SHA-256 of texts and arrays in their order, 64 hexadecimal digits.

    Each part counts with its length or its type and shape: ["ab", "c"] is not ["a", "bc"].

    Raises:
        TypeError: an array of objects, whose bytes are their places in memory.
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        else:
            if part.dtype.hasobject:
                raise TypeError(f"an array of {part.dtype} has no fingerprint: give its texts")
            digest.update(f"{part.dtype} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def files_fingerprint(paths: Iterable[Path], *settings: object, whole: bool = False) -> str:
    """Tells files apart, and settings by their `repr`.

    Args:
        paths: the files.
        settings: what else the result depends on.
        whole: read the files from end to end, in little memory. Else, without reading gigabytes,
            they are told apart by name, size and 64 KiB at both ends: an edit in the middle that
            keeps the size is not seen. That is for what publishers ship: films and their reviews,
            word vectors, corpora, NTCIR-12's articles.

    Returns:
        12 hexadecimal digits.
    """
    digest = hashlib.sha256(repr(settings).encode() if settings else b"")
    for path in paths:
        size = path.stat().st_size
        with path.open("rb") as file:
            digest.update(f"{path.name} {size}\n".encode())
            if whole:
                digest.update(hashlib.file_digest(file, "sha256").digest())
            else:
                digest.update(file.read(_END))
                file.seek(max(0, size - _END))
                digest.update(file.read())
    return digest.hexdigest()[:12]
