"""LaTeX as people type it -> Presentation MathML, in process.

math-core converts; what it refuses goes to latex2mathml, whose output is checked, because it
passes unknown commands on as text. Both are recursive in native code or in Python, so length and
nesting are limited before they see the formula, and formulas that define macros may expand few.
"""

import functools
import html
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from math_core import LatexError, LatexToMathML

from gcl_jax.formulas.errors import FormulaError
from gcl_jax.formulas.macros import MACROS
from gcl_jax.formulas.markup import read_trusted

MAX_LENGTH = 20_000
"""Characters of LaTeX; Wikipedia's longest formula has 4,163."""

MAX_DEPTH = 1_000
"""Nested groups. math-core overflows an 8 MiB stack between 3,000 and 4,000."""

MAX_COMMANDS = 4_000
"""Commands. Each may take the next as its argument without a brace."""

MAX_OPEN = 12
"""Opening delimiters that nothing closes. math-core's time doubles with each."""

MAX_MARKUP = 1_000_000
"""Characters of the MathML that a formula may become."""

_FALLBACK_LENGTH, _FALLBACK_DEPTH = 5_000, 100

_DEFINITION = re.compile(
    r"\\(?:re|provide)?newcommand|\\[egx]?def\b|\\(?:future)?let\b|\\DeclareMathOperator|\\newenv"
)
_DEFINED_EXPANSIONS, _DEFINED_DEPTH = 50, 20
_EXPANSIONS = 20_000

_DELIMITERS = re.compile(r"^(?:\$\$|\$|\\\[|\\\()|(?:\$\$|(?<!\\)\$|\\\]|\\\))$")
_GROUPS = re.compile(r"\\[\\{}]|\\left(?![a-zA-Z])|\\right(?![a-zA-Z])|\\begin|\\end|[{}]")
_OPENS = frozenset(["{", r"\left", r"\begin"])
_CLOSES = frozenset(["}", r"\right", r"\end"])

_ENTITY = re.compile(r"&(?:lt|gt|amp|nbsp|quot);")
_DELIMITER = re.compile(
    # A delimiter that belongs to these is none of its own.
    r"\\(?:left|right)(?![a-zA-Z])\s*(?:\\[a-zA-Z]+|\\?.)?|[_^]\s*[^\\{}]"
    r"|\\(?:[dtc]?frac|[dt]?binom|sqrt|hat|check|breve|acute|grave|tilde|bar|vec|d*dot|not|pmb|cancel"
    r"|stackrel|phantom|boxed|operatorname|(?:wide|over|under|math|text|bold)[a-z]*)(?![a-zA-Z])"
    r"\s*[^\\{}a-zA-Z\s]"
    r"|(?P<group>[{}])|\\\\"
    r"|(?P<open>[(\[⟨⌊⌈⟦⌜⌞]|\\\{|\\(?:langle|lang|lvert|lVert|lbrace|lbrack|lparen|lfloor|lceil|lgroup"
    r"|lmoustache|llbracket|lBrack|ulcorner|llcorner|middle|mathopen|[bB]igg?l)(?![a-zA-Z]))"
    r"|(?P<close>[)\]⟩⌋⌉⟧⌝⌟]|\\\}|\\(?:rangle|rang|rvert|rVert|rbrace|rbrack|rparen|rfloor|rceil|rgroup"
    r"|rmoustache|rrbracket|rBrack|urcorner|lrcorner|mathclose|[bB]igg?r)(?![a-zA-Z]))"
)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_WILDCARD = re.compile(r"\\qvar\s*\{([^{}]*)\}|(?<!\\)\?([A-Za-z][A-Za-z0-9]*)")
_WILDCARD_MARK = re.compile("[\ue000-\uf8ff]")
_MARKED_TOKEN = re.compile(
    "<(m[ions]|mtext)(?![a-z])([^<>]*)>([^<>\ue000-\uf8ff]*[\ue000-\uf8ff][^<>]*)</\\1>"
)
_FIRST_MARK = 0xE000

