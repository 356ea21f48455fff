"""A run of this Python and jax is taken up, and loaded, by those of another environment."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import docent_jax
from tests.bert_folders import write_tiny_bert

OTHER = os.environ.get("RETRIEVAL_OTHER_PYTHON", "")

pytestmark = pytest.mark.skipif(
    not OTHER, reason="RETRIEVAL_OTHER_PYTHON names no interpreter with this project installed"
)


def start(python, *args):
    """Runs a module by an interpreter, on two fake devices."""
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [python, "-m", *map(str, args)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE)


def finish(process):
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()


def test_an_interrupted_run_is_finished_under_another_version(tmp_path):
    worker = "tests.end_to_end.resume_worker"
    finish(start(sys.executable, worker, tmp_path / "whole"))
    interrupted = start(sys.executable, worker, tmp_path / "halved")
    while not (tmp_path / "halved" / "checkpoints" / "20").is_dir():
        assert interrupted.poll() is None
        time.sleep(0.05)
    interrupted.send_signal(signal.SIGTERM)
    interrupted.communicate(timeout=60)
    assert not (tmp_path / "halved" / "params.npz").exists()
    finish(start(OTHER, worker, tmp_path / "halved"))
    whole, halved = (dict(np.load(tmp_path / run / "params.npz")) for run in ("whole", "halved"))
    assert whole.keys() == halved.keys()
    for name, values in whole.items():
        np.testing.assert_allclose(halved[name], values, rtol=1e-3, atol=1e-5)


def test_a_trained_run_encodes_alike_under_another_version(tmp_path):
    write_tiny_bert(tmp_path / "encoder", words=("array", "the", "of", "return", "function"))
    train = ["experiments.docent.pretrain", "--preset", "smoke", "--run", tmp_path / "run"]
    train += ["--model.encoder", tmp_path / "encoder", "--data-dir", tmp_path / "data"]
    finish(start(sys.executable, *train))
    texts = ["return the array", "a function of the array"]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    encode = ["docent_jax", "encode", "--run", tmp_path / "run"]
    encode += ["--input", tmp_path / "texts.txt", "--output", tmp_path / "vectors.npy"]
    finish(start(OTHER, *encode))
    vectors = np.load(tmp_path / "vectors.npy")
    np.testing.assert_allclose(vectors, docent_jax.load(tmp_path / "run").encode(texts), atol=1e-5)
