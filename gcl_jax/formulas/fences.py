"""Matching fences in a row: each pair and what is between becomes one item."""

from gcl_jax.formulas.items import Item, Row

OPENING = {"(": ")", "&lsqb;": "&rsqb;", "{": "}"}
CLOSING = {close: open_ for open_, close in OPENING.items()}
BARS = frozenset("|∥")
FENCE_SIGNS = frozenset([*OPENING, *CLOSING, *BARS])
"""Signs that are fences in a layout tree too."""


def grouped(row: Row) -> Row:
    """The row with each pair of matching fences and what is between them made one item."""
    if not any(item.label in FENCE_SIGNS and item.kind == "mo" for item in row):
        return row
    done: Row = []
    opened: list[int] = []  # Places in `done` of fences that wait for their other half.
    for item in row:
        label = item.label
        if item.kind == "mo" and label in FENCE_SIGNS:
            place = _partner(done, opened, label)
            if place is not None:
                while opened and opened[-1] >= place:
                    opened.pop()
                group = fence(done[place].label, label, done[place + 1 :])
                group.scripts = item.scripts
                if group.scripts:
                    group.scripts = [
                        ({"o": "a", "u": "b"}.get(edge, edge), script, accent)
                        for edge, script, accent in group.scripts
                    ]
                del done[place:]
                done.append(group)
                continue
            if label not in CLOSING and item.scripts is None:
                opened.append(len(done))
        done.append(item)
    return done


def _partner(done: Row, opened: list[int], label: str) -> int | None:
    """Place of the opening fence that `label` closes, None where it opens or stands alone."""
    if not opened:
        return None
    if label in BARS:
        # A bar closes the last open bar if something stands between them that can end there.
        for place in reversed(opened):
            if done[place].label == label:
                return place if place < len(done) - 1 and done[-1].kind != "mo" else None
            return None
        return None
    if label not in CLOSING:
        return None
    wanted = CLOSING[label]
    for place in reversed(opened):
        if done[place].label == wanted:
            return place
        if done[place].label not in BARS:
            break
    place = opened[-1]
    mixed = {done[place].label, label}
    if mixed in ({"(", "&rsqb;"}, {"&lsqb;", ")"}):
        commas = sum(item.label == "&comma;" for item in done[place + 1 :])
        return place if commas == 1 else None
    return None


def fence(open_: str, close: str, row: Row) -> Item:
    """The item of a fenced row, its cells divided by commas; a table keeps its own cells."""
    if len(row) == 1 and row[0].kind == "mtable" and row[0].scripts is None:
        table = row[0]
        item = Item("fenced", f"M!{open_}{close}{table.label[2:]}", table.parts)
        item.shape = table.shape
        return item
    cells: list[Row] = [[]]
    for item in row:
        cells[-1].append(item)
        if item.label == "&comma;" and item.kind == "mo":
            cells.append([])
    return Item("fenced", f"M!{open_}{close}1x{len(cells)}", cells)


def fences(item: Item) -> tuple[str, str]:
    """Opening and closing fence of a fenced item."""
    label = item.label[2:]
    for open_ in FENCE_SIGNS:
        if label.startswith(open_):
            for close in FENCE_SIGNS:
                if label.startswith(close, len(open_)):
                    return open_, close
    return "", ""
