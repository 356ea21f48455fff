"""MathML that a page may show, built anew from what was read of a formula.

Nothing is copied: an element is written only if it is one of MathML's and an attribute only if its
value has the form that is expected, so that no formula of a collection brings markup of its own,
a style, a link or a script into the page.
"""

import html
import re
from xml.etree.ElementTree import Element

MAX_MARKUP = 200_000
"""Characters of a formula's MathML, at most."""

_DEEPEST = 400
_ELEMENTS = re.compile(
    "m(?:i|n|o|text|space|s|row|frac|sqrt|root|style|error|padded|phantom|sub|sup|subsup|under|over"
    "|underover|multiscripts|prescripts|table|tr|labeledtr|td|fenced|enclose)|none"
)
_BOOLEAN = re.compile("true|false")
_LENGTH = re.compile(r"-?\d{0,3}(?:\.\d{1,6})?(?:em|ex|px|pt|%)?")
_ATTRIBUTES = {
    "accent": _BOOLEAN,
    "accentunder": _BOOLEAN,
    "displaystyle": _BOOLEAN,
    "form": re.compile("prefix|infix|postfix"),
    "largeop": _BOOLEAN,
    "linethickness": _LENGTH,
    "lspace": _LENGTH,
    "mathvariant": re.compile("normal"),
    "maxsize": _LENGTH,
    "minsize": _LENGTH,
    "movablelimits": _BOOLEAN,
    "rspace": _LENGTH,
    "scriptlevel": re.compile(r"[+-]?\d"),
    "stretchy": _BOOLEAN,
    "symmetric": _BOOLEAN,
    "width": _LENGTH,
}
# The converter aligns columns by styles, which the page's policy forbids: the page has classes.
_ALIGNED = re.compile("text-align: *(left|right)")
_ENCLOSED = {"box": "boxed", "updiagonalstrike": "struck"}


def rendered(math: Element) -> str:
    """A `math` element as MathML for a page, or "" for one that is too large or too deep.

    Args:
        math: of `gcl_jax.formulas.latex.latex_markup` or `markup.read_mathml`.
    """
    parts: list[str] = []
    if not _write(math, parts, 0) or sum(map(len, parts)) > MAX_MARKUP:
        return ""
    return f'<math display="block">{"".join(parts)}</math>'


def _write(parent: Element, parts: list[str], depth: int) -> bool:
    """Writes what is inside an element; False where it lies too deep."""
    if depth > _DEEPEST:
        return False
    for element in parent:
        if element.tag == "semantics":  # what is shown, without its annotations
            shown = Element("mrow")
            shown.extend(list(element)[:1])
            if not _write(shown, parts, depth + 1):
                return False
        elif element.tag == "qvar":  # a wildcard
            name = element.text or element.get("name") or ""
            parts.append(f'<mi class="wildcard">?{html.escape(name.strip())}</mi>')
        elif _ELEMENTS.fullmatch(element.tag):
            text = html.escape(element.text or "")
            parts.append(
                f"<{element.tag}{_attributes(element)}>{text.strip() if len(element) else text}"
            )
            if not _write(element, parts, depth + 1):
                return False
            parts.append(f"</{element.tag}>")
    return True


def _attributes(element: Element) -> str:
    kept = [
        f' {name}="{value}"'
        for name, value in element.attrib.items()
        if name in _ATTRIBUTES and _ATTRIBUTES[name].fullmatch(value)
    ]
    classes = _ENCLOSED.get(element.get("notation", ""))
    if aligned := _ALIGNED.match(element.get("style", "")):
        classes = aligned[1]
    return "".join(kept) + (f' class="{classes}"' if classes else "")
