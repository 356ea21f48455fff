import pytest

from ltr_jax.__main__ import read_documents
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
