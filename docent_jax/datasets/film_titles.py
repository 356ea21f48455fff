"""Film titles as MovieLens writes them, and their removal from text.

"Matrix, The (1999)" is "The Matrix"; "Seven Samurai (Shichinin no samurai) (1954)" has an alternate
name, "Kill Bill: Vol. 1 (2003)" a subtitle.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Iterator

_YEAR = re.compile(r"\s*\((\d{4})(?:\s*[-\u2013]\s*(?:\d{4})?)?\)\s*$")
_BRACKETS = re.compile(r"\s*\(([^()]*)\)\s*$")
_ALSO = re.compile(r"^\s*(?:a\.?\s?k\.?\s?a\.?|aka)\s+", re.IGNORECASE)
_INVERTED = re.compile(
    r"^(.*\S),\s+(the|a|an|le|la|les|l'|une?|des|der|die|das|den|eine?|el|los|las|lo|il|i|gli|una"
    r"|de|det|en|et|het|os?|as)$",
    re.IGNORECASE,
)
_LEADING = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_SUBTITLE = re.compile(r":\s+|\s+[-\u2013\u2014]\s+")
_SEQUEL = re.compile(r"\s+(?:part\s+)?(?:[2-9]|II|III|IV|V|VI{1,3}|IX|X)$", re.IGNORECASE)
# A subtitle that only counts names nothing: "Vol. 1", "Part Two".
_COUNTING = re.compile(
    r"(?:the|part|vol|volume|episode|chapter|season|book|series|movie|film|first|second|third"
    r"|one|two|three|four|five|[ivx]+|\d+|\W)+",
    re.IGNORECASE,
)
# One-word titles that are also among the commonest words: a name only in quotes or capitals.
_COMMON = re.compile(
    r"a|about|after|again|all|alive|and|another|any|back|bad|because|before|below|best|better"
    r"|big|both|but|clean|close|dead|down|enough|ever|everything|film|first|free|go|gone|good"
    r"|happy|he|head|her|here|hero|high|him|his|home|how|i|if|in|inside|is|it|just|kids|last"
    r"|life|like|love|man|me|men|movie|movies|my|never|new|night|no|nothing|now|off|old|on"
    r"|once|one|or|other|out|over|plot|run|she|so|some|story|such|super|that|the|their|them"
    r"|then|there|these|they|this|time|to|together|true|two|up|us|war|we|what|when|where|which"
    r"|who|why|wild|with|women|world|you|young|your",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class FilmTitle:
    """A title taken apart.

    Attributes:
        names: in natural word order, the main one first, then alternate names; none if unknown.
        year: of release, or "".
    """

    names: tuple[str, ...]
    year: str

    @property
    def label(self) -> str:
        """The main name with the year, "The Matrix (1999)"."""
        name = self.names[0] if self.names else ""
        return f"{name} ({self.year})" if name and self.year else name


def parse_title(title: str) -> FilmTitle:
    """Takes a title apart: year, alternate names in brackets, articles that were moved back."""
    rest = " ".join(title.split())
    year = _YEAR.search(rest)
    rest = _YEAR.sub("", rest)
    alternates: list[str] = []
    while (bracket := _BRACKETS.search(rest)) and bracket.start() > 0:
        alternates.insert(0, _ALSO.sub("", bracket[1]).strip())
        rest = rest[: bracket.start()]
    names = (_natural(name) for name in [rest, *alternates] if re.search(r"\w", name))
    return FilmTitle(tuple(dict.fromkeys(names)), year[1] if year else "")


def _natural(name: str) -> str:
    """The words of a name in natural order."""
    inverted = _INVERTED.match(name.strip())
    if not inverted:
        return name.strip()
    rest, article = inverted.groups()
    return f"{article}{'' if article.endswith(chr(39)) else ' '}{rest}"


@dataclasses.dataclass(frozen=True)
class NameRemover:
    """Takes the names of one film out of text.

    Also removed are the names without their leading article, both sides of a subtitle and a
    sequel's name without its number, with a possessive 's and the year in brackets behind any of
    them. Accents, case and the punctuation between words may differ. Parts of names that are one
    word are removed only where they begin with a capital letter, and titles that are among the
    commonest English words ("It") only in capitals or in quotes.
    """

    whole: re.Pattern[str] | None
    cased: re.Pattern[str] | None

    def remove(self, text: str) -> tuple[str, int]:
        """The text without the names, and how many there were."""
        n_removed = 0
        for pattern in (self.whole, self.cased):
            if pattern:
                text, n = pattern.subn(" ", text)
                n_removed += n
        if n_removed:
            text = re.sub(r"([\"\u201c(\[])\s+([\"\u201d)\]])", " ", text)
            text = re.sub(r"\s+(?=[.,;:!?)\]])", "", text)
            text = " ".join(text.split()).lstrip(".,;: ")
        return text, n_removed


def name_remover(titles: Iterable[str]) -> NameRemover:
    """Makes the remover for a film's titles, each as MovieLens writes it."""
    parsed = [parse_title(title) for title in titles]
    any_case: dict[str, None] = {}
    cased: dict[str, None] = {}
    for name in (name for title in parsed for name in title.names):
        words = re.findall(r"\w+", name)
        if len(words) > 1:
            any_case[_flexible(name)] = None
        elif _COMMON.fullmatch(words[0]) or len(words[0]) < 3:
            quoted = rf"[\"'`\u201c\u2018]{_flexible(name)}[,.]?[\"'`\u201d\u2019]"
            cased[rf"(?i:{quoted})"] = None
            if words[0].upper() != words[0].lower() and len(words[0]) > 1:
                cased[_flexible(name.upper())] = None
        else:
            any_case[_flexible(name)] = None
        for part in _name_parts(name):
            words = re.findall(r"\w+", part)
            if len(words) > 1:
                any_case[_flexible(part)] = None
            elif not _COMMON.fullmatch(words[0]) and len(words[0]) > 2 and words[0].isalpha():
                cased[_flexible(part[0].upper() + part[1:])] = None
                cased[_flexible(part.upper())] = None
    years = "|".join(sorted({title.year for title in parsed if title.year}))
    tail = r"(?:['\u2019]s(?!\w))?" + (rf"(?:\s*\((?:{years})\))?" if years else "")
    return NameRemover(_alternatives(any_case, tail, re.IGNORECASE), _alternatives(cased, tail, 0))


