"""Rows of items -> symbol layout tree, as in Tangent (Zanibbi et al., 2016; TangentS, 2017)."""

from gcl_jax.formulas.errors import FormulaError
from gcl_jax.formulas.items import Row
from gcl_jax.formulas.trees import Tree

_EDGES = {"mfrac": "ou", "mroot": "wc", "menclose": "w", "group": "w"}
_ORDER = {edge: place for place, edge in enumerate("cdwouab")}


def layout_tree(row: Row) -> Tree:
    """The symbol layout tree of a row.

    A sign's right neighbour is its child `n`. The first cell of a matrix is its child `w`; each
    further cell hangs at `e` from the first sign of the one before.

    Raises:
        FormulaError: no sign in the row.
    """
    if not row:
        raise FormulaError("nothing that could be a node")
    labels: list[str] = []
    parents: list[int] = []
    edges: list[str] = []
    # (rows, which of them, its place in the row, parent, edge): cells where there are several.
    stack: list[tuple[list[Row], int, int, int, str]] = [([row], 0, 0, -1, "")]
    while stack:
        cells, which, place, parent, edge = stack.pop()
        cell = cells[which]
        if place == 0 and which + 1 < len(cells) and (cells[which + 1] or which + 2 < len(cells)):
            stack.append((cells, which + 1, 0, len(labels), "e"))
        if not cell or (place == 0 and cell[0].label == "&comma;" and len(cells) > 1):
            labels.append("W!")
            parents.append(parent)
            edges.append(edge)
            if not cell:
                continue
            parent, edge = len(labels) - 1, "n"
        for index in range(place, len(cell)):
            item = cell[index]
            node = len(labels)
            labels.append(item.label)
            parents.append(parent)
            edges.append(edge)
            parent, edge = node, "n"
            parts, scripts = item.parts, item.scripts
            if parts is None and scripts is None:
                continue
            if index + 1 < len(cell):
                stack.append((cells, which, index + 1, node, "n"))
            below: list[tuple[int, list[Row], str]] = []
            if scripts is not None:
                below = [(_ORDER[side], [script], side) for side, script, _ in scripts]
            if parts:
                sides = _EDGES.get(item.kind)
                if sides is None:
                    below.append((_ORDER["w"], parts, "w"))
                else:
                    below += [
                        (_ORDER[side], [part], side)
                        for side, part in zip(sides, parts, strict=False)
                    ]
            below.sort(key=lambda branch: -branch[0])
            stack.extend((rows, 0, 0, node, side) for _, rows, side in below)
            break
    return Tree("slt", tuple(labels), tuple(parents), tuple(edges))
