"""Rows of items: what layout trees and operator trees are both built from."""

from typing import TypeAlias


class Item:
    """A sign, or a construct with rows inside, and its scripts.

    Attributes:
        kind: `mi`, `mn`, `mo`, `mtext`, `mfrac`, `mroot`, `mtable`, `menclose`, `merror`, `qvar`,
            `fenced`, `group` (a row that carries scripts), `space`.
        label: of the node in a layout tree.
        parts: rows inside: over and under; within and pre-above; the cells.
        scripts: (edge of the layout tree, row, whether it is an accent), the innermost first.
        shape: cells in each row of a table.
        meaning: label in the operator tree, where the kind does not tell.
        upright: a letter set in roman.
    """

    __slots__ = ("kind", "label", "meaning", "parts", "scripts", "shape", "upright")

    def __init__(self, kind: str, label: str, parts: "list[Row] | None" = None) -> None:
        self.kind = kind
        self.label = label
        self.parts = parts
        self.scripts: list[tuple[str, Row, bool]] | None = None
        self.shape: list[int] | None = None
        self.meaning = ""
        self.upright = False


Row: TypeAlias = list[Item]
"""Signs and constructs beside one another."""