def _name_parts(name: str) -> Iterator[str]:
    """Shorter forms under which a film is spoken of."""
    pieces = [piece.strip() for piece in _SUBTITLE.split(name)]
    for form in [name, *(pieces if len(pieces) > 1 else [])]:
        for part in (form, _SEQUEL.sub("", form)):
            bare = _LEADING.sub("", part)
            for candidate in (part, bare):
                is_new = candidate != name and re.search(r"\w", candidate)
                if is_new and not _COUNTING.fullmatch(candidate):
                    yield candidate


def _flexible(name: str) -> str:
    """A pattern of a name whose accents and punctuation may be missing."""
    tokens = list(re.finditer(r"\w+|&", name))
    pattern = ""
    for previous, token in zip([None, *tokens], tokens, strict=False):
        if previous is not None:
            between = name[previous.end() : token.start()]
            # "Spider-Man" is also "Spiderman"; "To Get Her" is not "together".
            pattern += r"[\W_]{1,3}" if any(c.isspace() for c in between) else r"[\W_]{0,2}"
        is_and = token[0].lower() in ("&", "and")
        pattern += "(?:&|and|AND|And)" if is_and else "".join(map(_accentless, token[0]))
    return pattern


def _accentless(character: str) -> str:
    base = unicodedata.normalize("NFD", character)[0]
    return character if base == character else f"[{character}{base}]"


def _alternatives(patterns: Iterable[str], tail: str, flags: int) -> re.Pattern[str] | None:
    """Any of the patterns as whole words, the longest first."""
    ordered = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
    if not ordered:
        return None
    return re.compile(rf"(?<!\w)(?:{'|'.join(ordered)})(?!\w){tail}", flags)
