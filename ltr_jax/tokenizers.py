"""Words of a text, by language: punctuation removed, in lower case (section 3.1)."""

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence

from retrieval_jax.errors import InputError

Tokenizer = Callable[[str], list[str]]
"""From a text to its words in order."""

SPACED_LANGUAGES = (
    *("bg", "ca", "cs", "da", "de", "el", "en", "eo", "es", "et", "eu", "fi", "fr", "ga", "gl"),
    *("hr", "hu", "id", "is", "it", "lt", "lv", "nb", "nl", "nn", "no", "pl", "pt", "pt_BR"),
    *("ro", "ru", "sk", "sl", "sq", "sr", "sv", "sw", "tl", "tr", "uk", "vi"),
)
"""Languages whose words are separated by spaces or punctuation."""

LANGUAGES = (*SPACED_LANGUAGES, "ja")

# Letters and digits of any script with the accents that have no composed form; no underscore.
_WORD = re.compile(r"[^\W_][^\W_\u0300-\u036f]*(?:[\u0300-\u036f]+[^\W_\u0300-\u036f]*)*")
_LATIN_WORD = re.compile(r"[a-z0-9]+")
_LATIN_COMPOUND = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# SudachiPy refuses texts of more than 49,149 bytes; a character has at most 4.
_MAX_JAPANESE = 10_000
# Kana and kanji on both sides.
_JAPANESE_GAP = re.compile(r"(?<=[\u3040-\u30ff\u3400-\u9fff])\s+(?=[\u3040-\u30ff\u3400-\u9fff])")


def tokenizer(language: str) -> Tokenizer:
    """Gives the tokenizer of a language.

    Texts are brought to Unicode's compatibility form first: full-width letters, ligatures and the
    like become plain ones. Japanese is split by SudachiPy into its shortest units.

    Args:
        language: one of `LANGUAGES`.

    Raises:
        InputError: no tokenizer for the language, or SudachiPy is not installed.
    """
    if language == "ja":
        return _japanese_tokenizer()
    if language not in SPACED_LANGUAGES:
        raise InputError(
            f"There is no tokenizer for the language {language!r}.",
            f"There are those of {', '.join(LANGUAGES)}.",
        )
    return split_words


def tokenize(texts: Sequence[str], language: str) -> list[list[str]]:
    """Splits texts of one language into words.

    Args:
        texts: any; a text without words gives an empty list.
        language: one of `LANGUAGES`.

    Raises:
        InputError: as `tokenizer`.
    """
    split = tokenizer(language)
    return [split(text) for text in texts]


def split_words(text: str) -> list[str]:
    """The words of a text in a language that separates them, in lower case."""
    return _WORD.findall(_normal(text))


def latin_words(text: str) -> list[str]:
    """Runs of the letters a to z and digits, in lower case, whatever the language.

    They are what texts in two languages share: names, numbers, loan words.
    """
    return _LATIN_WORD.findall(text.lower())


def latin_compounds(text: str) -> list[str]:
    """As `latin_words`, but words that hyphens join stay one."""
    return _LATIN_COMPOUND.findall(text.lower())


def _normal(text: str) -> str:
    # Once more after lower case, which takes a dotted capital I apart.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())


@functools.lru_cache(maxsize=1)
def _japanese_tokenizer() -> Tokenizer:
    try:
        from sudachipy import Dictionary, SplitMode

        sudachi = Dictionary(dict="core").tokenizer(SplitMode.A)
    except ImportError as error:
        raise InputError(
            "Japanese needs SudachiPy and its dictionary, which are not installed.",
            "pip install 'retrieval-jax[ltr]'",
        ) from error

    def split(text: str) -> list[str]:
        # Line ends stand inside words where a text was wrapped; they became blanks.
        text = _JAPANESE_GAP.sub("", _normal(text))
        words = []
        for start in range(0, len(text), _MAX_JAPANESE):
            for morpheme in sudachi.tokenize(text[start : start + _MAX_JAPANESE]):
                words += _WORD.findall(morpheme.surface())
        return words

    return split
