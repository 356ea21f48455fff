"""Lines of text files as publishers ship them: plain, gzip or xz, now and then damaged."""

import codecs
import csv
import json
import logging
import lzma
import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from retrieval_jax.errors import InputError

T = TypeVar("T")

_CHUNK = 1 << 16
# Bytes: text without an end of line must not fill the memory.
_MAX_LINE = 1 << 26
_GZIP_MEMBER = b"\x1f\x8b\x08"
_log = logging.getLogger(__name__)

ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,  # of bzip2, of seeking to where nothing is
    RuntimeError,  # encrypted, or packed by a method that zipfile has not
    UnicodeDecodeError,  # of a member's name
)
"""What opening a damaged zip, or reading a member of it, raises."""


def require_file(path: Path, remedy: str) -> Path:
    """The path of a file that is there.

    Raises:
        InputError: it is not, with the remedy.
    """
    if not path.is_file():
        raise InputError(f"There is no file {path}.", remedy)
    return path


def read_lines(
    path: Path, counts: Counter[str], cut: int | None = None
) -> Iterator[tuple[int, str]]:
    """Numbers (from 1) and texts of the lines that can be read, without their ends.

    Streams: memory does not grow with the file. What is damaged is logged and counted: where a
    gzip or xz stream breaks, the text before it is kept, and reading goes on at the next member of
    a gzip file that has several. Bytes that are no UTF-8 become U+FFFD.

    Args:
        path: the file.
        counts: what was damaged is added.
        cut: bytes to keep of a line that is longer; None refuses one beyond 64 MiB.

    Raises:
        InputError: a line is longer than 64 MiB.
    """
    yield from split_lines(_decompressed(path, counts), path, counts, cut)


def split_lines(
    chunks: Iterable[bytes], source: object, counts: Counter[str], cut: int | None = None
) -> Iterator[tuple[int, str]]:
    """The lines of a file that comes in pieces, as `read_lines` gives them.

    Args:
        chunks: the pieces.
        source: names the file in logs and errors.
        counts: what was damaged is added.
        cut: as in `read_lines`.

    Raises:
        InputError: a line is longer than 64 MiB.
    """
    number = 0
    rest = b""
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        if cut is None or len(rest) <= cut:
            rest += first
        for line in others:
            number += 1
            yield number, _decoded(_cut(rest, cut, number), source, number, counts)
            rest = line
        if cut is None and len(rest) > _MAX_LINE:
            raise InputError(
                f"{source}, line {number + 1}: longer than {_MAX_LINE >> 20} MiB.",
                "Give a text file of lines.",
            )
    if rest:
        yield number + 1, _decoded(_cut(rest, cut, number + 1), source, number + 1, counts)


def _cut(line: bytes, cut: int | None, number: int) -> bytes:
    """The first `cut` bytes of a line, less where they end inside a character, without a mark."""
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    if cut is None or len(line) <= cut:
        return line
    while cut and line[cut] & 0xC0 == 0x80:  # bytes of a character but for its first
        cut -= 1
    return line[:cut]


def count_lines(path: Path) -> int:
    """The number of lines that `read_lines` gives."""
    total, ends_in_line = 0, False
    for chunk in _decompressed(path, Counter()):
        total += chunk.count(b"\n")
        ends_in_line = not chunk.endswith(b"\n") if chunk else ends_in_line
    return total + ends_in_line


