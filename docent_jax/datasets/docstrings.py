"""Plain English sentences from a docstring in reStructuredText, numpydoc or Google style.

The text goes through one pass after another. What is no prose is blanked first (signatures,
doctests, code, tables, directives); then sections are told apart, paragraphs joined, inline markup
stripped and sentences split. All rules are deterministic and look at the text alone.
"""

import dataclasses
import inspect
import itertools
import re
from collections import Counter
from collections.abc import Iterator

# Directives whose body is prose about the object; any other directive goes with its body.
_PROSE_DIRECTIVES = frozenset(
    ("attention", "caution", "hint", "important", "note", "tip", "warning")
)
# Sections about other objects, or bare lists of names.
_DROPPED_SECTIONS = frozenset(("bibliography", "methods", "references", "see also"))
# Underlined sections of `name : type` headers over indented descriptions.
_DEFINITION_SECTIONS = frozenset(
    (
        "attributes",
        "keyword arguments",
        "other parameters",
        "parameters",
        "raises",
        "receives",
        "returns",
        "warns",
        "yields",
    )
)

_ABBREVIATION = re.compile(
    r"al|approx|cf|def|dim|e\.g|eds?|eqs?|esp|etc|figs?|i\.e|incl|no|pp|refs?|resp|sect?|viz|vol"
    r"|vs|w\.r\.t|wrt"
)
_SIGNATURE = re.compile(r"(?:[\w\s,.\[\]]+=)?\s*[\w.]+\(.*\)(?:\s*->.*)?", re.DOTALL)
_UNDERLINE = re.compile(r"\s*([-=~^\"'*+#])\1{2,}\s*")
_TABLE_RULE = re.compile(r"\s*(?:[=-]{2,}(?:\s+[=-]+)+|\+[-=+]+\+)\s*")
_DIRECTIVE = re.compile(r"\.\.\s+([\w-]+)::\s*(.*)")
_GOOGLE_SECTION = re.compile(
    r"(arg(?:ument)?s|attributes|examples?|keyword arg(?:ument)?s|notes?|parameters|raises"
    r"|references|returns?|see also|yields?|warnings?):",
    re.IGNORECASE,
)
_GOOGLE_ENTRY = re.compile(r"(?:[-*]\s+)?[*`]*[A-Za-z_][\w.]*[*`]*(?:\s*\([^)]*\))?\s?:\s+(?=\S)")
_DEFINITION = re.compile(r"[\w*`'\"., ]+ : ")
_BULLET = re.compile(r"(?:[-*+•]|\(?(?:\d{1,2}|[a-z]|#|i{2,3}|iv|vi{0,3})[.)])\s+(?=\S)")
_FIELD = re.compile(r":\w+(?:\s[^:`]*)?:(?!`)\s*")

_LITERAL = re.compile(r"``([^`]*)``")
_ROLE = re.compile(r"(?::(?:[\w+-]+:)*([\w+-]+):)?`([^`]*)`(?:__?(?!\w))?")
_CITATION = re.compile(r"\s*\[[\w#*.-]+\]_|\s*\[\d+\](?!\w)")
_URL = re.compile(r"<?https?://[^\s>)]+>?")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,2})(?=\S)([^*]*[^*\s])\1(?![\w*])")
_ESCAPE = re.compile(r"\\(?:\s+|(\W|s\b))")
_SPACE_BEFORE_PUNCTUATION = re.compile(r"\s+(?=[.,;:!?)](?:\s|$))")
_SENTENCE_END = re.compile(r"[.!?][)\"']*\s+")


@dataclasses.dataclass(frozen=True)
class CleanDocstring:
    """A docstring as plain text.

    Attributes:
        summary: its first sentence; "" if it does not begin with prose.
        sentences: the sentences after the summary, in order, of any length.
        dropped: lines left out, by kind.
    """

    summary: str
    sentences: tuple[str, ...]
    dropped: Counter[str]


@dataclasses.dataclass
class _Section:
    title: str  # Lower case; "" outside of sections.
    google_indent: int | None  # Of the title, where it is in Google style.
    lines: list[str]


