"""Formulas in files: tables (TSV), JSON lines, plain lines; plain, gzip or xz."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from retrieval_jax.errors import InputError
from retrieval_jax.text_files import count_lines, read_lines, require_file

Format: TypeAlias = Literal["tsv", "jsonl", "lines"]

FORMULA_COLUMNS = ("formula", "latex", "tex", "mathml", "input")
"""Columns that hold formulas, the first that is there where none is named."""

ID_COLUMNS = ("id", "formula_id", "topic")
"""Columns that hold ids likewise; the line number is the id where there is none."""

LONGEST = 1 << 20
"""Bytes of a line that are read; what is longer is no formula, and is rejected."""

_BYTE_ORDER_MARK = "\ufeff"
_UNREAD = (".csv", ".json")
_SUFFIXES: dict[str, Format] = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class Source(NamedTuple):
    """A formula to be parsed.

    Attributes:
        row: number of its line, from 1, or another number that tells it apart.
        key: its id.
        formula: what is parsed.
        shown: what is kept of it, such as the LaTeX of a MathML formula; "" keeps `formula`.
    """

    row: int
    key: str
    formula: str
    shown: str = ""


class Reject(NamedTuple):
    """A row of which no formula was made, and why."""

    row: int
    key: str
    formula: str
    reason: str


def format_of(path: Path) -> Format:
    """The format that a file's name tells: `.tsv`, `.jsonl`, else lines; `.gz`, `.xz` aside.

    Raises:
        InputError: `.csv` or `.json`, which are none of these as a rule.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    last = suffixes[-1] if suffixes else ""
    if last in _UNREAD:
        raise InputError(
            f"{path}: {last} tells none of the formats that are read: TSV, JSON lines, lines.",
            "Write it as one of them, or say that it is one: format tsv, jsonl or lines.",
        )
    return _SUFFIXES.get(last, "lines")


class FormulaFile:
    """A file of formulas.

    Args:
        path: the file.
        format: how to read it; None = as the name tells.
        column: which column or field holds the formula; None = see `FORMULA_COLUMNS`.
        id_column: which holds the id; None = see `ID_COLUMNS`.

    Raises:
        InputError: no such file, nothing in it, a name that tells no format, or a table without the
            columns.
    """

    def __init__(
        self,
        path: Path,
        format: Format | None = None,  # noqa: A002
        column: str | None = None,
        id_column: str | None = None,
    ) -> None:
        self.path = require_file(path, "Give a file of formulas: TSV, JSON lines, or lines.")
        self.format: Format = format or format_of(path)
        self._column, self._id_column = column, id_column
        lines = count_lines(path)
        self.num_rows = lines - (self.format == "tsv")
        if self.num_rows < 1:
            raise InputError(f"{path} holds no formula.", "Give a file with a formula a line.")
        if self.format == "tsv":
            self._header()

    def sources(self, counts: Counter[str]) -> Iterator[Source | Reject | None]:
        """What each row gives, in their order; None for an empty line.

        What is no row of its format, or has no formula, is a `Reject`. A null of JSON is a field
        that is not there: without an id it has the line's number.
        """
        lines = read_lines(self.path, counts, LONGEST)
        if self.format == "tsv":
            next(lines)
            formula, key, width = self._header()
            for number, line in lines:
                fields = line.rstrip("\r").split("\t")
                if len(fields) == 1 and not line.strip():
                    yield None
                elif len(fields) != width:
                    reason = f"{len(fields)} fields where the header has {width}"
                    yield Reject(number, str(number), line, reason)
                else:
                    name = str(number) if key is None else fields[key]
                    yield checked(number, name, fields[formula])
        elif self.format == "jsonl":
            for number, line in lines:
                yield self._from_json(number, line) if line.strip() else None
        else:
            for number, line in lines:
                text = line.rstrip("\r").removeprefix(_BYTE_ORDER_MARK)
                yield checked(number, str(number), text) if text.strip() else None

    def _header(self) -> tuple[int, int | None, int]:
        """Where formula and id stand in a table, and its width."""
        line = next(read_lines(self.path, Counter(), LONGEST))[1]
        header = line.rstrip("\r").removeprefix(_BYTE_ORDER_MARK).split("\t")
        formula = _named(header, self._column, FORMULA_COLUMNS)
        key = _named(header, self._id_column, ID_COLUMNS)
        if formula is None or (key is None and self._id_column is not None):
            wanted = self._column or " or ".join(FORMULA_COLUMNS)
            missing = wanted if formula is None else self._id_column
            raise InputError(
                f"{self.path}, line 1: no column {missing} among {', '.join(header)[:200]!r}.",
                "Name the column that holds the formulas, or say that the file is plain lines.",
            )
        return header.index(formula), None if key is None else header.index(key), len(header)

    def _from_json(self, number: int, line: str) -> Source | Reject:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            return Reject(number, str(number), line, f"not JSON ({error})"[:200])
        if not isinstance(row, dict):
            return Reject(number, str(number), line, f"a JSON {type(row).__name__}, not an object")
        present = [name for name, value in row.items() if value is not None]
        name = _named(present, self._column, FORMULA_COLUMNS)
        key = _named(present, self._id_column, ID_COLUMNS)
        text, key = row.get(name), str(number if key is None else row[key])
        if not isinstance(text, str):
            wanted = self._column or ", ".join(FORMULA_COLUMNS)
            return Reject(number, key, line, f"no text in a field {wanted}")
        return checked(number, key, text)


def _named(columns: Sequence[str], wanted: str | None, usual: Sequence[str]) -> str | None:
    names = usual if wanted is None else (wanted,)
    return next((name for name in names if name in columns), None)


def checked(row: int, key: str, formula: str) -> Source | Reject:
    """A formula to parse, or a `Reject` where it cannot be stored as UTF-8 or is too long."""
    try:
        size = len(formula.encode()) + len(key.encode())
    except UnicodeEncodeError:
        plain = formula.encode(errors="backslashreplace").decode()
        name = key.encode(errors="backslashreplace").decode()
        return Reject(row, name, plain, "half of a surrogate pair is no character")
    if size >= LONGEST:
        return Reject(row, key[:200], formula, f"{LONGEST} bytes or more")
    return Source(row, key, formula)
