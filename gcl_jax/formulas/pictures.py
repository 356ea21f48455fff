"""Pictures of formula trees: text, Graphviz, SVG. Labels come from data, so each is escaped."""

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gcl_jax.formulas.trees import Tree

DEEPEST_INDENT = 40
"""From here on the text shows the depth as a number, so that its size stays linear."""

# What XML 1.0 has no place for, and half a surrogate pair, which no encoding takes.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_CHARACTER_WIDTH, _ROW_HEIGHT, _BOX_HEIGHT, _MARGIN = 9, 64, 28, 12


def to_text(tree: "Tree") -> str:
    """A node a line, its edge before it; the next sign of a layout tree is not indented."""
    lines = []
    indents: list[int] = []
    for label, parent, edge in zip(tree.labels, tree.parents, tree.edge_labels, strict=True):
        # An operator tree has edges `n` too: its 50th arguments.
        is_next = tree.layout == "slt" and edge == "n"
        indent = 0 if parent < 0 else indents[parent] + (not is_next)
        indents.append(indent)
        space = "  " * indent if indent <= DEEPEST_INDENT else f"{'  ' * DEEPEST_INDENT}({indent}) "
        lines.append(space + _printable(f"{edge} {label}" if edge else label))
    return "\n".join(lines)


def to_graphviz(tree: "Tree") -> str:
    """The tree in the DOT language: nodes `0`, `1`, ... with labels."""
    lines = [f"digraph {tree.layout} {{", "  node [shape=box, style=rounded];"]
    lines += [f"  {node} [label={_quoted(label)}];" for node, label in enumerate(tree.labels)]
    lines += [
        f"  {tree.parents[node]} -> {node} [label={_quoted(tree.edge_labels[node])}];"
        for node in range(1, len(tree.labels))
    ]
    return "\n".join([*lines, "}", ""])


def to_svg(tree: "Tree") -> str:
    """The tree as SVG, root on top, a parent over the middle of its children."""
    texts = [_printable(label) for label in tree.labels]
    widths = [_CHARACTER_WIDTH * max(len(text), 1) + 16 for text in texts]
    centres, rows = _places(tree, widths)
    width = max(x + w / 2 for x, w in zip(centres, widths, strict=True)) + _MARGIN
    height = (max(rows) + 1) * _ROW_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="monospace" font-size="14" '
        'text-anchor="middle">',
        f"<title>{tree.layout.upper()}</title>",
    ]
    tops = [_MARGIN + row * _ROW_HEIGHT for row in rows]
    for node in range(1, len(texts)):
        parent = tree.parents[node]
        x1, y1, x2, y2 = centres[parent], tops[parent] + _BOX_HEIGHT, centres[node], tops[node]
        parts.append(f'<path d="M{x1:g} {y1}L{x2:g} {y2}" stroke="#777"/>')
        parts.append(
            f'<text x="{(x1 + x2) / 2 + 7:g}" y="{(y1 + y2) / 2 + 4:g}" fill="#777" '
            f'font-size="11">{_escaped(tree.edge_labels[node])}</text>'
        )
    for text, w, x, top in zip(texts, widths, centres, tops, strict=True):
        parts.append(
            f'<rect x="{x - w / 2:g}" y="{top}" width="{w}" height="{_BOX_HEIGHT}" rx="6" '
            'fill="#fff" stroke="#333"/>'
        )
        parts.append(f'<text x="{x:g}" y="{top + 19}">{_escaped(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _places(tree: "Tree", widths: list[int]) -> tuple[list[float], list[int]]:
    """Centre and row of each node. Each subtree has the columns under it to itself."""
    children = tree.children
    spans = [0.0] * len(widths)
    for node in range(len(widths) - 1, -1, -1):
        below = sum(spans[child] for child in children[node])
        spans[node] = max(widths[node] + _MARGIN, below)
    lefts = [float(_MARGIN)] * len(widths)
    centres = [0.0] * len(widths)
    rows = [0] * len(widths)
    for node, below in enumerate(children):
        left = lefts[node] + (spans[node] - sum(spans[child] for child in below)) / 2
        centres[node] = lefts[node] + spans[node] / 2
        for child in below:
            lefts[child], rows[child] = left, rows[node] + 1
            left += spans[child]
    return centres, rows


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text).replace("\n", "⏎").replace("\r", "⏎")


def _escaped(text: str) -> str:
    return html.escape(_printable(text))


def _quoted(text: str) -> str:
    escaped = _printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