def clean_docstring(docstring: str) -> CleanDocstring:
    """Splits a docstring into its summary and its other sentences, as plain text.

    Dropped are signatures, doctests with their output, code, tables, directives other than
    admonitions, section titles, `name : type` headers, and the sections References, Methods and
    See Also (it describes other objects). Descriptions of parameters and results stay.
    """
    dropped: Counter[str] = Counter()
    lines = inspect.cleandoc(docstring).expandtabs().splitlines()
    for blanked in (
        _without_signatures,
        _without_doctests,
        _without_fenced_code,
        _without_tables,
        _without_directives,
    ):
        lines = blanked(lines, dropped)
    opening, *sections = (
        [
            sentence
            for paragraph in _paragraphs(section, dropped)
            for sentence in split_sentences(strip_markup(paragraph))
        ]
        for section in _sections(lines)
    )
    summary = opening.pop(0) if opening else ""
    return CleanDocstring(summary, tuple(itertools.chain(opening, *sections)), dropped)


def strip_markup(text: str) -> str:
    """Plain text of one paragraph: roles, links, emphasis and literals leave their text.

    Formulas in TeX, citations and web addresses go; `:math:` without TeX commands stays.
    """
    text = _ROLE.sub(_role_content, _LITERAL.sub(r"\1", text))
    text = _EMPHASIS.sub(r"\2", _URL.sub("", _CITATION.sub("", text.replace("`", ""))))
    text = _ESCAPE.sub(r"\1", text)
    return " ".join(_SPACE_BEFORE_PUNCTUATION.sub("", text).split())


def _role_content(role: re.Match[str]) -> str:
    name, content = role.groups()
    if name == "math":
        return "" if re.search(r"[\\{}]", content) else content
    content = re.sub(r"\s*<[^>]*>$", "", content)  # The target of a link.
    return content.rpartition(".")[2] if content.startswith("~") else content.lstrip("!")


def split_sentences(text: str) -> list[str]:
    """Splits after `.`, `!` and `?` before white space, except after common abbreviations."""
    sentences = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        last_word = text[start : end.start()].rpartition(" ")[2].lower().lstrip("([\"'")
        follows = text[end.end() : end.end() + 1]
        is_abbreviation = text[end.start()] == "." and _ABBREVIATION.fullmatch(last_word)
        is_ellipsis = last_word.endswith(".")
        is_factorial = text[end.start()] == "!" and not follows.isupper()
        if not (is_abbreviation or is_ellipsis or is_factorial):
            sentences.append(text[start : end.end()].strip())
            start = end.end()
    rest = text[start:].strip()
    return [*sentences, rest] if rest else sentences


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _n_filled(lines: list[str]) -> int:
    return sum(map(bool, map(str.strip, lines)))


def _without_signatures(lines: list[str], dropped: Counter[str]) -> list[str]:
    """Drops the call signatures that C functions write before their text."""
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and lines[end].strip() not in ("", "--"):
            end += 1
        if end == start:
            start += 1
        elif _SIGNATURE.fullmatch("\n".join(lines[start:end])):
            dropped["signature lines"] += end - start
            start = end
        elif _SIGNATURE.fullmatch(lines[start]):
            dropped["signature lines"] += 1
            start += 1
        else:
            break
    return lines[start:]


def _without_doctests(lines: list[str], dropped: Counter[str]) -> list[str]:
    """Blanks `>>>` lines and what follows up to the next empty line."""
    kept = []
    in_doctest = False
    for line in lines:
        in_doctest = line.lstrip().startswith(">>>") or (in_doctest and bool(line.strip()))
        dropped["doctest lines"] += in_doctest
        kept.append("" if in_doctest else line)
    return kept


def _without_fenced_code(lines: list[str], dropped: Counter[str]) -> list[str]:
    """Blanks Markdown code between ``` fences."""
    kept = []
    in_code = False
    for line in lines:
        is_fence = line.lstrip().startswith("```")
        dropped["code lines"] += in_code or is_fence
        kept.append("" if in_code or is_fence else line)
        in_code ^= is_fence
    return kept


