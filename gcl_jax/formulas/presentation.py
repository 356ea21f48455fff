"""Presentation MathML -> rows of items: groups of fences found, scripts at what they belong to.

Layout trees and operator trees are both built from these rows. Depth first in the children's order
would recurse; here elements are listed breadth first and worked through from the end, so children
come before their parents.
"""
# ruff: noqa: RUF001 (mathematical signs)

from collections.abc import Callable, Iterable
from xml.etree.ElementTree import Element

from gcl_jax.formulas import symbols
from gcl_jax.formulas.fences import FENCE_SIGNS, fence, grouped
from gcl_jax.formulas.items import Item, Row

_ACCENTS = frozenset(symbols.words("¯ ^ ~ ˙ ¨ ˇ ˘ ´ ` ˚ → ← ↔ ⏞ ⏟ ⏠ ⏡ ⏜ ⏝ ⎴ ⎵ ∘ ⋅ ."))
_LIGATURES = {("′", "′"): "′′", ("′′", "′"): "′′′", (":", "="): ":="}


def read_row(root: Element) -> Row:
    """The row of items of a `math` element, or of any element of Presentation MathML."""
    elements = [root]
    ranges: list[tuple[int, int]] = []
    for element in elements:
        start = len(elements)
        tag = element.tag
        if tag == "semantics":
            elements.extend(element[:1])
        elif tag not in _TOKENS:
            elements.extend(element)
        ranges.append((start, len(elements)))
    rows: list[Row] = [[]] * len(elements)
    for index in range(len(elements) - 1, -1, -1):
        element = elements[index]
        start, end = ranges[index]
        token = _TOKENS.get(element.tag)
        if token is not None:
            rows[index] = token(element)
        else:
            read = _CONSTRUCTS.get(element.tag, _row)
            inner = rows[start:end]
            if element.tag not in _TABLES:
                inner = [_out_of_table(row) for row in inner]
            rows[index] = read(element, inner)
    return _out_of_table(rows[0])


def _out_of_table(row: Row) -> Row:
    """What is in a cell or a row of cells that stands outside a table."""
    while len(row) == 1 and row[0].kind in ("cell", "cells"):
        row = [item for part in row[0].parts or () for item in part]
    return row


def _text(element: Element) -> str:
    return (element.text or "") if not len(element) else "".join(element.itertext())


def _variable(element: Element) -> Row:
    name = symbols.identifier(_text(element))
    if not name:
        return []
    if symbols.is_operator_sign(name) or name in symbols.OPERATOR_NAMES:
        return [Item("mo", name)]
    item = Item("mi", f"V!{name}")
    if len(name) == 1:
        item.upright = element.get("mathvariant") == "normal" or name in symbols.UPRIGHT
    elif symbols.letter_by_letter(name):
        return [Item("mi", f"V!{letter}") for letter in name]
    return [item]


def _number(element: Element) -> Row:
    value = symbols.number(_text(element))
    return [Item("mn", f"N!{value}")] if value else []


def _operator(element: Element) -> Row:
    sign = symbols.operator(_text(element))
    if not sign:
        return []
    if sign in symbols.OPERATOR_NAMES:
        return [Item("mo", sign)]
    if sign in symbols.VARIABLE_SIGNS or sign.replace(" ", "").isalpha():
        # LaTeXML writes the differential d as an operator; NTCIR-12 has it as a variable.
        if len(sign) == 1:
            sign = symbols.identifier(sign)
        item = Item("mi", f"V!{sign}")
        item.upright = sign in symbols.UPRIGHT
        return [item]
    return [Item("mo", sign)]


def _string(element: Element) -> Row:
    value = symbols.clean(_text(element))
    return [Item("mtext", f"T!{value}")] if value else []


def _wildcard(element: Element) -> Row:
    return [Item("qvar", f"?{element.get('name') or symbols.clean(_text(element))}")]


def _error(element: Element) -> Row:
    return [Item("merror", f"E!{symbols.clean(_text(element))}")]


def _nothing(element: Element) -> Row:  # noqa: ARG001
    return []


