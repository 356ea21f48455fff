"""Reviews as plain text, cut into sentences or short paragraphs."""

import html
import re

from docent_jax.datasets.docstrings import split_sentences

MIN_WORDS = 5
# More words than BERT reads of a passage: what is longer is cut at a comma or, failing that, a
# space.
MAX_WORDS = 80

_BREAK = re.compile(r"<\s*/?\s*(?:br|p|div|li)\b[^<>]{0,200}>|\n\s*\n", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
# aclImdb decoded Windows-1252 as Latin-1: dashes and quotes became control characters.
_CONTROLS = {
    code: bytes([code]).decode("cp1252", errors="ignore") or " " for code in range(0x80, 0xA0)
}
_UNFINISHED = re.compile(r"(?:^|[\s(\"'])(?:mr|mrs|ms|dr|st|jr|sr|vs|prof|lt|sgt|[a-z])\.$", re.I)
_CLAUSE_END = re.compile(r"[;,:]$|^[-\u2013\u2014]+$")


def plain_paragraphs(text: str) -> list[str]:
    """The paragraphs of a review in HTML as plain text with single spaces, the empty ones gone."""
    without_tags = (_TAG.sub(" ", part) for part in _BREAK.split(text))
    paragraphs = (
        " ".join(html.unescape(part).translate(_CONTROLS).split()) for part in without_tags
    )
    return [paragraph for paragraph in paragraphs if paragraph]


def passages(paragraph: str) -> list[str]:
    """Cuts a paragraph into sentences of at least `MIN_WORDS` words where it has as many.

    A shorter sentence joins the one before it, or after it where it is the first, so that
    "Loved it." is read with what it is about. One of more than `MAX_WORDS` words is cut in parts.
    """
    sentences: list[str] = []
    for sentence in split_sentences(paragraph):
        if sentences and _UNFINISHED.search(sentences[-1][-12:]):
            sentences[-1] += f" {sentence}"
        else:
            sentences.append(sentence)
    joined: list[str] = []
    for sentence in sentences:
        if joined and min(len(sentence.split()), len(joined[-1].split())) < MIN_WORDS:
            joined[-1] += f" {sentence}"
        else:
            joined.append(sentence)
    return [part for sentence in joined for part in _parts(sentence.split())]


def _parts(words: list[str]) -> list[str]:
    parts = []
    while len(words) > MAX_WORDS:
        ends = (n for n in range(MAX_WORDS, MAX_WORDS // 2, -1) if _CLAUSE_END.search(words[n - 1]))
        end = next(ends, MAX_WORDS)
        parts.append(" ".join(words[:end]))
        words = words[end:]
    return [*parts, " ".join(words)]
