"""Reading MathML without trusting it: no DTD, no entity but characters, no network, no files."""

import html
import html.entities
import re
from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from gcl_jax.formulas.errors import FormulaError

MAX_LENGTH = 1_000_000
"""Characters of MathML; the longest formula of NTCIR-12 has some 100,000."""

_MATH = re.compile(r"<(?:[\w.-]+:)?math[\s>/]", re.IGNORECASE)
_MATH_END = re.compile(r"</(?:[\w.-]+:)?math\s*>", re.IGNORECASE)
_FRAGMENT = re.compile(
    r"[\s\ufeff]*<(?:[\w.-]+:)?(?:semantics|annotation-xml|apply|mrow|mstyle)[\s>/]"
)
_DECLARATION = re.compile(r"<!(?:ENTITY|DOCTYPE[^<>\[]*\[)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_NAMESPACE = re.compile(r"\sxmlns(?::[\w.-]+)?\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_PREFIX = re.compile(r"^(</?)[\w.-]+:|(?<=\s)([\w.-]+):(?=[\w.-]+\s*=)")
_REFERENCE = re.compile(r"&(?:#(\d{1,7}|[xX][0-9a-fA-F]{1,6});|(\w+);)?")
_KEPT = ("amp", "lt", "gt", "quot", "apos")
# What XML 1.0 has no place for.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Target(ElementTree.TreeBuilder):
    """Builds the standard library's elements, which are quick to read, from lxml's events."""

    def start(self, tag: str, attrs: Mapping[str, str]) -> Element:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().start(tag, dict(attrs))


def is_mathml(text: str) -> bool:
    """Whether the text is markup with a `math` element in it; else it is taken for LaTeX."""
    if text.lstrip("\ufeff \t\r\n")[:1] != "<":
        return False
    return _MATH.search(text) is not None or _FRAGMENT.match(text) is not None


def read_mathml(text: str) -> Element:
    """The `math` element of a text, namespaces removed.

    What stands around it (HTML, an XML declaration) is not read. Named entities become
    characters; a bare `&`, as in one NTCIR-12 topic, is taken for itself.

    Raises:
        FormulaError: too long, not well formed, nested deeper than lxml's limit of 256, or a
            declaration of entities.
    """
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"{len(text)} characters of MathML, more than {MAX_LENGTH}", MAX_LENGTH)
    if declaration := _DECLARATION.search(text):
        raise FormulaError(
            "a declaration of entities",
            declaration.start(),
            text,
            "Give the math element without it; entities of HTML need no declaration.",
        )
    start = _MATH.search(text) or _FRAGMENT.match(text)
    if start is None:
        raise FormulaError("no math element")
    end = _MATH_END.search(text, start.end())
    markup = text[start.start() : end.end() if end else len(text)]
    markup = _NAMESPACE.sub("", markup)
    markup = _TAG.sub(_without_prefixes, markup)
    markup = _ILLEGAL.sub("\ufffd", _REFERENCE.sub(_character, markup))
    parser = etree.XMLParser(
        target=_Target(),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return etree.fromstring(markup, parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        line += text.count("\n", 0, start.start())
        raise FormulaError(
            f"not well-formed MathML: {error.msg} (line {line}, column {column})",
            start.start() if line == 1 else _line_start(text, line),
            text,
        ) from None


def read_trusted(markup: str) -> Element:
    """The element of markup that a converter in process has written.

    Raises:
        FormulaError: it is not well formed.
    """
    if "xmlns" in markup:
        markup = _NAMESPACE.sub("", markup)
    if "&A" in markup or "&I" in markup:
        markup = markup.replace("&ApplyFunction;", "\u2061").replace("&InvisibleTimes;", "\u2062")
    try:
        return ElementTree.XML(markup)
    except ElementTree.ParseError as error:
        raise FormulaError(f"the converter wrote markup that cannot be read: {error}") from None


def _without_prefixes(tag: re.Match[str]) -> str:
    if ":" not in tag[0]:
        return tag[0]
    return _PREFIX.sub(lambda part: part[1] or f"{part[2]}_", tag[0])


def _character(reference: re.Match[str]) -> str:
    number, name = reference.groups()
    if number is not None:
        return html.escape(html.unescape(reference[0]))
    if name in _KEPT:
        return reference[0]
    known = html.entities.html5.get(f"{name};")
    return html.escape(known) if known else f"&amp;{reference[0][1:]}"


def _line_start(text: str, line: int) -> int:
    """Position of a line, counted from 1."""
    position = 0
    for _ in range(line - 1):
        position = text.find("\n", position) + 1
    return position