_ENVIRONMENT = re.compile(
    r"\\(begin|end)\s*\{\s*(align|alignat|alignedat|eqnarray|gather|multline|split|equation|"
    r"smallmatrix|subarray|math|displaymath)(\*?)\s*\}(\s*\{\s*\d+\s*\})?"
)
_ENVIRONMENTS = {
    "smallmatrix": "matrix",
    "subarray": "matrix",
    "gather": "gathered",
    "multline": "gathered",
}
_NO_ENVIRONMENT = frozenset(["equation", "math", "displaymath"])
_ARRAY_OPTION = re.compile(r"(\\begin\s*\{(?:array|aligned|gathered)\})\s*\[[^\]]*\]")
_COLUMNS = re.compile(r"(\\begin\s*\{array\})\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_TEXT_WITH_MATH = re.compile(r"\\(text|mbox|hbox|textrm|mathrm)\s*\{([^{}$]*\$[^{}]*)\}")
_TAG = re.compile(r"\\(?:tag\*?|label)\s*\{[^{}]*\}")
_PRIME = re.compile(r"\^\s*('+)")
_BIG_DOT = re.compile(r"\\[bB]ig+[lrm]?\s*\.")
_STRAY_COMMENT = re.compile(r"(?<!\\)%(?=&#10;|\s*$)(?:&#10;)?")
_UNUSUAL = re.compile(r"\\begin|\\(?:text|mbox|hbox|textrm|mathrm|tag|label|big|Big)|\^\s*'|%")

_UNKNOWN = re.compile(r"<m[ion][^<>]*>\s*\\|<mtext[^<>]*>\\[A-Za-z]")
"""A command that latex2mathml did not know and wrote as text."""

_PARTS = {
    "mfrac": 2,
    "mroot": 2,
    "msub": 2,
    "msup": 2,
    "munder": 2,
    "mover": 2,
    "msubsup": 3,
    "munderover": 3,
}

_REPAIRS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<!\\)([$%])", r"\\\1"),
        (r"\\(?:no|display)?limits(?![a-zA-Z])", ""),
        (r"\\operatorname\*?\s*(?=\{)", r"\\mathrm"),
        (r"\\([A-Za-z]+)\*", r"\\\1 *"),
        (r"\\not(?=\s*(?:[0-9A-Za-z{]|\\[!,]))", ""),
        (r"\\hline(?![a-zA-Z])", ""),
        (r"\\lbrack(?![a-zA-Z])", "["),
        (r"\\rbrack(?![a-zA-Z])", "]"),
        (r"([_^])\s*(\\begin\s*\{(\w+)\}.*?\\end\s*\{\3\})", r"\1{\2}"),
        (r"'\s+'", "''"),
    )
]
"""What Wikipedia and people get away with elsewhere, for a second try."""

_PLACE = re.compile(r"^(\d+): (.*)$", re.DOTALL)


def latex_markup(latex: str) -> Element:
    """The `math` element of a LaTeX formula.

    Args:
        latex: the formula, with or without `$`, `\\[`, `\\(` around it.

    Raises:
        FormulaError: empty, too long or nested too deep, or no converter understands it.
    """
    check_size(latex)
    prepared, wildcards = prepare(latex)
    if not prepared or prepared.isspace():
        raise FormulaError("an empty formula", 0)
    if (unclosed := _most_unclosed(prepared)) > MAX_OPEN:
        raise FormulaError(
            f"{unclosed} opening brackets that nothing closes, more than {MAX_OPEN}", 0, latex
        )
    defines = _DEFINITION.search(prepared)
    if defines and _deepest(prepared)[0] > _DEFINED_DEPTH:
        raise FormulaError(
            f"defines macros and nests deeper than {_DEFINED_DEPTH}", defines.start(), prepared
        )
    converter = _converter(_DEFINED_EXPANSIONS if defines else _EXPANSIONS)
    markup = _converted(converter, prepared)
    if markup is None:
        repaired = _repaired(prepared)
        # Repairs add braces and turn comments into text.
        safe = _deepest(repaired)[0] <= MAX_DEPTH and _most_unclosed(repaired) <= MAX_OPEN
        markup = _converted(converter, repaired) if safe else None
        markup = markup or _fallback(latex, prepared)
    if len(markup) > MAX_MARKUP:
        raise FormulaError(f"expands to {len(markup)} characters, more than {MAX_MARKUP}", 0, latex)
    if wildcards:
        markup = _with_wildcards(markup, wildcards)
    return read_trusted(markup)