def read_json_lines(path: Path, counts: Counter[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects of a file with one JSON object a line.

    Raises:
        InputError: a line that is none.
    """
    for number, line in read_lines(path, counts):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number}: not JSON ({error}).",
                "Fetch the file again; it holds one JSON object a line.",
            ) from None
        if not isinstance(row, dict):
            raise InputError(
                f"{path}, line {number}: a JSON {type(row).__name__}, not an object.",
                "Fetch the file again; it holds one JSON object a line.",
            )
        yield number, row


def read_table(
    path: Path, columns: Sequence[str], counts: Counter[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and rows of a tab separated table without quoting, with a header.

    Raises:
        InputError: a column is missing, or a row has another number of fields than the header.
    """
    lines = read_lines(path, counts)
    texts = (line.rstrip("\r") for _, line in lines)
    yield from checked_rows(
        csv.reader(texts, delimiter="\t", quoting=csv.QUOTE_NONE), path, columns
    )


def checked_rows(
    reader: Iterator[list[str]], source: object, columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and rows of a table whose first row is its header.

    Args:
        reader: of the csv module.
        source: names the table in errors.
        columns: which must be there.

    Raises:
        InputError: one is missing, a row has another number of fields than the header, or a field
            is longer than the csv module reads.
    """
    rows = _parsed(reader, source)
    header = next(rows, [])
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputError(
            f"{source}, line 1: the header has no column {', '.join(missing)}; it reads "
            f"{', '.join(header)[:200]!r}.",
            "Give the file as its publisher ships it.",
        )
    for number, fields in enumerate(rows, 2):
        if not fields:  # a blank line
            continue
        if len(fields) != len(header):
            raise InputError(
                f"{source}, line {number}: {len(fields)} fields where the header has "
                f"{len(header)}.",
                "Fetch the file again, or mend the line.",
            )
        yield number, dict(zip(header, fields, strict=True))


def _parsed(reader: Iterator[list[str]], source: object) -> Iterator[list[str]]:
    number = 0
    try:
        for number, fields in enumerate(reader, 1):  # noqa: B007
            yield fields
    except csv.Error as error:
        raise InputError(
            f"{source}, line {number + 1}: {error}.", "Mend the line, or give JSON lines."
        ) from error


def integer(row: Mapping[str, Any], field: str, source: object, number: int) -> int:
    """A field of a row as a whole number.

    Raises:
        InputError: it is none.
    """
    return _converted(row, field, source, number, int | str, int, "a whole number")


def finite(row: Mapping[str, Any], field: str, source: object, number: int) -> float:
    """A field of a row as a finite number.

    Raises:
        InputError: it is none.
    """
    return _converted(row, field, source, number, float | int | str, _finite, "a finite number")


def _finite(value: float | str) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError
    return found


def _converted(
    row: Mapping[str, Any],
    field: str,
    source: object,
    number: int,
    kinds: Any,
    convert: Callable[[Any], T],
    wanted: str,
) -> T:
    """A field of one of some types, a bool aside, as `convert` has it."""
    value = row.get(field)
    try:
        if isinstance(value, kinds) and not isinstance(value, bool):
            return convert(value)
    except (ValueError, OverflowError):  # the latter of a JSON integer of hundreds of digits
        pass
    raise _wrong_field(row, field, source, number, wanted)


def string(row: Mapping[str, Any], field: str, source: object, number: int) -> str:
    """A field of a row as a text.

    Raises:
        InputError: it is none.
    """
    value = row.get(field)
    if isinstance(value, str):
        return value
    raise _wrong_field(row, field, source, number, "a text")


def filled_string(row: Mapping[str, Any], field: str, source: object, number: int) -> str:
    """A field of a row as a text of more than white space.

    Raises:
        InputError: it is none.
    """
    value = string(row, field, source, number)
    if value.strip():
        return value
    raise _wrong_field(row, field, source, number, "a text of more than white space")


def _wrong_field(
    row: Mapping[str, Any], field: str, source: object, number: int, wanted: str
) -> InputError:
    if field in row:
        what = f"{field} is {row[field]!r}, not {wanted}"
    else:
        what = f"no field {field!r} among {', '.join(row)[:200]}"
    return InputError(
        f"{source}, line {number}: {what}.", "Fetch the file again, or mend the line."
    )


def _decoded(line: bytes, path: object, number: int, counts: Counter[str]) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        if not counts["lines with bytes that are not UTF-8"]:
            _log.warning("%s, line %d: %s; such bytes become U+FFFD", path, number, error)
        counts["lines with bytes that are not UTF-8"] += 1
        return line.decode("utf-8", errors="replace")


def _decompressed(path: Path, counts: Counter[str]) -> Iterator[bytes]:
    with path.open("rb") as file:
        magic = file.read(6)
        file.seek(0)
        if magic.startswith(_GZIP_MEMBER[:2]):
            yield from _gunzipped(file, path, counts)
        elif magic == b"\xfd7zXZ\x00":
            yield from _unxzipped(file, path, counts)
        else:
            while chunk := file.read(_CHUNK):
                yield chunk


def _damage(path: Path, offset: int, error: object, counts: Counter[str]) -> None:
    counts["damaged places in compressed files"] += 1
    _log.warning("%s is damaged at byte %d (%s); the text before it is kept", path, offset, error)


def _unxzipped(file: BinaryIO, path: Path, counts: Counter[str]) -> Iterator[bytes]:
    with lzma.open(file) as stream:
        while True:
            try:
                chunk = stream.read(_CHUNK)
            except (lzma.LZMAError, EOFError) as error:
                _damage(path, file.tell(), error, counts)
                return
            if not chunk:
                return
            yield chunk


def _gunzipped(file: BinaryIO, path: Path, counts: Counter[str]) -> Iterator[bytes]:
    """The members of a gzip file one after another; each starts at `offset`."""
    offset: int | None = 0
    damaged_at: int | None = None
    while offset is not None:
        file.seek(offset)
        decompressor = zlib.decompressobj(wbits=31)
        any_text = False
        while not decompressor.eof:
            position = file.tell()
            compressed = file.read(_CHUNK)
            before = decompressor.copy()
            try:
                if not compressed:
                    raise zlib.error("the file ends in the middle")
                text = decompressor.decompress(compressed)
            except zlib.error as error:
                text, good = _up_to_the_damage(before, compressed)
                yield text
                if any_text or text or damaged_at is None:
                    damaged_at = position + good
                    _damage(path, damaged_at, error, counts)
                    # The half line must not join the first of the next member.
                    yield b"\n"
                offset = _next_member(file, max(damaged_at, offset + 1))
                break
            any_text = any_text or bool(text)
            yield text
        else:
            offset = _next_member(file, file.tell() - len(decompressor.unused_data))
            if damaged_at is not None and offset is not None:
                _log.warning("%s: reading went on at a later member", path)


def _up_to_the_damage(decompressor: Any, compressed: bytes) -> tuple[bytes, int]:
    """What can be decompressed, and the number of bytes that it was in."""
    texts = []
    for i in range(len(compressed)):
        try:
            texts.append(decompressor.decompress(compressed[i : i + 1]))
        except zlib.error:
            return b"".join(texts), i
    return b"".join(texts), len(compressed)


def _next_member(file: BinaryIO, start: int) -> int | None:
    """Where the next gzip member from `start` on begins, if there is one."""
    file.seek(start)
    tail = b""
    position = start
    while chunk := file.read(_CHUNK):
        window = tail + chunk
        found = window.find(_GZIP_MEMBER)
        if found >= 0:
            return position - len(tail) + found
        tail = window[-2:]
        position += len(chunk)
    return None
