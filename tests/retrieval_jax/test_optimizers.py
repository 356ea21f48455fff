"""Schedules, decay masks, path patterns."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from retrieval_jax.errors import InputError
from retrieval_jax.optimizers import (
    OptimizerConfig,
    check_patterns,
    make_optimizer,
    make_schedule,
    match_paths,
)

PARAMS = {
    "encoder": {"dense": {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}},
    "norm": {"scale": jnp.ones(2)},
    "table": {"embedding": jnp.ones((3, 2))},
    "log_temperature": jnp.ones(()),
}


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", {0: 0.0, 5: 0.5, 10: 1.0, 55: 0.5, 100: 0.0}),
        ("cosine", {5: 0.5, 10: 1.0, 55: 0.5, 100: 0.0}),
        ("cosine_to_tenth", {5: 0.5, 10: 1.0, 55: 0.55, 100: 0.1}),
        ("constant", {5: 0.5, 10: 1.0, 55: 1.0, 100: 1.0}),
    ],
)
def test_schedule_values(schedule, expected):
    rate = make_schedule(OptimizerConfig(learning_rate=1.0, schedule=schedule, warmup=0.1), 100)
    for step, value in expected.items():
        assert rate(step) == pytest.approx(value, abs=1e-6)


def test_without_warmup_the_first_step_has_the_full_rate():
    rate = make_schedule(OptimizerConfig(learning_rate=0.3, warmup=0.0), 10)
    assert rate(0) == pytest.approx(0.3)


def updates(config, grads=None, steps=10):
    optimizer = make_optimizer(config, steps)
    grads = jax.tree.map(jnp.zeros_like, PARAMS) if grads is None else grads
    return optimizer.update(grads, optimizer.init(PARAMS), PARAMS)[0]


def test_decay_spares_biases_norms_scalars_and_what_is_named():
    config = OptimizerConfig(
        learning_rate=0.1, warmup=0.0, weight_decay=0.5, schedule="constant", no_decay=("^table/",)
    )
    decayed = updates(config)
    np.testing.assert_allclose(decayed["encoder"]["dense"]["kernel"], -0.05, rtol=1e-6)
    for leaf in (
        decayed["encoder"]["dense"]["bias"],
        decayed["norm"]["scale"],
        decayed["table"]["embedding"],
        decayed["log_temperature"],
    ):
        np.testing.assert_array_equal(leaf, 0.0)


def test_first_adam_step_is_the_rate_in_the_direction_of_the_gradient():
    grads = jax.tree.map(jnp.ones_like, PARAMS)
    config = OptimizerConfig(
        learning_rate=0.1,
        warmup=0.0,
        weight_decay=0.0,
        schedule="constant",
        scaled=(("^table/", 5.0),),
        frozen=("^norm/",),
    )
    step = updates(config, grads)
    np.testing.assert_allclose(step["encoder"]["dense"]["bias"], -0.1, rtol=1e-4)
    np.testing.assert_allclose(step["table"]["embedding"], -0.5, rtol=1e-4)
    np.testing.assert_array_equal(step["norm"]["scale"], 0.0)


def test_clipping_takes_the_norm_of_trained_parameters_only():
    config = OptimizerConfig(clip_norm=1.0, frozen=("encoder", "norm", "log_temperature"))
    grads = jax.tree.map(jnp.ones_like, PARAMS)
    big = grads | {"encoder": jax.tree.map(lambda g: g * 1e6, grads["encoder"])}
    for tree in (grads, big):
        optimizer = make_optimizer(config, 10)
        _, state = optimizer.update(tree, optimizer.init(PARAMS), PARAMS)
        moments = [leaf for leaf in jax.tree.leaves(state) if leaf.shape == (3, 2)]
        # First moment: (1 - b1) * clipped gradient, whose norm is 1 over 6 equal entries.
        np.testing.assert_allclose(moments[0], 0.1 / np.sqrt(6), rtol=1e-4)


def test_frozen_parameters_have_no_moments():
    everything = optax.tree.size(make_optimizer(OptimizerConfig(), 10).init(PARAMS))
    frozen = OptimizerConfig(frozen=("^table/",))
    assert everything - optax.tree.size(make_optimizer(frozen, 10).init(PARAMS)) == 2 * 6


def test_match_paths():
    matched = match_paths(PARAMS, ("bias$", "^table"))
    assert matched["encoder"]["dense"] == {"kernel": False, "bias": True}
    assert matched["table"] == {"embedding": True}


def test_patterns_that_match_nothing_or_everything_are_refused():
    check_patterns(OptimizerConfig(frozen=("^encoder/",)), PARAMS)
    with pytest.raises(InputError, match="'encodr' matches no parameter"):
        check_patterns(OptimizerConfig(frozen=("encodr",)), PARAMS)
    with pytest.raises(InputError, match="freezes every parameter"):
        check_patterns(OptimizerConfig(frozen=("",)), PARAMS)
