"""Optimizers: AdamW with schedules, clipping, decay mask, per-path learning rates, freezing."""

import dataclasses
import re
from typing import Any, Literal

import jax
import optax

from retrieval_jax.errors import InputError
from retrieval_jax.sharding import path_name


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW (Loshchilov & Hutter, 2019).

    Attributes:
        learning_rate: peak.
        schedule: shape after the warm-up; linear and cosine fall to zero at the last step,
            cosine_to_tenth to a tenth of the peak.
        warmup: share of all steps in which the rate rises from zero, linearly.
        weight_decay: decoupled decay of matrices; biases, norms and scalars are spared.
        no_decay: regular expressions of further parameter paths that are spared.
        clip_norm: largest global norm of the gradient of trained parameters; None = no clipping.
        b1: decay of the first moment.
        b2: decay of the second moment.
        eps: added to the root of the second moment.
        scaled: (regular expression of parameter paths, factor on their learning rate).
        frozen: regular expressions of parameter paths that are not trained; "" matches all.
    """

    learning_rate: float = 2e-5
    schedule: Literal["linear", "cosine", "cosine_to_tenth", "constant"] = "linear"
    warmup: float = 0.1
    weight_decay: float = 0.01
    no_decay: tuple[str, ...] = ()
    clip_norm: float | None = 1.0
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    scaled: tuple[tuple[str, float], ...] = ()
    frozen: tuple[str, ...] = ()


def make_schedule(config: OptimizerConfig, steps: int) -> optax.Schedule:
    """Learning rate by step: warm-up, then the configured shape over the rest of `steps`."""
    warmup = round(config.warmup * steps)
    rest = max(steps - warmup, 1)
    after = {
        "linear": optax.linear_schedule(config.learning_rate, 0.0, rest),
        "cosine": optax.cosine_decay_schedule(config.learning_rate, rest),
        "cosine_to_tenth": optax.cosine_decay_schedule(config.learning_rate, rest, alpha=0.1),
        "constant": optax.constant_schedule(config.learning_rate),
    }[config.schedule]
    rise = optax.linear_schedule(0.0, config.learning_rate, max(warmup, 1))
    return optax.join_schedules([rise, after], [warmup])


def make_optimizer(config: OptimizerConfig, steps: int) -> optax.GradientTransformation:
    """Builds the optimizer; frozen parameters have no moments, and no part in the clipping norm."""
    parts = [] if config.clip_norm is None else [optax.clip_by_global_norm(config.clip_norm)]
    parts += [
        optax.scale_by_adam(config.b1, config.b2, config.eps),
        optax.add_decayed_weights(config.weight_decay, lambda params: _decayed(params, config)),
        optax.scale_by_learning_rate(make_schedule(config, steps)),
    ]
    for pattern, factor in config.scaled:
        parts.append(
            optax.masked(optax.scale(factor), lambda tree, p=pattern: match_paths(tree, (p,)))
        )
    return optax.multi_transform(
        {"trained": optax.chain(*parts), "frozen": optax.set_to_zero()},
        lambda params: jax.tree.map(
            lambda frozen: "frozen" if frozen else "trained", match_paths(params, config.frozen)
        ),
    )


def check_patterns(config: OptimizerConfig, params: Any) -> None:
    """Refuses patterns that match no parameter, most likely typos, and freezing everything.

    Raises:
        InputError: with the pattern and the parameter paths there are.
    """
    patterns = (*config.frozen, *config.no_decay, *(pattern for pattern, _ in config.scaled))
    leaves = jax.tree_util.tree_leaves_with_path(params)
    names = [path_name(path) for path, _ in leaves]
    for pattern in patterns:
        if not any(re.search(pattern, name) for name in names):
            raise InputError(
                f"optimizer pattern {pattern!r} matches no parameter",
                f"Paths look like {names[0]!r}, {names[-1]!r}.",
            )
    if all(jax.tree.leaves(match_paths(params, config.frozen))):
        raise InputError(
            f"frozen={config.frozen} freezes every parameter", "Leave something to train."
        )


def match_paths(tree: Any, patterns: tuple[str, ...]) -> Any:
    """A tree of bools: does a leaf's path match one of the regular expressions?"""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: any(re.search(pattern, path_name(path)) for pattern in patterns), tree
    )


def _decayed(params: Any, config: OptimizerConfig) -> Any:
    def decays(path: jax.tree_util.KeyPath, leaf: Any) -> bool:
        name = path_name(path)
        is_bias = name.rsplit("/", 1)[-1] in ("bias", "scale") or leaf.ndim == 0
        return not is_bias and not any(re.search(pattern, name) for pattern in config.no_decay)

    return jax.tree_util.tree_map_with_path(decays, params)
