"""Results kept on disk: made once, whole or not at all."""

import numpy as np
import pytest

from retrieval_jax.errors import InputError
from retrieval_jax.kept import content_name, keep


def test_content_decides_the_name():
    numbers = np.arange(6, dtype=np.int32)
    parts = ["ab", "c", numbers]
    assert content_name(parts) == content_name(["ab", "c", numbers.copy()])
    others = (
        ["a", "bc", numbers],
        ["ab", "c", numbers[::-1]],
        ["ab", "c", numbers.reshape(2, 3)],
        ["ab", "c", numbers.view(np.uint32)],
    )
    names = {content_name(of) for of in (parts, *others)}
    assert len(names) == 5
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in names)


def test_made_once(tmp_path):
    made = []

    def write(folder):
        made.append(folder)
        (folder / "answer").write_text("42")

    for _ in range(2):
        assert (keep(tmp_path / "kept", "x", write) / "answer").read_text() == "42"
    assert len(made) == 1
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["x"]


def test_nothing_is_left_of_what_failed(tmp_path):
    def write(folder):
        (folder / "half").write_text("4")
        raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        keep(tmp_path, "x", write)
    assert not list(tmp_path.iterdir())


def test_another_process_was_first(tmp_path):
    def write(folder):
        (folder / "answer").write_text("mine")
        other = tmp_path / "x"
        other.mkdir()
        (other / "answer").write_text("theirs")

    assert (keep(tmp_path, "x", write) / "answer").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be kept"):
        keep(tmp_path / "file", "x", lambda folder: None)
