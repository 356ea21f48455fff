"""NTCIR-12's Wikipedia corpus as it is published: articles in XHTML whose formulas are MathML.

Zanibbi et al., "NTCIR-12 MathIR task overview", 2016. The corpus (v0.2.1: 31,839 articles with
`<math>` tags that hold 580,068 formulas, and 287,850 others with 12,375) is one archive of

    MathTagArticles/wpmath0000001/Articles/Active_contour_model.html
    MathTagArticles/wpmath0000001/Articles_LaTeXML_Errors/...
    TextArticles/wptext0000001/...

Older copies hold an archive `wpmath0000001.tar.bz2` for each folder. All are read, packed or
unpacked. A formula's id is its element's: `Active_contour_model:1`.
"""

import html
import logging
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from gcl_jax.datasets.formula_files import Reject, Source, checked
from retrieval_jax.errors import InputError

REMEDY = (
    "Fetch NTCIR-12_MathIR_Wikipedia_Corpus (https://ntcir-math.nii.ac.jp/data/, or "
    "https://www.cs.rit.edu/~rlaz/NTCIR-12_MathIR_Wikipedia_Corpus.zip, unpacked) and give the "
    "folder that holds MathTagArticles, or the .tar.bz2."
)
_ARTICLES = (".html", ".xhtml")
_ARCHIVES = (".tar", ".tar.bz2", ".tar.gz", ".tgz", ".tbz2")
# Bytes: the longest article has some two million.
_LONGEST_ARTICLE = 1 << 26
_ATTRIBUTES = {name: re.compile(rf"""\b{name}\s*=\s*"([^"]*)\"""") for name in ("id", "alttext")}
_log = logging.getLogger(__name__)


def corpus_files(path: Path) -> list[Path]:
    """Articles and archives of a corpus, sorted.

    Args:
        path: a folder, or one archive.

    Raises:
        InputError: there are none.
    """
    if path.is_file():
        found = [path]
    else:
        found = sorted(
            Path(folder, name)
            for folder, _, names in os.walk(path)
            for name in names
            if name.endswith(_ARTICLES + _ARCHIVES)
        )
    if not found or not all(file.name.endswith(_ARTICLES + _ARCHIVES) for file in found):
        raise InputError(f"{path} holds no article and no archive of articles.", REMEDY)
    return found


def read_articles(files: list[Path], counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """Names and texts of articles.

    An archive that is damaged is logged and counted, and what stands before the damage kept.
    """
    for path in files:
        if path.name.endswith(_ARTICLES):
            with path.open("rb") as file:
                yield path.stem, _text(file.read(_LONGEST_ARTICLE), path, counts)
            continue
        try:
            with tarfile.open(path, "r|*") as archive:
                for member in archive:
                    if not member.isfile() or not member.name.endswith(_ARTICLES):
                        continue
                    file = archive.extractfile(member)
                    assert file is not None
                    text = _text(file.read(_LONGEST_ARTICLE), member.name, counts)
                    yield PurePosixPath(member.name).stem, text
        except (tarfile.TarError, EOFError, OSError) as error:
            counts["damaged archives"] += 1
            _log.warning("%s is damaged (%s); what stands before is kept", path, error)


def formulas_of(article: str, text: str, counts: Counter[str]) -> Iterator[Source | Reject]:
    """The formulas of an article, numbered from 1.

    Args:
        article: its name.
        text: XHTML.
        counts: formulas without an end are added.
    """
    number, end = 0, 0
    while (start := text.find("<math", end)) >= 0:
        end = start + len("<math")
        after = text[end : end + 1]
        if not (after.isspace() or after in ("/", ">")):
            continue
        tag_end = text.find(">", end) + 1
        if not tag_end:
            return
        number += 1
        if text[tag_end - 2] == "/":
            stop = tag_end
        else:
            stop = text.find("</math>", tag_end) + len("</math>")
        if stop < tag_end:
            counts["formulas without an end"] += 1
            _log.warning("%s: formula %d has no </math>", article, number)
            return
        tag = text[start:tag_end]
        # Ids of the first version of the corpus began with "./".
        name = _attribute(tag, "id").removeprefix("./") or f"{article}:{number - 1}"
        source = checked(number, name, text[start:stop])
        if isinstance(source, Source):
            source = source._replace(shown=_attribute(tag, "alttext"))
        yield source
        end = stop


def _attribute(tag: str, name: str) -> str:
    match = _ATTRIBUTES[name].search(tag)
    return html.unescape(match[1]) if match else ""


def _text(content: bytes, name: object, counts: Counter[str]) -> str:
    if len(content) == _LONGEST_ARTICLE:
        counts["articles cut for their length"] += 1
        _log.warning("%s is cut after %d bytes", name, _LONGEST_ARTICLE)
    return content.decode("utf-8", errors="replace")
