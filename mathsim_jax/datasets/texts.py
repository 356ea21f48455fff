"""Mathematical texts: mended, and told apart by language."""

import re
import unicodedata

# A letter of a text that was UTF-8 and was read as Latin-1 or Windows-1252.
_MISREAD = re.compile(r"[\u00c2-\u00f4][\u0080-\u00bf\u0100-\uffff]{1,3}")
_LONE_BACKSLASH = re.compile(r"(?<!\\)\\(?!\\)(.)", re.DOTALL)
_DOUBLED = re.compile(r"\\\\[A-Za-z(){}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\([\\n'\"])")
# What pandas prints of a column that holds an id twice: the id, and a text cut short.
_PRINTED_COLUMN = re.compile(r"^zbMATH_ID\s+\d+\s+(.*?)(?:\.\.\.)?\n.*dtype: object\s*$", re.DOTALL)

_WORD = re.compile(r"[^\W\d_]+")
_GERMAN_WORDS = (
    "aber als am an auf aus bei bis das dass daß dem den der des die diese dieser durch ein eine"
    " einem einen einer eines er es für gegeben hat im in ist mit nach nicht oder sich sie sind so"
    " über und verf verfasser vom von werden wird wobei zu zum zur"
)
_GERMAN = frozenset(_GERMAN_WORDS.split())
_SHARED = frozenset(("an", "am", "die", "hat", "in", "so", "er"))  # words of other languages too
GERMAN_SHARE = 0.12
MIN_GERMAN_WORDS = 3


def joined_surrogates(text: str) -> str:
    """Text that can be encoded: surrogates of a pair joined, lone ones U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_text(text: str) -> str:
    r"""Mends a text as it came, and makes white space single.

    Escaped texts are unescaped (`\\\\(x\\\\)` and `\\n` as two characters), letters read in the
    wrong encoding are read in the right one, and what pandas printed of a column becomes the text
    in it, cut short as it is. On zbMATH's pairs all three go with the label: a model could learn
    it from them.
    """
    text = joined_surrogates(text)
    printed = _PRINTED_COLUMN.match(text)
    text = _unescaped(printed[1] if printed else text)
    text = unicodedata.normalize("NFC", _MISREAD.sub(lambda match: _read_again(match[0]), text))
    return " ".join(text.split())


def is_printed_column(text: str) -> bool:
    """Whether a text is what pandas prints of a column, of which little is left."""
    return _PRINTED_COLUMN.match(text) is not None


def is_german(text: str) -> bool:
    """Whether a text is German, by the share of German function words among its words."""
    words = [word.lower() for word in _WORD.findall(re.sub(r"\\\(.*?\\\)|\$.*?\$", " ", text))]
    german = [word for word in words if word in _GERMAN]
    certain = sum(word not in _SHARED for word in german)
    return certain >= MIN_GERMAN_WORDS and len(german) >= GERMAN_SHARE * len(words)


def _unescaped(text: str) -> str:
    lone = set(_LONE_BACKSLASH.findall(text))
    # A line break of LaTeX is a double backslash too, but no command or delimiter follows it.
    is_escaped = lone <= {"n", "'", '"'} and (_DOUBLED.search(text) or "\\n\\n" in text)
    if not is_escaped:
        return text
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def _read_again(letter: str) -> str:
    for encoding in ("latin-1", "cp1252"):
        try:
            return letter.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return letter
