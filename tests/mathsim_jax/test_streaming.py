"""Encoding files: rows equal lines, nothing half-written, memory that does not grow."""

import gzip
import lzma
import sys
import tracemalloc

import numpy as np
import pytest

import mathsim_jax.inference as inference
from mathsim_jax import __main__ as command_line
from mathsim_jax.inference import SentenceEncoder
from mathsim_jax.streaming import encode_file, vector_file
from retrieval_jax.errors import InputError
from retrieval_jax.huggingface import save_bert
from tests.bert_folders import tiny_config, tiny_params, write_tiny_bert

LINES = ["a b c", "", "fourier transforms", "x^2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    config = write_tiny_bert(path, words=("fourier",))
    # One layer is enough here.
    config = tiny_config(vocab_size=config.vocab_size, num_layers=1)
    save_bert(path, config, tiny_params(config))
    return path


@pytest.fixture(scope="module")
def encoder(folder):
    return SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".txt", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("separator", ["\n", "\r\n"])
def test_each_line_is_a_row(encoder, tmp_path, suffix, compress, end, separator):
    source = tmp_path / f"texts{suffix}"
    source.write_bytes(compress((separator.join(LINES) + end).encode()))
    counts = encode_file(encoder, source, tmp_path / "v.npy")
    assert counts == {"texts": 4}
    vectors = np.load(tmp_path / "v.npy", allow_pickle=False)
    np.testing.assert_array_equal(vectors, encoder.encode(LINES))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, "v.npy"])


def test_an_empty_file_gives_no_rows(encoder, tmp_path):
    (tmp_path / "texts.txt").touch()
    encode_file(encoder, tmp_path / "texts.txt", tmp_path / "v.npy", dtype="float16")
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.shape == (0, 16)
    assert vectors.dtype == np.float16


def test_damaged_lines_keep_their_rows_and_are_counted(encoder, tmp_path):
    source = tmp_path / "texts.txt"
    source.write_bytes(b"a b\n\xff\xfe c\nlast \x00x\n" + b"y " * (1 << 20))
    counts = encode_file(encoder, source, tmp_path / "v.npy", show_progress=True)
    assert counts == {"texts": 4, "lines with bytes that are not UTF-8": 1}
    expected = encoder.encode(["a b", "\ufffd\ufffd c", "last x", "y " * 100])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-6)


def test_rows_before_the_damage_of_an_archive_are_kept(encoder, tmp_path):
    lines = [f"text number {i}" for i in range(20_000)]
    whole = lzma.compress("\n".join(lines).encode())
    (tmp_path / "texts.xz").write_bytes(whole[: len(whole) * 3 // 4])
    counts = encode_file(encoder, tmp_path / "texts.xz", tmp_path / "v.npy")
    assert counts["damaged places in compressed files"] == 1
    assert 0 < counts["texts"] < 20_000
    assert len(np.load(tmp_path / "v.npy")) == counts["texts"]


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "v.npy"
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError), vector_file(target, 2, "float32") as write:
        write(np.ones((3, 2), np.float32))
        raise RuntimeError
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_the_header_holds_many_rows(tmp_path):
    with vector_file(tmp_path / "v.npy", 1, "float16") as write:
        for _ in range(12):
            write(np.ones((100_000, 1), np.float16))
    assert np.load(tmp_path / "v.npy", mmap_mode="r").shape == (1_200_000, 1)


def test_memory_does_not_grow_with_the_number_of_texts(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(inference, "BLOCK_TEXTS", {"cpu": 256})

    def peak(number):
        source = tmp_path / "texts.txt"
        with source.open("w") as file:
            file.writelines(f"x{i % 1000:03} in a group\n" for i in range(number))
        tracemalloc.start()
        encode_file(encoder, source, tmp_path / "v.npy")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(512)  # compiles
    few, many = peak(2_048), peak(20_000)
    vectors = np.load(tmp_path / "v.npy", mmap_mode="r")
    assert vectors.shape == (20_000, 16)
    assert many - few < vectors.nbytes / 4, (few, many)


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["mathsim_jax", *map(str, arguments)])
    command_line.main()


def test_command_encode(folder, encoder, tmp_path, monkeypatch, capsys):
    (tmp_path / "texts.txt").write_text("\n".join(LINES))
    out = tmp_path / "v.npy"
    options = ("--input", tmp_path / "texts.txt", "--output", out, "--normalize", "True")
    run(monkeypatch, "encode", "--model", folder, *options)
    np.testing.assert_array_equal(np.load(out), encoder.encode(LINES, normalize=True))
    assert capsys.readouterr().err == "4 texts\n"


def test_command_similarity(folder, encoder, monkeypatch, capsys):
    run(monkeypatch, "similarity", "--model", folder, "a b c", "a b d")
    expected = encoder.similarity("a b c", "a b d")[0, 0]
    assert float(capsys.readouterr().out) == pytest.approx(expected, abs=1e-4)


def test_an_absent_input_is_named(encoder, tmp_path, monkeypatch, capsys):
    with pytest.raises(InputError, match=r"none\.txt"):
        encode_file(encoder, tmp_path / "none.txt", tmp_path / "v.npy")
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, "encode", "--input", tmp_path / "none.txt", "--output", tmp_path / "v")
    assert "none.txt" in capsys.readouterr().err