def check_size(latex: str) -> None:
    """Refuses what could overflow a converter's stack.

    Raises:
        FormulaError: longer than `MAX_LENGTH`, more than `MAX_COMMANDS` or deeper than `MAX_DEPTH`.
    """
    if len(latex) > MAX_LENGTH:
        raise FormulaError(f"{len(latex)} characters, more than {MAX_LENGTH}", MAX_LENGTH, latex)
    if len(latex) < MAX_DEPTH:
        return
    if (commands := latex.count("\\")) > MAX_COMMANDS:
        raise FormulaError(f"{commands} commands, more than {MAX_COMMANDS}", 0, latex)
    depth, place = _deepest(latex)
    if depth > MAX_DEPTH:
        raise FormulaError(f"groups nested deeper than {MAX_DEPTH}", place, latex)


def _deepest(latex: str) -> tuple[int, int]:
    return max(map(nesting, _readings(latex)))


def _most_unclosed(latex: str) -> int:
    return max(map(unclosed_delimiters, _readings(latex)))


def _readings(text: str) -> Iterator[str]:
    """The text, and what is left of it when its comments are blanked: converters differ."""
    yield text
    if "%" in text:
        yield _COMMENT.sub(lambda found: found[1] + " " * (len(found[0]) - len(found[1])), text)


def nesting(latex: str) -> tuple[int, int]:
    """Greatest number of nested groups, and where it is first reached."""
    depth = deepest = place = 0
    for group in _GROUPS.finditer(latex):
        if group[0] in _OPENS:
            depth += 1
            if depth > deepest:
                deepest, place = depth, group.start()
        elif group[0] in _CLOSES:
            depth = max(depth - 1, 0)
    return deepest, place


def unclosed_delimiters(latex: str) -> int:
    """Opening delimiters without a closing one, of whatever kind, in the same group."""
    unclosed = 0
    groups = [0]
    for found in _DELIMITER.finditer(latex):
        if found["open"]:
            groups[-1] += 1
        elif found["close"]:
            groups[-1] = max(groups[-1] - 1, 0)
        elif found["group"] == "{":
            groups.append(0)
        elif found["group"] == "}" and len(groups) > 1:
            unclosed += groups.pop()
    return unclosed + sum(groups)


def prepare(latex: str) -> tuple[str, list[str]]:
    """The formula in the dialect that math-core reads, and the names of its wildcards.

    A wildcard, `\\qvar{x}` or `?x`, becomes a character of the private use area.
    """
    text = _CONTROL.sub(" ", _WILDCARD_MARK.sub("\ufffd", latex)).strip()
    if text[:1] in "$\\" or text[-1:] in "$])":
        text = _DELIMITERS.sub("", text).strip()
    if text[-1:] == "\\" and (len(text) - len(text.rstrip("\\"))) % 2:
        text += " "
    text = text.replace("...", "…")
    if "&" in text:
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    wildcards: list[str] = []
    if "?" in text or "\\qvar" in text:

        def mark(found: re.Match[str]) -> str:
            name = (found[1] or found[2] or "").strip()
            if name not in wildcards:
                if len(wildcards) == 6400:
                    return name
                wildcards.append(name)
            return chr(_FIRST_MARK + wildcards.index(name))

        text = _WILDCARD.sub(mark, text)
    if _UNUSUAL.search(text):
        text = _rewritten(text)
    return text, wildcards


def _rewritten(text: str) -> str:
    text = _STRAY_COMMENT.sub("", text)
    text = _ENVIRONMENT.sub(_environment, text)
    text = _ARRAY_OPTION.sub(r"\1", text)
    text = _COLUMNS.sub(_columns, text)
    text = _TEXT_WITH_MATH.sub(_math_in_text, text)
    text = _TAG.sub("", text)
    text = _PRIME.sub(r"\1", text)
    return _BIG_DOT.sub("", text)