def _joined(rows: Iterable[Row]) -> Row:
    """The rows as one, with `′′`, `:=` and the `0.` of a decimal fraction each as one sign."""
    joined: Row = []
    for row in rows:
        for item in row:
            if joined and joined[-1].kind == "mo" and joined[-1].scripts is None:
                before = joined[-1]
                if item.kind == "mo":
                    ligature = _LIGATURES.get((before.label, item.label))
                    if ligature is not None:
                        item.label = ligature
                        joined.pop()
                elif before.label == "." and len(joined) > 1 and _goes_on(joined[-2], item):
                    joined.pop()
                    joined[-1].label += "."
            joined.append(item)
    return joined


def _goes_on(before: Item, after: Item) -> bool:
    """Whether a point is a decimal one: `0.\\overline{3}`, `3.\\ldots`, a wildcard for digits."""
    if before.kind != "mn" or before.scripts is not None or "." in before.label:
        return False
    if after.kind == "mn":
        return after.scripts is not None and after.scripts[0][2]
    return after.kind == "qvar" or after.label == "V!…"


def _row(element: Element, rows: list[Row]) -> Row:  # noqa: ARG001
    return grouped(_placed(_joined(rows)))


def _fraction(element: Element, rows: list[Row]) -> Row:
    if len(rows) != 2:
        return _row(element, rows)
    item = Item("mfrac", "O!divide", rows)
    thickness = element.get("linethickness", "")
    if thickness[:1] == "0" and not thickness.strip("0.pxemt% "):
        item.meaning = "O!binomial"
    elif "padding-top" in element.get("style", ""):
        item.meaning = "O!continued-fraction"  # So math-core sets \cfrac.
    return [item]


def _square_root(element: Element, rows: list[Row]) -> Row:
    return [Item("mroot", "O!root", [_row(element, rows)])]


def _root(element: Element, rows: list[Row]) -> Row:
    return [Item("mroot", "O!root", rows)] if len(rows) == 2 else _row(element, rows)


def _enclosed(element: Element, rows: list[Row]) -> Row:
    notation = symbols.clean(element.get("notation", "longdiv"))
    return [Item("menclose", notation or "longdiv", [_row(element, rows)])]


def _scripts(edges: str) -> Callable[[Element, list[Row]], Row]:
    def read(element: Element, rows: list[Row]) -> Row:
        if len(rows) != len(edges) + 1:
            return _row(element, rows)
        if not any(rows[1:]):
            return rows[0]
        item = base(rows[0], edges)
        for edge, row in zip(edges, rows[1:], strict=True):
            attach(item, edge, row)
        return [item]

    return read


def base(row: Row, edges: str) -> Item:
    """The one item that scripts are put on; a row, or an item with such scripts, is wrapped."""
    if len(row) == 1:
        item = row[0]
        own = _OWN_EDGES.get(item.kind, "")
        if item.scripts is None and not own:
            return item
        taken = {*own, *(edge for edge, _, _ in item.scripts or ())}
        if not any(side in taken for edge in edges for side in _sides(item, edge)):
            return item
    if not row:
        return Item("space", "W!")
    return Item("group", "M!1x1", [row])


def attach(item: Item, edge: str, row: Row) -> None:
    """Puts a script on an item, on an operator under or over it."""
    if not row:
        return
    accent = edge in "ou" and len(row) == 1 and row[0].scripts is None and row[0].label in _ACCENTS
    if item.scripts is None:
        item.scripts = []
    item.scripts.append((_sides(item, edge)[0], row, accent))


def _sides(item: Item, edge: str) -> str:
    if item.kind == "mo":
        return {"a": "o", "b": "u"}.get(edge, edge)
    return edge


def _multiscripts(element: Element, rows: list[Row]) -> Row:
    tags = [child.tag for child in element]
    split = tags.index("mprescripts") if "mprescripts" in tags else len(tags)
    if not rows:
        return []
    if not any(rows[1:]):
        return rows[0]
    item = base(rows[0], "cdba")
    for edges, scripts in (("ba", rows[1:split]), ("dc", rows[split + 1 :])):
        for place, edge in enumerate(edges):
            attach(item, edge, _joined(scripts[place::2]))
    return [item]


