"""Files are whole or not there."""

import json

import pytest

from retrieval_jax.files import whole_file, write_json


def test_what_fails_while_it_is_written_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as partial:
        partial.write_text("first")
        assert not path.exists()
    with pytest.raises(OSError, match="disk full"), whole_file(path) as partial:
        partial.write_text("sec")
        raise OSError("disk full")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_json_replaces_json(tmp_path):
    for values in ({"a": 1}, ["é"]):
        write_json(tmp_path / "a.json", values)
        assert json.loads((tmp_path / "a.json").read_text()) == values
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
