"""Two processes train each package's model as one does: parameters, measures, log, files."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import gcl_jax
import ltr_jax
import mathsim_jax
from retrieval_jax.checkpoints import restore_params
from tests.bert_folders import write_tiny_bert
from tests.end_to_end.package_worker import RUNS, SCORES, train_all
from tests.end_to_end.test_processes import end, free_port, log_of
from tests.mathsim_jax.toy_pairs import FILLERS, SUBJECTS

pytestmark = pytest.mark.long


def start(folder, encoder):
    """Starts two processes of one device each."""
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    env["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    join = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process"]
    worker = ["tests.end_to_end.package_worker", str(folder), encoder]
    return [
        subprocess.Popen(
            [sys.executable, "-m", "retrieval_jax.distributed", *join, rank, *worker],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folders of the runs of one process with eight devices, and of two; what the two printed."""
    folder = tmp_path_factory.mktemp("packages")
    encoder = str(folder / "encoder")
    write_tiny_bert(folder / "encoder", words=(*SUBJECTS, *FILLERS, "\\"))
    processes = start(folder / "two", encoder)
    try:
        train_all(folder / "one", encoder)
    finally:
        codes, said = end(processes, timeout=540)
    assert codes == [0, 0], said
    return folder / "one", folder / "two", said


def files_of(run):
    """Files of a run, but for those of checkpoints, whose names tell processes."""
    paths = (path.relative_to(run) for path in run.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if not {"best", "checkpoints"} & set(path.parts))


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_train_as_one(trained, name):
    one, two = (folder / name for folder in trained[:2])
    expected, params = restore_params(one), restore_params(two)
    for (path, ours), theirs in zip(
        jax.tree_util.tree_leaves_with_path(params), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5, err_msg=str(path))
    log = log_of(two)
    assert [entry["step"] for entry in log if entry["kind"] == "dev"] == [3, 6]
    assert [entry["step"] for entry in log if entry["kind"] == "train"] == [2, 4, 6]
    for ours, theirs in zip(log, log_of(one), strict=True):
        assert ours.pop("kind") == theirs.pop("kind")
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)
    assert files_of(two) == files_of(one)


def test_the_runs_of_two_processes_can_be_used(trained):
    two = trained[1]
    formula = gcl_jax.load(two / "formulas")
    assert formula.encode(["x"]).shape[0] == 1
    assert ltr_jax.load(two / "ranker").score("qtopic1", ["dtopic1"]).shape == (1,)
    for name in ("adaptation", "fine_tuning"):
        encoder = mathsim_jax.SentenceEncoder.from_pretrained(two / name / "encoder")
        assert encoder.encode(["a finite graph"]).shape == (1, 16)


def test_scores_of_a_cross_validation_are_those_of_one_process(trained):
    one, two = (np.load(folder / "fine_tuning" / SCORES) for folder in trained[:2])
    np.testing.assert_allclose(two, one, atol=1e-4)


def test_process_0_alone_prints(trained):
    (out, err), (other_out, other_err) = trained[2]
    assert out.count("training") == len(RUNS)
    assert "step 6/6" in err
    assert "training" not in other_out
    assert "step" not in other_err
