"""What the constructs of a row mean in an operator tree: fractions, fences, matrices."""

from typing import TypeAlias

from gcl_jax.formulas.expressions import Expression
from gcl_jax.formulas.fences import fences
from gcl_jax.formulas.items import Item
from gcl_jax.formulas.operators import CONSTANTS, FENCES

Values: TypeAlias = dict[int, Expression]
"""Expressions of rows that have been read, by the identity of the row."""

_CONSTRUCTS = {
    "cases": "O!cases",
    "condition": "O!conditional-set",
    "derivative": "O!derivative",
    "evaluated": "O!evaluated-at",
}


def construct(item: Item, values: Values) -> Expression:
    """An item that is no sign, without its scripts."""
    kind = item.kind
    if kind == "fenced":
        return _fenced(item, values)
    parts = [values[id(part)] for part in item.parts or ()]
    if kind == "mfrac":
        return Expression(item.meaning or "O!divide", parts)
    if kind == "mroot":
        return Expression("O!root", parts if len(parts) > 1 else [*parts, Expression("N!2")])
    if kind == "mtable":
        return _matrix(item, parts)
    if kind == "group":
        return parts[0]
    if kind == "menclose":
        return Expression(f"O!{item.label}", parts)
    if kind == "flat":
        return Expression(item.meaning, parts)
    label = _CONSTRUCTS.get(kind)
    return Expression(label, parts) if label else Expression(item.label)


def _fenced(item: Item, values: Values) -> Expression:
    """What a pair of fences means."""
    open_, close = fences(item)
    cells = item.parts or []
    if item.shape is not None:
        matrix = _matrix(item, [values[id(cell)] for cell in cells])
        return Expression("F!det", [matrix]) if open_ == close == "|" else matrix
    if len(cells) == 1 and open_ != "{":
        return _enclosed(open_, close, values[id(cells[0])])
    parts = [values[id(cell)] for cell in cells if cell]
    if open_ == "{":
        return Expression(f"M!S-{len(parts)}", parts)
    if len(parts) == 2:
        closed = {"&lsqb;": "C", "&rsqb;": "C"}
        sides = f"{closed.get(open_, 'O')}-{closed.get(close, 'O')}"
        return Expression(f"O!interval({sides})", parts)
    return Expression(f"M!V-{len(parts)}", parts)


def _enclosed(open_: str, close: str, value: Expression) -> Expression:
    """One expression between fences."""
    if open_ == "(" and close == ")":
        return value
    if function := FENCES.get(open_ + close):
        return Expression(function, [value])
    return Expression(f"M!D-{open_}{close}", [value])


def _matrix(item: Item, cells: list[Expression]) -> Expression:
    shape = item.shape or []
    rows, start = [], 0
    for length in shape:
        rows.append(Expression("M!R", cells[start : start + length]))
        start += length
    return Expression(f"M!M-{len(shape)}x{max(shape, default=0)}", rows)


def variable(item: Item) -> Expression:
    """An identifier, or the constant that it names."""
    name = item.label[2:]
    constant = CONSTANTS.get(name)
    if constant is not None:
        return Expression(constant)
    return Expression(f"V!normal-{name}" if item.upright else item.label)
