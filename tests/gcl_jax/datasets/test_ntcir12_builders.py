"""NTCIR-12's corpus in its published layout, packed and unpacked, and the judged formulas."""

import io
import tarfile
import time
from collections import Counter
from pathlib import Path

import pytest

from gcl_jax.datasets.builders import read_formulas, read_rows
from gcl_jax.datasets.formula_files import Source
from gcl_jax.datasets.ntcir12_articles import formulas_of
from gcl_jax.datasets.ntcir12_builders import prepare, prepare_judged
from gcl_jax.datasets.parsing import ParsingOptions
from gcl_jax.formulas.trees import Tree
from retrieval_jax.errors import InputError
from tests.gcl_jax.datasets.ntcir12_files import ARTICLE, write_judged
from tests.gcl_jax.toy_formulas import chain

QUIET = ParsingOptions(1, parse=chain, progress=False)
FIRST = "Toy_article:0", "x < y"


def pack(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:bz2") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


def test_formulas_of_an_article() -> None:
    counts: Counter[str] = Counter()
    first, second, third = formulas_of("Toy_article", ARTICLE, counts)
    assert isinstance(first, Source)
    assert (first.row, first.key, first.shown) == (1, *FIRST)
    assert first.formula.startswith('<math id="./Toy')
    assert first.formula.endswith("</semantics></math>")
    assert second == Source(2, "Toy_article:1", "<math/>")
    assert isinstance(third, Source)
    assert (third.key, third.shown) == ("Toy_article:2", "b")
    assert not counts
    assert [s.row for s in formulas_of("x", "<math>a</math><math>b", counts)] == [1]
    assert list(formulas_of("x", "<math", counts)) == []
    assert counts == {"formulas without an end": 1}
    start = time.process_time()
    for tag in ("<math ", "<mathx"):
        assert list(formulas_of("x", tag * 300_000, counts)) == []
    assert time.process_time() - start < 3


def test_packed_and_unpacked_corpora_give_the_same(tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked" / "MathTagArticles" / "wpmath0000001" / "Articles"
    unpacked.mkdir(parents=True)
    (unpacked / "Toy_article.html").write_text(ARTICLE, encoding="utf-8")
    (unpacked / "readme.txt").write_text("no article")
    packed = tmp_path / "packed" / "MathTagArticles"
    packed.mkdir(parents=True)
    name = "wpmath0000001/Articles/Toy_article.html"
    pack(packed / "wpmath0000001.tar.bz2", {name: ARTICLE, "../../out.txt": "x"})
    rows = []
    for path in (tmp_path / "unpacked", tmp_path / "packed", packed / "wpmath0000001.tar.bz2"):
        builder = prepare(path, tmp_path / "data", QUIET)
        assert builder.name == "ntcir12"
        rows.append(list(read_rows(builder)))
        assert read_formulas(builder).ids[0] == FIRST[0]
    assert rows[0] == rows[1] == rows[2]
    assert [(key, shown) for key, shown, _ in rows[0]] == [
        FIRST,
        ("Toy_article:1", "<math/>"),
        ("Toy_article:2", "b"),
    ]
    assert not list(tmp_path.rglob("out.txt"))


def test_a_damaged_archive_keeps_what_stands_before(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(ARTICLE)
    (tmp_path / "b.tar.bz2").write_bytes(b"BZh9 is no archive")
    builder = prepare(tmp_path, tmp_path / "data", QUIET)
    assert builder.info.metadata == {"formulas": 3, "damaged archives": 1}


def test_absent_corpora_say_what_to_fetch(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="Fetch NTCIR-12_MathIR_Wikipedia_Corpus"):
            prepare(path, tmp_path / "data", QUIET)
    (tmp_path / "a.html").write_text("<p>none</p>")
    with pytest.raises(InputError, match=r"holds no formula|could be parsed"):
        prepare(tmp_path, tmp_path / "data", QUIET)


def test_judged_formulas_as_a_data_set(tmp_path: Path) -> None:
    folder = write_judged(tmp_path / "files")
    builder = prepare_judged(folder, tmp_path / "data", progress=False)
    assert builder.name == "ntcir12_judged"
    formulas = read_formulas(builder)
    assert formulas.ids == ("A:1", "B:2")
    assert formulas.slt.tree(1) == Tree("slt", ("V!x",), (-1,), ("",))
    assert read_formulas(builder, "queries").ids == ("T-1", "T-2")
    assert builder.info.metadata == {"formulas": 2, "judged formulas without trees": 1}
    with pytest.raises(InputError, match="There is no file"):
        prepare_judged(tmp_path, tmp_path / "data")
