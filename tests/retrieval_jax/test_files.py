"""Files are whole or not there."""

import json
import threading

import numpy as np
import pytest

from retrieval_jax.files import whole_file, write_array, write_array_blocks, write_json


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


def test_threads_may_write_the_same_file(tmp_path):
    path = tmp_path / "a.txt"

    def write():
        with whole_file(path) as partial:
            partial.write_text("of the other")

    other = threading.Thread(target=write)
    with whole_file(path) as partial:
        partial.write_text("of this one")
        other.start()
        other.join()
        assert path.read_text() == "of the other"
    assert path.read_text() == "of this one"
    assert list(tmp_path.iterdir()) == [path]


def test_json_replaces_json(tmp_path):
    for values in ({"a": 1}, ["é"]):
        write_json(tmp_path / "a.json", values)
        assert json.loads((tmp_path / "a.json").read_text()) == values
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_an_array_is_written_under_a_name_of_npy(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, written in {"v1.5": "v1.5.npy", "v": "v.npy", "w.npy": "w.npy"}.items():
        assert write_array(tmp_path / name, values) == tmp_path / written
        np.testing.assert_array_equal(np.load(tmp_path / written), values)
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(ValueError, match="allow_pickle"):
        write_array(tmp_path / "v", np.array([None]))
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), values)


def test_blocks_make_the_file_of_the_whole_array(tmp_path):
    values = np.arange(21, dtype=np.float32).reshape(7, 3)
    write_array(tmp_path / "whole.npy", values)
    write_array_blocks(
        tmp_path / "b.npy", (7, 3), np.float32, (values[:4], values[4:4], values[4:])
    )
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ([np.zeros((2, 3), np.float32)], "lack 1 rows"),
        ([np.zeros((4, 3), np.float32)], "a block"),
        ([np.zeros((3, 2), np.float32)], "a block"),
        ([np.zeros((3, 3))], "float64"),
    ],
)
def test_blocks_that_are_not_the_array_are_refused(tmp_path, blocks, problem):
    with pytest.raises(ValueError, match=problem):
        write_array_blocks(tmp_path / "b.npy", (3, 3), np.float32, blocks)
