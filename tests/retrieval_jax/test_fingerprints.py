"""Fingerprints tell contents apart, and only contents."""

import hashlib

import numpy as np
import pytest

from retrieval_jax.fingerprints import content_fingerprint, files_fingerprint, stable_hash


def test_content_counts_with_its_borders_types_and_shapes():
    numbers = np.arange(4, dtype=np.int32)
    known = content_fingerprint(["ab", "c", numbers])
    assert known == content_fingerprint(iter(["ab", "c", numbers.copy()]))
    others = (["a", "bc", numbers], ["c", "ab", numbers], ["ab", "c", numbers.astype(np.int64)],
              ["ab", "c", numbers.reshape(2, 2)], ["ab", "c"])  # fmt: skip
    assert len({known, *map(content_fingerprint, others)}) == 6
    assert content_fingerprint(["\ud800"]) != content_fingerprint(["\ud801"])


def test_places_in_memory_have_no_fingerprint():
    with pytest.raises(TypeError, match="array of object"):
        content_fingerprint([np.array(["a", "b"], object)])


def test_one_text_is_its_length_and_its_bytes():
    expected = hashlib.sha256(b"\x02" + bytes(7) + "é".encode()).hexdigest()
    assert content_fingerprint(["é"]) == expected


def test_the_hash_of_a_name_is_its_md5():
    assert stable_hash("abc") == 0x900150983CD24FB0D6963F7D28E17F72
    assert stable_hash("é") == int(hashlib.md5("é".encode()).hexdigest(), 16)


def test_files_are_told_apart_by_name_size_and_both_ends(tmp_path):
    path = tmp_path / "a.txt"
    content = bytearray(300_000)
    fingerprints = set()
    for place in (0, len(content) - 1):
        content[place] = 1
        path.write_bytes(content)
        fingerprints.add(files_fingerprint([path]))
    assert files_fingerprint([path]) in fingerprints
    path.write_bytes(content + b"\0")
    fingerprints.add(files_fingerprint([path]))
    path.rename(tmp_path / "b.txt")
    fingerprints.add(files_fingerprint([tmp_path / "b.txt"]))
    fingerprints.add(files_fingerprint([tmp_path / "b.txt"], "utf-8", 2))
    fingerprints.add(files_fingerprint([tmp_path / "b.txt"], "utf-8", 3))
    assert len(fingerprints) == 6


def test_whole_files_are_told_apart_by_every_byte(tmp_path):
    path = tmp_path / "a.txt"
    content = bytearray(300_000)
    path.write_bytes(content)
    before = [files_fingerprint([path], whole=whole) for whole in (True, False)]
    assert len(set(before)) == 2
    assert files_fingerprint([path], whole=True) == before[0]
    content[150_000] = 1
    path.write_bytes(content)
    assert files_fingerprint([path], whole=True) != before[0]
    assert files_fingerprint([path]) == before[1]
    path.rename(tmp_path / "b.txt")
    assert files_fingerprint([tmp_path / "b.txt"], whole=True) != before[0]
