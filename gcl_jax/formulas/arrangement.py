"""Rows as an operator tree needs them: constructs that a layout tree leaves flat made one item.

Floor, ceiling and angle brackets, sets given by a condition, derivatives, case distinctions.
"""

from gcl_jax.formulas.items import Item, Row
from gcl_jax.formulas.operators import FENCES, FLAT_FENCES

_CLOSING = frozenset(FLAT_FENCES.values())
_SPECIAL = frozenset([*FLAT_FENCES, *_CLOSING, "{"])


def arranged(row: Row) -> Row:
    """The row with constructs made items of kinds `flat`, `condition`, `derivative`, `cases`.

    And `evaluated`. Of `flat`, `meaning` is the label and the one part what is inside; the parts
    of `condition` are both sides, those of `derivative` what is derived, the variable and perhaps
    the degree.
    """
    if not any(
        (item.kind == "mo" and item.label in _SPECIAL)
        or item.kind in ("mfrac", "group")
        or (item.kind == "fenced" and item.label[:3] == "M!{")
        for item in row
    ):
        return row
    done: Row = []
    opened: list[int] = []  # Places in `done` of flat fences that wait for their other half.
    for item in row:
        kind, label = item.kind, item.label
        if kind == "mfrac":
            item = _derivative(item) or item
        elif kind == "group":
            item = _evaluated(item) or item
        elif kind == "fenced" and label[:3] == "M!{" and item.shape is None:
            item = _condition(item) or item
        elif kind == "mtable" and done and done[-1].kind == "mo" and done[-1].label == "{":
            cases = Item("cases", label, [part for part in item.parts or () if part])
            cases.scripts = item.scripts
            done[-1] = cases
            continue
        elif kind == "mo" and label in FLAT_FENCES and item.scripts is None:
            opened.append(len(done))
        elif kind == "mo" and label in _CLOSING and opened:
            place = opened.pop()
            open_ = done[place].label
            flat = Item("flat", label, [done[place + 1 :]])
            flat.meaning = FENCES.get(open_ + label, f"M!D-{open_}{label}")
            flat.scripts = item.scripts
            del done[place:]
            item = flat
        done.append(item)
    return done


def _evaluated(item: Item) -> Item | None:
    """An expression between limits, `\\left.x\\right|_0^1`: what is before the bar, the limits."""
    (row,) = item.parts or [[]]
    if len(row) < 2 or row[-1].label != "|" or row[-1].scripts is not None:
        return None
    scripts = [script for _, script, _ in item.scripts or ()]
    return Item("evaluated", item.label, [row[:-1], *scripts])


def _condition(item: Item) -> Item | None:
    """A set given by a condition, `{x | x > 0}`."""
    row = [inner for cell in item.parts or () for inner in cell]
    for place, sign in enumerate(row[1:-1], 1):
        if sign.kind == "mo" and sign.label in "|:" and sign.scripts is None:
            condition = Item("condition", item.label, [row[:place], row[place + 1 :]])
            condition.scripts = item.scripts
            return condition
    return None


def _derivative(item: Item) -> Item | None:
    """A derivative, written as a fraction with upright d: `\\frac{\\mathrm{d}x}{\\mathrm{d}t}`."""
    above, below = (_ungrouped(part) for part in item.parts or ())
    if len(above) < 2 or len(below) < 2 or not (_is_d(above[0]) and _is_d(below[0])):
        return None
    degree = [script for _, script, _ in above[0].scripts or ()]
    variable = below[1:]
    if len(variable) == 1 and variable[0].scripts and degree:
        # The degree stands at the variable too.
        plain = Item(variable[0].kind, variable[0].label, variable[0].parts)
        plain.scripts = variable[0].scripts[:-1] or None
        plain.upright = variable[0].upright
        variable = [plain]
    derivative = Item("derivative", item.label, [above[1:], variable, *degree])
    derivative.scripts = item.scripts
    return derivative


def _ungrouped(row: Row) -> Row:
    """A row without the group of `{\\mathrm{d}z}^{2}`, its script on the last item."""
    if len(row) != 1 or row[0].kind != "group" or not row[0].parts or not row[0].parts[0]:
        return row
    *items, last = row[0].parts[0]
    copy = Item(last.kind, last.label, last.parts)
    copy.shape, copy.meaning, copy.upright = last.shape, last.meaning, last.upright
    copy.scripts = [*(last.scripts or ()), *(row[0].scripts or ())]
    return [*items, copy]


def _is_d(item: Item) -> bool:
    return item.label == "V!d" and item.upright
