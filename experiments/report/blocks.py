"""What reports are made of: paragraphs, tables and notes, as Markdown or HTML."""

import base64
import dataclasses
import html
import re
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Table:
    """A table; its first column names the rows.

    Attributes:
        header: of all columns.
        rows: cells as text.
        caption: what it shows; HTML only, as the text around says it in Markdown.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class Notes:
    """A list of sentences."""

    lines: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture with what it shows in text.

    Attributes:
        svg: the picture.
        title: what it shows, also for those who do not see it.
        numbers: the same as a table.
    """

    svg: bytes
    title: str
    numbers: Table


@dataclasses.dataclass(frozen=True)
class Markup:
    """HTML that was made with all texts escaped; left out in Markdown."""

    html: str


Block = str | Table | Notes | Figure | Markup


def to_markdown(blocks: Sequence[Block]) -> str:
    """Markdown of paragraphs, tables and notes, a blank line between; the rest is left out."""
    parts = (_markdown(block) for block in blocks if not isinstance(block, Figure | Markup))
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Table):
        lines = [_line(block.header), f"|---|{'---|' * (len(block.header) - 1)}"]
        return "\n".join(lines + [_line(row) for row in block.rows])
    if isinstance(block, Notes):
        return "\n".join(f"- {line}" for line in block.lines)
    return str(block)


def _line(cells: Sequence[str]) -> str:
    # One line, and signs of the table itself only between cells.
    shown = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(shown)} |"


def to_html(blocks: Sequence[Block]) -> str:
    """HTML of blocks, every text escaped."""
    return "\n".join(_html(block) for block in blocks)


def _html(block: Block) -> str:
    if isinstance(block, Table):
        return _html_table(block)
    if isinstance(block, Notes):
        items = "".join(f"<li>{inline(line)}</li>" for line in block.lines)
        return f"<ul>{items}</ul>" if items else ""
    if isinstance(block, Markup):
        return block.html
    if isinstance(block, Figure):
        title = html.escape(block.title, quote=True)
        picture = image(block.svg, "image/svg+xml", block.title)
        return (
            f"<figure>{picture}<figcaption>{title}</figcaption>"
            f"<details><summary>the numbers</summary>{_html_table(block.numbers)}</details>"
            "</figure>"
        )
    return f"<p>{inline(block)}</p>"


def image(content: bytes, kind: str, text: str) -> str:
    """An `img` that holds its picture.

    Args:
        content: of the picture's file.
        kind: its MIME type.
        text: what it shows, for those who do not see it.
    """
    data = base64.b64encode(content).decode("ascii")
    return f'<img alt="{html.escape(text, quote=True)}" src="data:{kind};base64,{data}">'


def _html_table(table: Table) -> str:
    caption = f"<caption>{inline(table.caption)}</caption>" if table.caption else ""
    head = "".join(f'<th scope="col">{inline(name)}</th>' for name in table.header)
    rows = "".join(
        f'<tr><th scope="row">{inline(row[0])}</th>'
        + "".join(f"<td{_number(cell)}>{inline(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{_label(table)}"><table>'
        f"{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _label(table: Table) -> str:
    return html.escape(table.caption or f"table of {table.header[0]}", quote=True)


def _number(cell: str) -> str:
    is_number = re.fullmatch(r"[-+±/*%.,\d\s]+(s|MiB)?", cell)
    return ' class="n"' if is_number else ""


def inline(text: str) -> str:
    """Escaped text; what stands between back quotes becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
