"""Code blocks of Markdown pages.

Every block names its language: `bash` is a command line a user types, `python` runs, `text`
and `yaml` are what a command prints or a file holds. A `python` block that a test cannot run has
`<!-- not run: the reason -->` in the line before.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
TOP = (ROOT / "README.md", ROOT / "RESULTS.md")
DOCS = ROOT / "docs"
LANGUAGES = ("bash", "python", "text", "yaml")

_FENCE = re.compile(r"^( *)```(.*)$")
_NOT_RUN = re.compile(r"^ *<!-- not run: .+ -->$")


class Block(NamedTuple):
    """A fenced block.

    Attributes:
        page: the file, relative to the project.
        line: of the opening fence, from 1.
        language: the word after the fence.
        text: what is inside, without the fence's indentation.
        runs: whether no mark says that it is not run.
    """

    page: Path
    line: int
    language: str
    text: str
    runs: bool


def pages() -> list[Path]:
    """The pages at the top and those of the site."""
    return [*TOP, *sorted(DOCS.rglob("*.md"))]


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found, number = [], 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        indent, start = len(opening[1]), number
        number += 1
        while lines[number].strip() != "```":
            number += 1
        found.append(
            Block(
                path.relative_to(ROOT),
                start + 1,
                opening[2].strip(),
                "".join(f"{line[indent:]}\n" for line in lines[start + 1 : number]),
                not (start and _NOT_RUN.match(lines[start - 1])),
            )
        )
        number += 1
    return found
