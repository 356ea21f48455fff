"""Texts for domain adaptation from any files: plain lines, or JSON lines with a field of text."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from mathsim_jax.datasets.texts import clean_text
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import read_json_lines, read_lines, require_file, string


def read_texts(path: Path, field: str = "text") -> tuple[list[str], dict[str, int]]:
    """Reads the distinct texts of a file, one a line, cleaned.

    Args:
        path: plain text, or JSON lines if its name says .jsonl; also packed as .gz or .xz.
        field: of JSON lines, where the text is.

    Returns:
        Texts, and counts: lines of only white space, and texts that come again, both left out.

    Raises:
        InputError: no file, no text in it, a JSON line without the field or with no text in it.
    """
    require_file(path, "Check the path.")
    card: Counter[str] = Counter()
    texts: dict[str, None] = {}

    def lines() -> Iterable[str]:
        if ".jsonl" not in path.suffixes:
            yield from (line for _, line in read_lines(path, card))
            return
        for number, row in read_json_lines(path, card):
            yield string(row, field, path, number)

    for line in lines():
        text = clean_text(line)
        card["blank lines"] += not text
        card["texts that come again"] += text in texts
        if text:
            texts[text] = None
    if not texts:
        raise InputError(f"{path} holds no text", "Give a file with a text a line.")
    return list(texts), dict(card)


def hold_out(texts: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Splits texts by a hash of each into those kept and a `share` held out, whatever the order."""
    kept, held_out = [], []
    for text in texts:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        is_out = int.from_bytes(digest[:8], "big") < share * 2**64
        (held_out if is_out else kept).append(text)
    return kept, held_out
