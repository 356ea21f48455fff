"""Lines of plain and compressed files, whole and damaged."""

import gzip
import logging
import lzma
import random
from collections import Counter
from pathlib import Path

import pytest

from retrieval_jax.errors import InputError
from retrieval_jax.text_files import (
    count_lines,
    filled_string,
    finite,
    integer,
    read_json_lines,
    read_lines,
    read_table,
    require_file,
    split_lines,
    string,
)

# Hard to compress, so that the file is larger than what is read at a time.
RANDOM = random.Random(1)
LINES = [f"{i} " + "".join(RANDOM.choices("abcdefghijklmnop", k=60)) for i in range(6000)]
TEXT = "\n".join(LINES).encode()


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_of_any_compression(tmp_path: Path, compress, end: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(compress(TEXT + end))
    counts: Counter[str] = Counter()
    assert list(read_lines(path, counts)) == list(enumerate(LINES, 1))
    assert not counts
    assert count_lines(path) == len(LINES)


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert list(read_lines(tmp_path / "file", Counter())) == []
    assert count_lines(tmp_path / "file") == 0


def test_lines_may_be_cut_instead_of_refused() -> None:
    chunks = [b"one\ntw", b"o", b"3" * 50, b"4" * 50, b"5\n\nse", b"ven"]
    assert list(split_lines(chunks, "x", Counter(), cut=5)) == [
        (1, "one"),
        (2, "two33"),
        (3, ""),
        (4, "seven"),
    ]
    assert [len(line) for _, line in split_lines(chunks, "x", Counter())] == [3, 104, 0, 5]


def test_members_of_a_gzip_file_are_one_text(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"") + gzip.compress(b"o\nthree"))
    assert [line for _, line in read_lines(path, Counter())] == ["one", "two", "three"]


def test_a_damaged_member_is_reported_and_the_others_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = (
        gzip.compress("\n".join([*LINES[i : i + 2000], ""]).encode()) for i in (0, 2000, 4000)
    )
    middle = len(second) // 2
    damaged = bytearray(second)
    damaged[middle : middle + 200] = b"\xff" * 200
    path = tmp_path / "file.gz"
    path.write_bytes(first + bytes(damaged) + third)
    counts: Counter[str] = Counter()
    with caplog.at_level(logging.WARNING):
        lines = [line for _, line in read_lines(path, counts)]
    assert lines[:2000] == LINES[:2000]
    assert lines[-2000:] == LINES[4000:]
    # Half of the damaged member comes before the damage.
    assert 700 < len(set(lines) & set(LINES[2000:4000])) < 1300
    assert counts["damaged places in compressed files"] == 1
    (offset,) = {int(r.args[1]) for r in caplog.records if "damaged" in r.msg}
    assert len(first) + middle - 10 <= offset <= len(first) + middle + 1000


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_a_truncated_file_is_kept_up_to_its_end(tmp_path: Path, compress) -> None:
    path = tmp_path / "file"
    whole = compress(TEXT)
    path.write_bytes(whole[: len(whole) // 2])
    counts: Counter[str] = Counter()
    lines = [line for _, line in read_lines(path, counts) if line]
    assert 1000 < len(lines) < 4000
    assert lines[:-1] == LINES[: len(lines) - 1]
    assert counts["damaged places in compressed files"] == 1


def test_bytes_that_are_not_utf8_are_marked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"caf\xe9\ncaf\xc3\xa9\n\xff")
    counts: Counter[str] = Counter()
    assert [line for _, line in read_lines(path, counts)] == ["caf\ufffd", "café", "\ufffd"]
    assert counts["lines with bytes that are not UTF-8"] == 2
    assert "line 1" in caplog.text


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"short\n" + bytes(1 << 27)))
    lines = read_lines(path, Counter())
    assert next(lines) == (1, "short")
    with pytest.raises(InputError, match=r"bomb.gz, line 2: longer than 64 MiB"):
        next(lines)


def test_json_lines_name_the_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"a": 1}\n\n{"a":\n')
    rows = read_json_lines(path, Counter())
    assert next(rows) == (1, {"a": 1})
    with pytest.raises(InputError, match="file, line 3: not JSON"):
        next(rows)
    path.write_text("[1]\n")
    with pytest.raises(InputError, match="line 1: a JSON list"):
        list(read_json_lines(path, Counter()))


def test_tables_name_the_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('a\tb\n1\t"x\r\n1\n')
    rows = read_table(path, ("b",), Counter())
    assert next(rows) == (2, {"a": "1", "b": '"x'})
    with pytest.raises(InputError, match="line 3: 1 fields where the header has 2"):
        next(rows)
    path.write_text("a\tb\n1\t2\n1\t" + 200_000 * "x" + "\n")
    with pytest.raises(InputError, match="file, line 3: field larger than field limit"):
        list(read_table(path, ("b",), Counter()))
    with pytest.raises(InputError, match="no column c"):
        list(read_table(path, ("c",), Counter()))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*nothing\.\nFetch it"):
        require_file(tmp_path / "nothing", "Fetch it.")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffid\nb".encode())
    assert list(read_lines(tmp_path / "a.txt", Counter())) == [(1, "id"), (2, "b")]


def test_a_line_is_cut_between_characters(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("aéé", encoding="utf-8")
    for cut, kept in ((1, "a"), (2, "a"), (3, "aé"), (4, "aé"), (5, "aéé")):
        counts: Counter[str] = Counter()
        assert list(read_lines(tmp_path / "a.txt", counts, cut)) == [(1, kept)]
        assert not counts


def test_blank_lines_of_a_table_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n1\t2\n\n3\t4\n\n")
    rows = list(read_table(tmp_path / "a.tsv", ("a", "b"), Counter()))
    assert rows == [(2, {"a": "1", "b": "2"}), (4, {"a": "3", "b": "4"})]


ROW = {"n": 7, "digits": " 8 ", "share": "2.5", "text": "a b", "blank": " \n"}
WRONG = {
    "true": True,
    "none": None,
    "nan": "nan",
    "inf": float("inf"),
    "large": 10**400,
    "long": "1" * 5000,
}


@pytest.mark.parametrize(
    ("read", "field", "value"),
    [
        (integer, "n", 7),
        (integer, "digits", 8),
        (finite, "n", 7.0),
        (finite, "share", 2.5),
        (string, "text", "a b"),
        (string, "blank", " \n"),
        (filled_string, "text", "a b"),
    ],
)
def test_fields_are_read(read, field: str, value) -> None:
    found = read(ROW, field, "file", 3)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("read", "field", "problem"),
    [
        (integer, "share", "share is '2.5', not a whole number"),
        (integer, "true", "true is True, not a whole number"),
        (integer, "long", "long is '1+', not a whole number"),
        (integer, "absent", "no field 'absent' among n, digits, .*, long"),
        (finite, "text", "text is 'a b', not a finite number"),
        (finite, "true", "true is True, not a finite number"),
        (finite, "nan", "nan is 'nan', not a finite number"),
        (finite, "inf", "inf is inf, not a finite number"),
        (finite, "large", "large is 1000+, not a finite number"),
        (string, "n", "n is 7, not a text"),
        (string, "none", "none is None, not a text"),
        (string, "absent", "no field 'absent' among n, digits, .*, long"),
        (filled_string, "none", "none is None, not a text"),
        (filled_string, "blank", r"blank is ' \\n', not a text of more than white space"),
    ],
)
def test_fields_that_cannot_be_read_are_named(read, field: str, problem: str) -> None:
    with pytest.raises(InputError, match=rf"^file, line 3: {problem}\."):
        read(ROW | WRONG, field, "file", 3)