def _environment(found: re.Match[str]) -> str:
    end, name = found[1], found[2]
    if name in _NO_ENVIRONMENT:
        return " "
    parameter = "" if name.startswith("align") or name == "subarray" else found[4] or ""
    return f"\\{end}{{{_ENVIRONMENTS.get(name, 'aligned')}}}{parameter}"


def _columns(found: re.Match[str]) -> str:
    """Column letters only: `*{20}c`, `@{ }` and rules say nothing about the formula."""
    letters = re.sub(r"[@!p>]\s*\{[^{}]*\}|\*\s*\{\s*\d*\s*\}|[^lcr]", "", found[2])
    return f"{found[1]}{{{letters or 'c'}}}"


def _math_in_text(found: re.Match[str]) -> str:
    parts = found[2].split("$")
    return "".join(
        part if place % 2 else f"\\text{{{part}}}" if part else ""
        for place, part in enumerate(parts)
    )


def _repaired(text: str) -> str:
    """The formula with what math-core does not forgive put right, for a second try."""
    for pattern, replacement in _REPAIRS:
        text = pattern.sub(replacement, text)
    missing = nesting_balance(text)
    text = "{" * max(-missing, 0) + text + "}" * max(missing, 0)
    if "&" in text and "\\begin" not in text:
        text = f"\\begin{{aligned}}{text}\\end{{aligned}}"
    return text


def nesting_balance(text: str) -> int:
    """Opening less closing braces."""
    text = re.sub(r"\\[\\{}]", "", text)
    return text.count("{") - text.count("}")


@functools.lru_cache(maxsize=4)
def _converter(expansions: int) -> LatexToMathML:
    return LatexToMathML(
        macros=MACROS,
        fancy_error=False,
        allow_unreliable_rendering=True,
        max_expansions=expansions,
    )


def _converted(converter: LatexToMathML, latex: str) -> str | None:
    try:
        return converter.convert_with_local_state(latex, displaystyle=True)
    except LatexError:
        return None


def _fallback(latex: str, prepared: str) -> str:
    """What latex2mathml makes of a formula that math-core refuses.

    Raises:
        FormulaError: it does not know it either; with math-core's reason and place.
    """
    problem, place = _reason(latex)
    if len(prepared) <= _FALLBACK_LENGTH and _deepest(prepared)[0] <= _FALLBACK_DEPTH:
        try:
            markup = convert(prepared)
        except Exception:  # It raises whatever happens to go wrong: IndexError, KeyError, ...
            markup = ""
        if markup and not _UNKNOWN.search(markup) and _is_complete(read_trusted(markup)):
            return markup
    raise FormulaError(problem, place, latex, "Correct it, or expand macros of your own.")


def _is_complete(markup: Element) -> bool:
    """Whether each construct has the parts that it needs: latex2mathml passes `\\frac{a}`."""
    return all(len(element) == _PARTS.get(element.tag, len(element)) for element in markup.iter())


def _reason(latex: str) -> tuple[str, int | None]:
    """Why math-core refuses the formula as it was given, and where."""
    try:
        _converter(_DEFINED_EXPANSIONS).convert_with_local_state(latex, displaystyle=True)
    except LatexError as error:
        if found := _PLACE.match(str(error)):
            return found[2], int(found[1])
        return str(error), None
    return "no converter understands it", None


def _with_wildcards(markup: str, names: list[str]) -> str:
    def name(mark: str) -> str:
        return html.escape(names[ord(mark) - _FIRST_MARK])

    def token(found: re.Match[str]) -> str:
        tag, attributes, text = found.groups()
        parts = [
            f"<qvar>{name(part)}</qvar>" if place % 2 else f"<{tag}{attributes}>{part}</{tag}>"
            for place, part in enumerate(re.split("([\ue000-\uf8ff])", text))
            if part and not part.isspace()
        ]
        # A script or a fraction counts its parts.
        return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"

    return _MARKED_TOKEN.sub(token, markup)
