"""Rows of the tables that Wikimedia dumps as SQL, streamed; nothing is executed."""

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from retrieval_jax.errors import InputError
from retrieval_jax.text_files import require_file

# A value of an INSERT: a quoted string with its escapes, a number, or NULL. Possessive quantifiers,
# since nothing is to be gained by going back.
_VALUE = (
    rb"'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'|0x[0-9A-Fa-f]*+"
    rb"|[-+]?[0-9.]++(?:[eE][-+]?[0-9]++)?+|NULL"
)
_COLUMN = re.compile(rb"\s+`(\w+)` ")
_INSERT = re.compile(rb"INSERT INTO `(\w+)` VALUES ")
_ESCAPE = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"b": b"\b", b"Z": b"\x1a"}
_REMEDY = "Fetch the dump again, whole, from https://dumps.wikimedia.org."


def read_columns(path: Path) -> tuple[str, ...]:
    """The names of a dumped table's columns, from its CREATE TABLE.

    Raises:
        InputError: no such file, or none in it.
    """
    columns: list[str] = []
    for _, line in _lines(path):
        if columns and not _COLUMN.match(line):
            break
        if match := _COLUMN.match(line):
            columns.append(match[1].decode())
    if not columns:
        raise InputError(f"{path} has no CREATE TABLE.", _REMEDY)
    return tuple(columns)


def read_rows(path: Path, wanted: Sequence[str]) -> Iterator[tuple[str | None, ...]]:
    """Streams some columns of a dumped table.

    The order of columns is that of the dump's own CREATE TABLE: it has changed over the years.

    Args:
        path: a file of mysqldump, plain or gzip.
        wanted: names of columns.

    Yields:
        Of each row the values as text, None for NULL. Bytes that are no UTF-8 become U+FFFD.

    Raises:
        InputError: a column is missing, a line cannot be read (it is named with the place in it),
            or the file is damaged.
    """
    columns = read_columns(path)
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise InputError(
            f"{path}: the table has no column {', '.join(missing)}, only {', '.join(columns)}.",
            "Give the dump of the right table.",
        )
    groups = b",".join(
        b"(" + _VALUE + b")" if name in wanted else b"(?:" + _VALUE + b")" for name in columns
    )
    row = re.compile(rb"\(" + groups + rb"\)[,;]?", re.DOTALL)
    in_order = [name for name in columns if name in wanted]
    places = [in_order.index(name) for name in wanted]
    for number, line in _lines(path):
        start = _INSERT.match(line)
        if start is None:
            continue
        position = start.end()
        while position < len(line) and line[position : position + 1] not in b"\r\n":
            match = row.match(line, position)
            if match is None:
                shown = line[position : position + 60].decode(errors="replace")
                raise InputError(
                    f"{path}, line {number}, byte {position}: not a row of {len(columns)} values: "
                    f"{shown!r}.",
                    _REMEDY,
                )
            values = match.groups()
            yield tuple(_text(values[place]) for place in places)
            position = match.end()


def _text(value: bytes) -> str | None:
    if value == b"NULL":
        return None
    if value.startswith(b"'"):
        value = value[1:-1]
        if b"\\" in value or b"''" in value:
            value = _ESCAPE.sub(_unescaped, value)
    return value.decode(errors="replace")


def _unescaped(match: re.Match[bytes]) -> bytes:
    letter = match[1]
    return b"'" if letter is None else _ESCAPED.get(letter, letter)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    require_file(path, _REMEDY)
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path, "rb") if is_gzip else path.open("rb") as lines:
            yield from enumerate(lines, start=1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged ({error}).", _REMEDY) from None
