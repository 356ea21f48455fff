"""Values of labels: one spelling for each sign, whichever converter wrote it.

The spelling is LaTeXML's of the NTCIR-12 collection: plain letters for mathematical italic, `-` for
the minus sign, `*` for the asterisk operator, and so on.
"""
# ruff: noqa: RUF001 (mathematical signs)

import functools
import re
import unicodedata


def words(table: str) -> list[str]:
    """The entries of a table, divided by spaces."""
    return table.split()


INVISIBLE = frozenset("\u2061\u2062\u2063\u2064")
"""Function application, invisible times, comma and plus: they are no nodes."""

_SPACES = re.compile(r"\s+")
_VARIATION = re.compile("[\ufe00-\ufe0f]")
# As in Tangent, whose tuples are written with these as separators.
_ESCAPES = str.maketrans({"?": "&quest;", ",": "&comma;", "[": "&lsqb;", "]": "&rsqb;"})
_LETTERS = {"ℎ": "h", "𝛁": "∇", "𝜵": "∇", "𝛻": "∇", "𝜕": "∂"}
_SPELLINGS = {
    "−": "-",
    "∗": "*",
    "∣": "|",
    "‖": "∥",
    "∶": ":",
    "⁄": "/",
    "∕": "/",
    "ˆ": "^",
    "\u0302": "^",
    "˜": "~",
    "\u0303": "~",
    "\u0305": "¯",
    "\u0304": "¯",
    "‾": "¯",
    "⎯": "¯",
    "\u0332": "¯",
    "_": "¯",
    "⃗": "→",
    "\u20d6": "←",
    "\u0307": "˙",
    "\u0308": "¨",
    "\u030c": "ˇ",
    "\u0306": "˘",
    "\u0301": "´",
    "\u0300": "`",
    "\u030a": "˚",
    "⟂": "⊥",
    "〈": "⟨",
    "〉": "⟩",
    "″": "′′",
    "‴": "′′′",
    "⁗": "′′′′",
    "⨁": "⊕",
    "⨂": "⊗",
    "⨀": "⊙",
    "⨆": "⊔",
    "⨄": "⊎",
    "⨿": "∐",
    "◻": "□",
    "◯": "○",
    "▵": "△",
    "▿": "▽",
    "⇝": "↝",
}


@functools.lru_cache(maxsize=16384)
def clean(text: str) -> str:
    """A value as it stands in labels, "" for spaces and invisible operators."""
    text = _VARIATION.sub("", _SPACES.sub(" ", text).strip())
    if text in INVISIBLE:
        return ""
    return text.translate(_ESCAPES)


@functools.lru_cache(maxsize=16384)
def identifier(text: str) -> str:
    """Value of a variable: one mathematical italic letter is the plain letter.

    Other alphabets (bold, fraktur, script) are other symbols. Not NFKC, which would make them one
    and turn `ϵ` into `ε`.
    """
    text = clean(text)
    return _plain(text) if len(text) == 1 else text


@functools.lru_cache(maxsize=16384)
def number(text: str) -> str:
    """Value of a number, without spaces."""
    return clean(text).replace(" ", "").replace("&comma;", ",") if text else ""


@functools.lru_cache(maxsize=16384)
def operator(text: str) -> str:
    """Value of an operator."""
    text = clean(text)
    return _SPELLINGS.get(text, text)


@functools.lru_cache(maxsize=16384)
def content_name(text: str, modern: bool) -> str:
    """Value of a `ci`: `normal-x` for what is set upright, as in NTCIR-12.

    Args:
        text: of the element.
        modern: whether plain letters are the upright ones. LaTeXML writes them so since 2015, with
            mathematical italic for the others; before it wrote `normal-x` and plain italic.
    """
    text = clean(text)
    if text[:7] in ("italic-", "normal-"):
        return text[7:] if text[0] == "i" else text
    if len(text) == 1 and _plain(text) != text:
        return _plain(text)
    letter = text.isalpha()
    if text and (not letter or text in UPRIGHT or (modern and len(text) == 1 and text.isascii())):
        return f"normal-{text}"
    return text


def is_italic(text: str) -> bool:
    """Whether a text is one mathematical italic letter."""
    text = text.strip()
    return len(text) == 1 and _plain(text) != text


@functools.lru_cache(maxsize=16384)
def letter_by_letter(name: str) -> bool:
    """Whether a word is a row of letters, as double-struck, fraktur and script ones are."""
    return not name.isascii() and all(
        any(style in unicodedata.name(letter, "") for style in _ONE_LETTER_STYLES)
        for letter in name
    )


_ONE_LETTER_STYLES = ("DOUBLE-STRUCK", "FRAKTUR", "BLACK-LETTER", "SCRIPT", "BOLD ITALIC")


def _plain(letter: str) -> str:
    code = ord(letter)
    if letter in _LETTERS:
        return _LETTERS[letter]
    if code < 0x1D434 or code > 0x1D71B:
        return letter
    if "MATHEMATICAL ITALIC" in unicodedata.name(letter, ""):
        return chr(int(unicodedata.decomposition(letter).split()[-1], 16))
    return letter


@functools.lru_cache(maxsize=16384)
def is_operator_sign(name: str) -> bool:
    """Whether a sign is an operator even where a converter wrote it as an identifier."""
    if name in _OPERATOR_SIGNS:
        return True
    return len(name) == 1 and unicodedata.category(name) == "Sm" and name not in VARIABLE_SIGNS


_OPERATOR_SIGNS = frozenset([*"*/.;:!-†‡′", "′′", "&comma;", "&quest;"])

OPERATOR_NAMES = frozenset(
    ("lim", "lim inf", "lim sup", "inf", "sup", "det", "dim", "mod", "inj lim", "proj lim")
)
"""Words that are operators, as LaTeXML has them: their limits stand under them."""

VARIABLE_SIGNS = frozenset("∞…⋯⋱⋮¬∅⊤⊥ℵ∠∡∢∁♯")
"""Signs that are identifiers even where a converter wrote them as operators."""

UPRIGHT = frozenset("ΓΔΘΛΞΠΣΥΦΨΩ∞…⋯⋱⋮¬∅⊤⊥")
"""Identifiers that are upright without being told so."""
