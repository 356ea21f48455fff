"""Content MathML -> operator tree, with the labels of the Tangent family (TangentS, 2017)."""
# ruff: noqa: RUF001 (mathematical signs)

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from gcl_jax.formulas.errors import FormulaError
from gcl_jax.formulas.expressions import Expression, compound_label, to_tree
from gcl_jax.formulas.operators import content_label
from gcl_jax.formulas.precedence import operator_expression
from gcl_jax.formulas.presentation import read_row
from gcl_jax.formulas.symbols import clean, content_name, is_italic, number, operator, words
from gcl_jax.formulas.trees import Tree

_FUNCTIONS = frozenset(
    words(
        "sin cos tan cot sec csc sinh cosh tanh coth sech csch arccos arccot arccsc "
        "arcsec arcsin arctan arccosh arccoth arccsch arcsech arcsinh arctanh abs exp log "
        "ln min max ceiling floor arg gcd lcm real imaginary"
    )
)
_UNORDERED = frozenset(words("approx eq neq equivalent union intersect plus times and or"))
_CONSTANTS = {
    "infinity": "C!infinity",
    "emptyset": "C!emptyset",
    "pi": "V!π",
    "exponentiale": "V!e",
    "imaginaryi": "V!i",
    "eulergamma": "V!γ",
    "true": "C!true",
    "false": "C!false",
}
_OPERATORS = {"power": "O!SUP", "determinant": "F!det"}
_QUALIFIERS = frozenset(["degree", "bvar", "lowlimit", "uplimit"])
_COLLECTIONS = {"vector": "M!V-", "list": "M!L-", "set": "M!S-"}
_WRAPPERS = frozenset(words("math semantics annotation-xml mrow condition declare lambda fn"))
_SYMBOLS = {
    ("latexml", "absent"): "W!",
    ("latexml", "for-all"): "O!forall",
    ("latexml", "hyperbolic-cotangent"): "F!coth",
    ("latexml", "modulo"): "O!rem",
    ("latexml", "planck-constant-over-2-pi"): "C!hbar",
    ("latexml", "square-root"): "O!root",
    ("ambiguous", "formulae-sequence"): "O!form-seq",
    ("ambiguous", "missing-subexpression"): "W!",
    ("ambiguous", "subscript"): "O!SUB",
    ("ambiguous", "superscript"): "O!SUP",
}
_SEPARATORS = {"e-notation": "e", "complex-cartesian": "+i", "complex-polar": "∠"}
"""What stands between the parts of a number, by its type; else it is a fraction."""

_SHARE_CHAIN = 16
_SHARE = "share "  # No label: stands for a part that is found when its parent is known.


def content_tree(root: Element, presented: Mapping[str, Element] | None = None) -> Tree:
    """The operator tree of a Content MathML element.

    Args:
        root: `math`, `annotation-xml` or any element of Content MathML.
        presented: presentation elements by id, of parallel markup. Symbols of private dictionaries
            (Wikidata, DLMF) mean nothing elsewhere: they are read as what they are presented by.

    Raises:
        FormulaError: nothing in it, or references that multiply without end.
    """
    reader = _Reader(root, presented or {})
    # Breadth first: parents before children, the children of each side by side.
    elements = [root]
    ranges: list[tuple[int, int]] = []
    for element in elements:
        start = len(elements)
        if element.tag not in _TOKENS:
            elements.extend(_operands(element))
        ranges.append((start, len(elements)))
    built: list[Expression] = [_EMPTY] * len(elements)
    shared: dict[str, Expression] = {}
    for index in range(len(elements) - 1, -1, -1):
        element, (start, end) = elements[index], ranges[index]
        built[index] = expression = reader.expression(element, built[start:end])
        if name := element.get("id"):
            shared[name] = expression
    if built[0] is _EMPTY:
        raise FormulaError("Content MathML without an expression")
    return to_tree(_resolve(built[0], shared))


_EMPTY = Expression("W!")
_TOKENS = frozenset(words("ci cn mtext csymbol qvar ms share"))


def _operands(element: Element) -> list[Element]:
    if element.tag == "semantics":
        return list(element)[:1]
    return list(element)


