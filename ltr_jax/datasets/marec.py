"""IPC codes of patents out of MAREC's XML files, and the hierarchy of the codes."""

import contextlib
import gzip
import logging
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from xml.parsers import expat

from retrieval_jax.text_files import ZIP_ERRORS

_log = logging.getLogger(__name__)
# A symbol such as `A01B  1/02   20060101AFI...`, with or without blanks; `:` in old indexing codes.
_SYMBOL = re.compile(r"\s*([A-H])\s*(\d\d)\s*([A-Z])\s*(?:(\d{1,4})\s*[/:]\s*(\d{2,6}))?")
_ELEMENTS = frozenset(
    ("classification-ipcr", "classification-ipc", "main-classification", "further-classification")
)


def patent_key(name: str) -> str:
    """A patent's number without kind code and separators: JP-2001012345-A -> JP2001012345."""
    match = re.fullmatch(r"([A-Z]{2})[-_ ]?(\d+?)[-_ ]?(?:[A-Z]\d?)?", name.strip().upper())
    return f"{match[1]}{match[2].lstrip('0')}" if match else name.strip()


def ipc_code(text: str) -> str | None:
    """The symbol at the beginning of a text, as A01B1/02 or A01B; None if there is none."""
    match = _SYMBOL.match(text)
    if match is None:
        return None
    section, digits, letter, group, subgroup = match.groups()
    subclass = f"{section}{digits}{letter}"
    return f"{subclass}{int(group)}/{subgroup}" if group else subclass


def ipc_edges(codes: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Each code with the next broader one: A01B1/02, A01B1/00, A01B, A01, A."""
    edges: dict[tuple[str, str], None] = {}
    for code in sorted(set(codes)):
        path = [code[:1], code[:3], code[:4]]
        if "/" in code:
            path += dict.fromkeys([f"{code.split('/')[0]}/00", code])
        edges.update(dict.fromkeys(zip(path[1:], path[:-1], strict=True)))
    return tuple(sorted(edges))


def read_ipc_codes(
    folder: Path, wanted: Set[str], counts: Counter[str]
) -> dict[str, tuple[str, ...]]:
    """Reads the IPC codes of some patents.

    A file that cannot be read is logged, counted and left out.

    Args:
        folder: with MAREC's files in any depth: .xml, .xml.gz, or .zip of .xml.
        wanted: `patent_key` of the patents.
        counts: files read and left out are added.

    Returns:
        `patent_key` -> codes, sorted; of patents with several publications all of them.
    """
    codes: defaultdict[str, set[str]] = defaultdict(set)
    for name, content in _documents(folder, counts):
        try:
            number, symbols = _parse(content)
        except (expat.ExpatError, ValueError) as error:
            counts["patent files that cannot be read, left out"] += 1
            _log.warning("%s is left out: %s", name, error)
            continue
        counts["patent files"] += 1
        key = patent_key(number)
        if key in wanted:
            codes[key].update(filter(None, map(ipc_code, symbols)))
    return {key: tuple(sorted(of_key)) for key, of_key in codes.items()}


def _documents(folder: Path, counts: Counter[str]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        with _left_out(path, counts):
            if path.suffix == ".xml":
                yield str(path), path.read_bytes()
            elif path.name.endswith(".xml.gz"):
                yield str(path), gzip.decompress(path.read_bytes())
            elif path.suffix == ".zip":
                with zipfile.ZipFile(path) as archive:
                    for name in sorted(archive.namelist()):
                        if name.endswith(".xml"):
                            with _left_out(f"{path}:{name}", counts):
                                yield f"{path}:{name}", archive.read(name)


@contextlib.contextmanager
def _left_out(name: Path | str, counts: Counter[str]) -> Iterator[None]:
    """Logs and counts what cannot be read; the others are read on."""
    try:
        yield
    except ZIP_ERRORS as error:  # those of gzip are among them
        counts["patent files that cannot be read, left out"] += 1
        _log.warning("%s is left out: %s", name, error)


def _parse(content: bytes) -> tuple[str, list[str]]:
    """A patent's number (`ucid`) and the texts of its IPC elements.

    Raises:
        ValueError: it declares entities, which could fill the memory, or has no number.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    number, texts, inside = "", [], False

    def start(element: str, attributes: dict[str, str]) -> None:
        nonlocal number, inside
        if element == "patent-document":
            number = attributes.get("ucid", "")
        inside = element in _ELEMENTS
        if inside:
            texts.append("")

    def characters(text: str) -> None:
        if inside:
            texts[-1] += text

    def end(_: str) -> None:
        nonlocal inside
        inside = False

    def refuse(*_: object) -> None:
        raise ValueError("it declares entities")

    parser.StartElementHandler = start
    parser.CharacterDataHandler = characters
    parser.EndElementHandler = end
    parser.EntityDeclHandler = refuse
    parser.Parse(content, True)
    if not number:
        raise ValueError("no patent-document with a ucid")
    return number, texts