def _without_tables(lines: list[str], dropped: Counter[str]) -> list[str]:
    """Blanks runs of lines that hold a ruler of a simple table or a grid table."""
    kept = []
    for _, run in itertools.groupby(lines, key=lambda line: bool(line.strip())):
        block = list(run)
        is_table = any(map(_TABLE_RULE.fullmatch, block))
        dropped["table lines"] += is_table * len(block)
        kept.extend([""] * len(block) if is_table else block)
    return kept


def _without_directives(lines: list[str], dropped: Counter[str]) -> list[str]:
    """Blanks directives, comments, footnotes and literal blocks; admonitions leave their text."""
    kept = []
    start = 0
    while start < len(lines):
        line = lines[start]
        start += 1
        directive = _DIRECTIVE.fullmatch(line.strip())
        if directive and directive[1] in _PROSE_DIRECTIVES:
            body = next(filter(str.strip, lines[start:]), "")
            kept.extend(["", " " * max(_indent(body), _indent(line) + 1) + directive[2]])
        elif line.lstrip().startswith(".. ") or line.strip() == "..":
            end = _block_end(lines, start, _indent(line))
            dropped["directive lines"] += 1 + _n_filled(lines[start:end])
            kept.append("")
            start = end
        elif line.rstrip().endswith("::"):
            end = _block_end(lines, start, _indent(line))
            dropped["code lines"] += _n_filled(lines[start:end])
            kept.extend([line.rstrip(": "), ""])
            start = end
        else:
            kept.append(line)
    return kept


def _block_end(lines: list[str], start: int, indent: int) -> int:
    """Where the lines from `start` that are empty or deeper than `indent` end."""
    for end in range(start, len(lines)):
        if lines[end].strip() and _indent(lines[end]) <= indent:
            return end
    return len(lines)


def _sections(lines: list[str]) -> Iterator[_Section]:
    """Cuts at underlined titles and at Google titles, whose sections end where indentation does."""
    section = _Section("", None, [])
    for line, next_line in itertools.pairwise([*lines, ""]):
        text, indent = line.strip(), _indent(line)
        google_title = _GOOGLE_SECTION.fullmatch(text)
        if _UNDERLINE.fullmatch(line):
            section.lines.append("")
        elif google_title or (text and _UNDERLINE.fullmatch(next_line)):
            yield section
            title = google_title[1] if google_title else text
            section = _Section(title.lower(), indent if google_title else None, [])
        elif text and section.google_indent is not None and indent <= section.google_indent:
            yield section
            section = _Section("", None, [line])
        else:
            section.lines.append(line)
    yield section


def _paragraphs(section: _Section, dropped: Counter[str]) -> list[str]:
    """Joins lines into paragraphs, list items and descriptions of parameters."""
    if section.title in _DROPPED_SECTIONS:
        dropped["section lines"] += _n_filled(section.lines)
        return []
    header_indent: int | None = None  # Of the `name : type` lines of numpydoc.
    if section.google_indent is None and section.title in _DEFINITION_SECTIONS:
        header_indent = min((_indent(line) for line in section.lines if line.strip()), default=0)
    paragraphs: list[list[str]] = []
    open_indent: int | None = None  # Of the paragraph that the next line may continue.
    is_item = False  # Items go on with deeper lines.
    for line, next_line in itertools.pairwise([*section.lines, ""]):
        text, indent = line.strip(), _indent(line)
        item = _BULLET.match(text) or _FIELD.match(text)
        if section.google_indent is not None:
            item = _GOOGLE_ENTRY.match(text) or item
        if not text:
            open_indent = None
        elif indent == header_indent and (_indent(next_line) > indent or _DEFINITION.match(text)):
            dropped["definition headers"] += 1
            open_indent = None
        elif item:
            paragraphs.append([text[item.end() :]])
            open_indent, is_item = indent, True
        elif open_indent is not None and (
            indent == open_indent or (is_item and indent > open_indent)
        ):
            paragraphs[-1].append(text)
        else:
            paragraphs.append([text])
            open_indent, is_item = indent, False
    return [" ".join(paragraph) for paragraph in paragraphs]