class _Reader:
    """Reads elements whose operands have been read.

    Attributes:
        presented: presentation elements by id.
        modern: whether plain letters are upright ones, see `symbols.content_name`.
    """

    __slots__ = ("_commas", "_parents", "_read", "modern", "presented")

    def __init__(self, root: Element, presented: Mapping[str, Element]) -> None:
        self.presented = presented
        self.modern = any(is_italic(element.text or "") for element in root.iter("ci"))
        # By identity, because any number of elements may refer to one.
        self._read: dict[int, Expression] = {}
        self._commas: dict[int, bool] = {}
        self._parents: dict[int, Element] = {}

    def expression(self, element: Element, children: list[Expression]) -> Expression:
        """The expression of an element."""
        tag = element.tag
        if tag == "apply":
            return self.apply(element, children)
        if tag in _TOKENS:
            return self.token(element)
        if tag in _FUNCTIONS:
            return Expression(f"F!{tag}", children)
        if tag in _UNORDERED:
            return Expression(f"U!{tag}", children)
        if tag in _CONSTANTS:
            return Expression(_CONSTANTS[tag])
        if tag in _QUALIFIERS:
            return Expression(f"$!{tag}", children)
        if tag in _COLLECTIONS:
            return Expression(f"{_COLLECTIONS[tag]}{len(children)}", children)
        if tag == "matrixrow":
            return Expression("M!R", children)
        if tag == "matrix":
            return _matrix(children)
        if tag == "interval":
            sides = element.get("closure", "closed").strip().lower().split("-")
            left, right = (side[:1].upper() or "C" for side in (sides[0], sides[-1]))
            return Expression(f"O!interval({left}-{right})", children)
        if tag == "cerror":
            return Expression("E!", _joined_letters(children))
        if tag in _WRAPPERS:
            if len(children) == 1:
                return children[0]
            return Expression("O!fragments", children) if children else _EMPTY
        return Expression(_OPERATORS.get(tag, f"O!{tag}"), children)

    def token(self, element: Element) -> Expression:
        """The leaf of a token element, or what is presented inside it."""
        tag = element.tag
        if tag == "share":
            return Expression(_SHARE + element.get("href", ""))
        text = "".join(element.itertext())
        if tag == "qvar":
            return Expression("?" + (element.get("name") or clean(text)))
        if tag == "cn":
            parts = [part for part in (number(element.text or ""), *map(_tail, element)) if part]
            between = _SEPARATORS.get(element.get("type", "").strip(), "/")
            return Expression("N!" + between.join(parts) if parts else "W!")
        if len(element) and tag in ("ci", "csymbol"):
            return operator_expression(read_row(element))
        if tag == "csymbol":
            return self.symbol(element, text)
        if tag == "ci":
            name = content_name(text, self.upright(element))
            return Expression(f"V!{name}" if name else "W!")
        name = clean(text)
        return Expression(f"T!{name}" if name else "W!")

    def upright(self, element: Element) -> bool:
        """Whether a plain letter is one set upright."""
        token = self.presented.get(element.get("xref", ""))
        if token is not None and token.tag == "mi":
            return token.get("mathvariant") == "normal"
        return self.modern

    def symbol(self, element: Element, text: str) -> Expression:
        """The leaf of a symbol of a content dictionary."""
        dictionary, name = element.get("cd", ""), clean(text)
        lower = name.lower()
        if known := _SYMBOLS.get((dictionary, lower)):
            return Expression(known)
        if _is_private(dictionary, lower):
            token = self.presented.get(element.get("xref", ""))
            if token is None:
                return Expression(f"-!{lower}")
            return self.presented_symbol(token)
        if dictionary == "unknown":
            return Expression(f"-!{lower}")
        if lower.startswith("delimited-"):
            return Expression(f"M!D-{lower[10:]}")
        return Expression(f"O!{lower}" if lower else "W!")

    def presented_symbol(self, token: Element) -> Expression:
        """What an element of the presentation stands for, read once."""
        if (read := self._read.get(id(token))) is None:
            if token.tag in ("mi", "mn", "mo"):
                read = Expression(_token_label(token))
            else:
                read = operator_expression(read_row(token))
            self._read[id(token)] = read
        return read

    def is_inside(self, part: Element | None, whole: Element) -> bool:
        """Whether an element of the presentation is another one or within it."""
        if not self._parents:
            waiting = list(self.presented.values())
            while waiting:
                parent = waiting.pop()
                for child in parent:
                    if id(child) not in self._parents:
                        self._parents[id(child)] = parent
                        waiting.append(child)
        while part is not None and part is not whole:
            part = self._parents.get(id(part))
        return part is not None

    def has_comma(self, element: Element) -> bool:
        """Whether an element of the presentation holds a comma."""
        if (found := self._commas.get(id(element))) is None:
            found = any(operator(part.text or "") == "&comma;" for part in element.iter("mo"))
            self._commas[id(element)] = found
        return found

    def apply(self, element: Element, children: list[Expression]) -> Expression:
        """An operator with its operands."""
        if not children:
            return _EMPTY
        head, operands = children[0], children[1:]
        target = self.presented.get(element.get("xref", ""))
        if target is not None and operands and not head.children:
            script = self.script(element[0], target, head, operands)
            if script is not None:
                return script
        label = head.label
        if label[:2] == "V!":
            label = f"F!{label[2:]}"
        if head.children or label.startswith(_SHARE):
            return Expression(compound_label(head), [head, *operands])
        if label == "O!root":
            degrees = [part for part in operands if part.label == "$!degree"]
            operands = [part for part in operands if part.label != "$!degree"]
            degree = degrees[0].children if degrees else []
            operands += degree or [Expression("N!2")]
        if label == "O!diff" and len(operands) == 1 and operands[0].label[:2] != "$!":
            label = "O!differential-d"
        return Expression(label, operands)

    def script(
        self, element: Element, target: Element, head: Expression, operands: list[Expression]
    ) -> Expression | None:
        """An application that is presented as a script, such as `f_c` for f applied to c."""
        while target.tag in ("mpadded", "mstyle", "mrow") and len(target) == 1:
            target = target[0]
        if target.tag not in ("msub", "msup", "msubsup", "munderover", "munder"):
            return None
        first = self.presented.get(element.get("xref", ""))
        private = element.tag == "csymbol" and _is_private(
            element.get("cd", ""), element.text or ""
        )
        inside = self.is_inside(first, target[0])
        if not private and not (inside and element.tag != "csymbol"):
            return None
        if target.tag == "msup" and len(operands) == 1:
            if self.is_inside(first, target[1]):
                return Expression("O!SUP", [operands[0], head])
            return Expression("O!SUP", [head, operands[0]])
        if len(operands) == 3 and head.label in ("O!sum", "O!product"):
            operands = [Expression("U!eq", operands[:2]), operands[2]]
        if target.tag in ("msub", "munder") and len(operands) > 1:
            label = f"M!L-{len(operands)}" if self.has_comma(target[1]) else "U!times"
            operands = [Expression(label, operands)]
        for label, operand in zip(("O!SUB", "O!SUP"), operands, strict=False):
            head = Expression(label, [head, operand])
        return head


