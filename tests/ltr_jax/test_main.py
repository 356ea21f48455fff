import pytest

from ltr_jax import __main__ as command_line
from ltr_jax.__main__ import Fetch, fetch, read_documents
from retrieval_jax.errors import InputError


def test_documents_are_lines_with_their_categories(tmp_path):
    path = tmp_path / "documents.txt"
    path.write_text("ein Text\ta::b, c\n\nohne Kategorien\nleer\t , \n", encoding="utf-8")
    texts, categories = read_documents(path)
    assert texts == ["ein Text", "ohne Kategorien", "leer"]
    assert categories == [["a::b", "c"], [], []]


def test_files_without_documents_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.txt cannot be read"):
        read_documents(tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match=r"empty\.txt has no document"):
        read_documents(tmp_path / "empty.txt")
    (tmp_path / "latin.txt").write_bytes("schön".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.txt cannot be read"):
        read_documents(tmp_path / "latin.txt")


def test_fetching_lists_of_packages(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(command_line, "fetch_lists", lambda *given: calls.append(given))
    assert fetch(Fetch(tmp_path, ("de", "fr"))).splitlines() == [
        f"train: python -m experiments.ltr.train --data.folder {tmp_path} --data.pair en-{language}"
        for language in ("de", "fr")
    ]
    sources = tmp_path / "trixie.list"
    sources.write_text("deb http://deb.debian.org/debian trixie main\n")
    fetch(Fetch(tmp_path, ("de",), sources))
    options = ["-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=-"]
    assert calls == [(tmp_path, ("de", "fr"), []), (tmp_path, ("de",), options)]
    with pytest.raises(InputError, match=r"no file .*absent"):
        fetch(Fetch(tmp_path, ("de",), tmp_path / "absent"))
    with pytest.raises(InputError, match="no language"):
        fetch(Fetch(tmp_path, ()))
