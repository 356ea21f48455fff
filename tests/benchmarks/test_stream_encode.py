"""A stream of generated texts: what is written, what is seen of the process, what is refused."""

import json
import sys

import numpy as np
import pytest

from benchmarks import stream_encode
from benchmarks.measure import DisagreementError
from benchmarks.stream_encode import Look
from experiments.machine import resident_mib
from tests.bert_folders import write_tiny_bert


def test_texts_are_words_in_the_bounds_and_the_same_again(tmp_path):
    words = ["ring", "group", "field"]
    digests = [
        stream_encode.write_texts(tmp_path / f"{i}.txt", words, number, seed)
        for i, (number, seed) in enumerate([(300, 0), (300, 0), (300, 1)])
    ]
    assert digests[0] == digests[1] != digests[2]
    lines = (tmp_path / "0.txt").read_text().splitlines()
    assert len(lines) == 300
    lengths = {len(line.split()) for line in lines}
    assert (min(lengths), max(lengths)) == stream_encode.WORDS_PER_TEXT
    assert {word for line in lines for word in line.split()} == set(words)


def test_each_quarter_has_its_own_peak():
    looks = [Look(0, 50.0), Look(24, 90.0), Look(25, 60.0), Look(49, 61.0), Look(99, 7.0)]
    with pytest.raises(DisagreementError, match="without a look"):
        stream_encode.quarter_peaks([*looks, Look(100, 8.0)], 100)
    looks = [*looks, Look(60, 62.0), Look(100, 8.0)]
    assert stream_encode.quarter_peaks(looks, 100) == [90.0, 61.0, 62.0, 8.0]


def test_a_process_is_seen_while_it_writes(tmp_path):
    # 64 MiB, then 3 rows of 2 in a file that is renamed when it is whole.
    program = (
        "import pathlib, sys, time; held = b'x' * 2**26; out = pathlib.Path(sys.argv[1]);"
        "part = out.with_name(out.name + '.part'); part.write_bytes(bytes(24)); time.sleep(0.3);"
        "part.rename(out); time.sleep(0.2)"
    )
    vectors = tmp_path / "v.npy"
    looks = stream_encode.watch([sys.executable, "-c", program, str(vectors)], vectors, dim=2)
    rows = [look.rows for look in looks]
    assert rows == sorted(rows)
    assert rows[-1] == 3
    assert 64 < max(look.resident for look in looks) < 128
    assert resident_mib("VmRSS") > 1
    with pytest.raises(stream_encode.subprocess.CalledProcessError):
        stream_encode.watch([sys.executable, "-c", "raise SystemExit(3)"], vectors, dim=2)


def test_vectors_that_are_missing_or_not_finite_are_refused(tmp_path):
    vectors = np.zeros((5, 2), np.float32)
    np.save(tmp_path / "v.npy", vectors)
    stream_encode.check_vectors(tmp_path / "v.npy", 5, 2)
    with pytest.raises(DisagreementError, match=r"\(5, 2\), not \(6, 2\)"):
        stream_encode.check_vectors(tmp_path / "v.npy", 6, 2)
    vectors[4, 1] = np.nan
    np.save(tmp_path / "v.npy", vectors)
    with pytest.raises(DisagreementError, match="not finite"):
        stream_encode.check_vectors(tmp_path / "v.npy", 5, 2)


@pytest.mark.long
def test_the_command_line_streams_through_a_tiny_model(tmp_path, monkeypatch, capsys):
    words = ("ring", "group", "field", "sum")
    write_tiny_bert(tmp_path / "bert", words=words)
    output = tmp_path / "results" / "stream.json"
    arguments = ["--tiny", "--texts", "9000", "--encoder", tmp_path / "bert", "--output", output]
    monkeypatch.setattr("sys.argv", ["stream_encode", *map(str, arguments)])
    stream_encode.main()
    record = json.loads(output.read_text())
    assert record == json.loads(capsys.readouterr().out)
    assert record["settings"] == {"encoder": "bert", "layers": 1, "dim": 32, "texts": 9000}
    assert len(record["quarters_mib"]) == 4
    assert record["sides"]["ours"]["peak_mib"] == round(max(record["quarters_mib"]))
    assert record["passed"]