def _cell(element: Element, rows: list[Row]) -> Row:
    # A cell is one part, and an empty cell is still a cell.
    item = Item("cell", "", [_row(element, rows)])
    return [item]


def _table_row(element: Element, rows: list[Row]) -> Row:  # noqa: ARG001
    cells: list[Row] = []
    for row in rows:
        if len(row) == 1 and row[0].kind == "cell" and row[0].parts is not None:
            cells.append(row[0].parts[0])
        else:
            cells.append(_out_of_table(row))
    return [Item("cells", "", cells)]


def _table(element: Element, rows: list[Row]) -> Row:  # noqa: ARG001
    lines = [
        row[0].parts or [] if len(row) == 1 and row[0].kind == "cells" else [_out_of_table(row)]
        for row in rows
        if row
    ]
    while lines and not any(lines[-1]):
        lines.pop()
    width = len(lines[0]) if lines else 0
    item = Item("mtable", f"M!{len(lines)}x{width}", [cell for line in lines for cell in line])
    item.shape = [len(line) for line in lines]
    return [item]


def _fenced(element: Element, rows: list[Row]) -> Row:
    separators = element.get("separators", ",").replace(" ", "")
    row: Row = []
    for place, part in enumerate(rows):
        if place and separators:
            sign = symbols.operator(separators[min(place, len(separators)) - 1])
            row.append(Item("mo", sign))
        row.extend(part)
    ends = (symbols.operator(element.get("open", "(")), symbols.operator(element.get("close", ")")))
    row = _placed(row)
    if ends[0] in FENCE_SIGNS and ends[1] in FENCE_SIGNS:
        return [fence(*ends, row)]
    before, after = ([Item("mo", sign)] if sign else [] for sign in ends)
    return [*before, *row, *after]


def _placed(row: Row) -> Row:
    """Scripts without a base, `{}^{2}x`, put on the item before them, or before the next one."""
    if not any(item.kind == "space" for item in row):
        return row
    placed: Row = []
    floating: Item | None = None
    for item in row:
        if floating is not None:
            if item.kind in ("mo", "space"):
                placed.append(floating)
            else:
                for edge, script, _ in floating.scripts or ():
                    side = {"a": "c", "b": "d"}[edge]
                    item = base([item], side)
                    attach(item, side, script)
            floating = None
        scripts = item.scripts
        if item.kind == "space" and scripts and all(edge in "ab" for edge, _, _ in scripts):
            if placed and placed[-1].kind not in ("mo", "space"):
                for edge, script, _ in scripts:
                    target = base(placed[-1:], edge)
                    attach(target, edge, script)
                    placed[-1] = target
            else:
                floating = item
        else:
            placed.append(item)
    if floating is not None:
        placed.append(floating)
    return placed


_TABLES = frozenset(("mtable", "mtr", "mlabeledtr"))

_OWN_EDGES = {"mfrac": "ou", "mroot": "c"}
"""Edges of a construct's own parts, where no script can stand."""

_TOKENS = {
    "mi": _variable,
    "mn": _number,
    "mo": _operator,
    "mtext": _string,
    "ms": _string,
    "qvar": _wildcard,
    "merror": _error,
    "mspace": _nothing,
    "mphantom": _nothing,
    "mprescripts": _nothing,
    "none": _nothing,
    "annotation": _nothing,
    "annotation-xml": _nothing,
}
_CONSTRUCTS = {
    "mfrac": _fraction,
    "msqrt": _square_root,
    "mroot": _root,
    "menclose": _enclosed,
    "mfenced": _fenced,
    "msub": _scripts("b"),
    "msup": _scripts("a"),
    "msubsup": _scripts("ba"),
    "munder": _scripts("u"),
    "mover": _scripts("o"),
    "munderover": _scripts("uo"),
    "mmultiscripts": _multiscripts,
    "mtd": _cell,
    "mtr": _table_row,
    "mlabeledtr": _table_row,
    "mtable": _table,
}
