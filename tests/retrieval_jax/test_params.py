import jax.numpy as jnp
import numpy as np
import pytest

from retrieval_jax.params import fingerprint, flatten, unflatten

PARAMS = {"encoder": {"kernel": np.arange(6.0).reshape(2, 3)}, "bias": np.float32(1)}


def test_paths_and_back():
    assert set(flatten(PARAMS)) == {"encoder/kernel", "bias"}
    assert unflatten(flatten(PARAMS)) == PARAMS


def test_a_fingerprint_depends_on_contents_only():
    first = fingerprint(PARAMS)
    assert len(first) == 16
    again = {"bias": jnp.float32(1), "encoder": {"kernel": PARAMS["encoder"]["kernel"].copy()}}
    assert fingerprint(again) == first


@pytest.mark.parametrize(
    "change",
    [
        {"bias": np.float32(2)},
        {"bias": np.float64(1)},
        {"bias": np.ones(1, np.float32)},
        {"encoder": {"weight": PARAMS["encoder"]["kernel"]}},
        {"encoder": {"kernel": PARAMS["encoder"]["kernel"].T}},
        {"other": jnp.zeros(2, jnp.bfloat16)},
    ],
)
def test_another_value_shape_dtype_or_path_is_another(change):
    assert fingerprint(PARAMS | change) != fingerprint(PARAMS)
