"""The share of the rate of products that a step reaches, at toy sizes."""

import os

import numpy as np
import pytest

from benchmarks import measure, roofline
from benchmarks.device import bert_flops
from retrieval_jax.pretrained import load_pretrained
from tests.bert_folders import write_tiny_bert

OPTIONS = measure.Options(repeats=1, threads=len(os.sched_getaffinity(0)))


@pytest.mark.long
def test_items_are_the_operations_of_a_run(tmp_path):
    write_tiny_bert(tmp_path)
    command = roofline.Command(
        OPTIONS, str(tmp_path), pairs=2, length=16, batches=2, sizes=(8, 16), gflop=2e-5
    )
    record = measure.compare("roofline", roofline.prepare, command, OPTIONS)
    assert list(record["sides"]) == ["ours", "jax_8", "jax_16", "numpy_8", "numpy_16"]
    encoder = load_pretrained(str(tmp_path))
    step = roofline.step_side(encoder, command)
    # Two batches of two pairs of texts.
    assert step.items * 1e9 == pytest.approx(bert_flops(encoder.config, 8, 16, 0))


def test_products_are_as_many_as_asked_for():
    side = roofline.product_side(np.asarray, np.matmul, 8, 2e-5)
    assert side.items * 1e9 == pytest.approx(20 * 2 * 8**3)  # 19.5 products, rounded up
    assert abs(side.run()) <= 1


def test_products_that_differ_are_refused():
    outcomes = {"ours": np.ones(1), "jax_8": np.array(0.5), "numpy_8": np.array(0.6)}
    with pytest.raises(measure.DisagreementError, match=r"jax_8 and numpy_8 differ by 0\.1"):
        roofline.check_products(outcomes)
