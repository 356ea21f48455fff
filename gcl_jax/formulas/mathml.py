"""The parts of a `math` element: what is presentation, what is content, how they refer."""

from collections.abc import Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from gcl_jax.formulas.errors import FormulaError
from gcl_jax.formulas.markup import read_mathml
from gcl_jax.formulas.symbols import words

_CONTENT = frozenset(
    words(
        "apply bind ci cn csymbol cerror cs cbytes share vector matrix set list interval "
        "piecewise lambda reln declare true false pi infinity emptyset exponentiale "
        "imaginaryi eulergamma notanumber integers reals rationals naturalnumbers "
        "complexes primes"
    )
)
_TRANSPARENT = frozenset(words("math semantics mstyle mrow mpadded annotation-xml"))


class Markup(NamedTuple):
    """The parts of parallel markup.

    Attributes:
        presentation: element of Presentation MathML; None where there is none.
        content: element of Content MathML; None where there is none.
        presented: presentation elements by id.
    """

    presentation: Element | None
    content: Element | None
    presented: Mapping[str, Element]


def parallel_markup(text: str) -> Markup:
    """The parts of a MathML formula: NTCIR-12 and LaTeXML bring both kinds.

    Raises:
        FormulaError: see `markup.read_mathml`; or nothing in the element.
    """
    math = read_mathml(text)
    presentation = content = None
    for annotation in math.iter("annotation-xml"):
        encoding = annotation.get("encoding", "").lower()
        if content is None and "content" in encoding:
            content = annotation
        elif presentation is None and "presentation" in encoding:
            presentation = annotation
    if content is None and _is_content(math):
        content = math
    elif presentation is None:
        presentation = math
    if presentation is None and content is None:
        raise FormulaError("an empty math element", 0, text)
    presented: dict[str, Element] = {}
    if content is not None and presentation is not None:
        presented = {
            name: element for element in presentation.iter() if (name := element.get("id"))
        }
    return Markup(presentation, content, presented)


def _is_content(element: Element) -> bool:
    """Whether what an element holds is Content MathML."""
    while element.tag in _TRANSPARENT:
        inner = next((child for child in element if child.tag != "annotation"), None)
        if inner is None:
            return False
        if element.tag in ("mstyle", "mrow", "mpadded"):
            return False
        element = inner
    return element.tag in _CONTENT