def _is_private(dictionary: str, name: str) -> bool:
    """Whether a dictionary's symbols are not LaTeXML's names of meanings."""
    wikidata = name[:1] in "qQ" and name[1:].isdecimal()
    return wikidata or dictionary not in ("latexml", "ambiguous", "unknown")


def _tail(separator: Element) -> str:
    return clean(separator.tail or "") if separator.tag == "sep" else ""


def _token_label(token: Element) -> str:
    """Label of a presentation token that stands for a symbol of a private dictionary."""
    text = "".join(token.itertext())
    if token.tag == "mn":
        return f"N!{number(text)}"
    if token.tag == "mo" and not operator(text).isalpha():
        return content_label(operator(text))
    name = content_name(text, token.get("mathvariant") == "normal")
    return f"V!{name}" if name else "W!"


def _matrix(rows: list[Expression]) -> Expression:
    columns = max((len(row.children) for row in rows), default=0)
    return Expression(f"M!M-{len(rows)}x{columns}", rows)


def _joined_letters(parts: list[Expression]) -> list[Expression]:
    """Letters that no grammar could place, joined to a text as in TangentS."""
    joined: list[Expression] = []
    for part in parts:
        if joined and part.label[:2] == "-!" and joined[-1].label[:2] in ("-!", "T!"):
            joined[-1] = Expression(f"T!{joined[-1].label[2:]}{part.label[2:]}")
        else:
            joined.append(part)
    return joined


def _resolve(root: Expression, shared: dict[str, Expression]) -> Expression:
    """An expression with the parts that `share` elements refer to in their place.

    LaTeXML repeats the right side of a relation as the left one of the next: `a = b = c`. Old
    versions give no name: then it is the last operand of the sibling before.
    """
    root = _referred(root, shared, None)
    seen: set[int] = set()
    waiting = [Expression("", [root])]
    for expression in waiting:
        before: Expression | None = None
        for child in expression.children:
            if id(child) not in seen:
                seen.add(id(child))
                child.children = [_referred(part, shared, before) for part in child.children]
                waiting.append(child)
            before = child
    return root


def _referred(
    part: Expression, shared: dict[str, Expression], before: Expression | None
) -> Expression:
    """The expression itself, or the one that it refers to, directly or by others."""
    for _ in range(_SHARE_CHAIN):
        if not part.label.startswith(_SHARE):
            return part
        found = shared.get(part.label[len(_SHARE) + 1 :])
        if found is None and before is not None and before.children:
            found = before.children[-1]
        if found is None:
            break
        part = found
    return Expression("W!")
