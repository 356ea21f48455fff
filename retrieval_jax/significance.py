"""Is one ranking better than another? Paired tests and intervals over queries.

Values are per query and aligned: sort the queries of both evaluations alike, for instance
`[evaluation.per_query[query]["RR"] for query in queries]`.

Source: Smucker, Allan and Carterette, "A comparison of statistical significance tests for
information retrieval evaluation", CIKM 2007.
"""

from collections.abc import Sequence

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from retrieval_jax.errors import InputError

# Resampled values held at a time: 32 MiB of float64.
BLOCK_VALUES = 2**22


def paired_randomisation(
    a: ArrayLike, b: ArrayLike, resamples: int = 99_999, seed: int = 0
) -> float:
    """Computes the two-sided p-value of the mean difference by Fisher's randomisation test.

    Under the null hypothesis each query's two values may be swapped, which flips the sign of their
    difference. All sign patterns are tried where there are no more of them than `resamples`, else
    so many random ones.

    Args:
        a: `[queries]` values of one system.
        b: `[queries]` values of the other, same queries in the same order.
        resamples: random sign patterns; the smallest p-value is 2 / (resamples + 1).
        seed: of the random patterns.

    Raises:
        InputError: values that are no finite vector of two or more, or lengths that disagree.
    """
    a, b = _check_values("a", a), _check_values("b", b)
    if len(a) != len(b):
        raise InputError(
            f"a has {len(a)} values, b has {len(b)}", "Give both for the same queries."
        )
    differences = a - b
    # Of equal values the sign says nothing: recall differs on few queries.
    differences = differences[differences != 0]
    if len(differences) < 2:  # which scipy refuses; either sign is as extreme
        return 1.0
    # One sample of differences: scipy then flips signs, which is the same test in half the memory.
    result = scipy.stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=resamples,
        batch=max(1, BLOCK_VALUES // len(differences)),
        rng=seed,
    )
    return float(result.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p-values for multiple tests by Holm's step-down method, keeping their order.

    The i-th smallest of m p-values becomes the maximum over j <= i of `(m - j + 1) p_j`, at most 1.

    Raises:
        InputError: a p-value outside 0 to 1.
    """
    for position, p_value in enumerate(p_values):
        if not 0 <= p_value <= 1:
            raise InputError(f"p_values[{position}] is {p_value}", "P-values lie from 0 to 1.")
    ordered = np.sort(p_values)
    factors = np.arange(len(ordered), 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(ordered * factors), 1.0)
    ranks = np.argsort(np.argsort(p_values, kind="stable"))
    return adjusted[ranks].tolist()


def bootstrap_interval(
    values: ArrayLike, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Computes the bootstrap percentile interval of the mean.

    Args:
        values: `[queries]` values, two or more.
        level: the probability inside, between 0 and 1.
        resamples: means drawn with replacement.
        seed: of the draws.

    Returns:
        The lower and the upper end.

    Raises:
        InputError: values that are no finite vector of two or more, or a level outside 0 to 1.
    """
    values = _check_values("values", values)
    if not 0 < level < 1:
        raise InputError(f"level is {level}", "Give a probability such as 0.95.")
    interval = scipy.stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=level,
        method="percentile",
        n_resamples=resamples,
        batch=max(1, BLOCK_VALUES // len(values)),
        rng=seed,
    ).confidence_interval
    return float(interval.low), float(interval.high)


def _check_values(name: str, values: ArrayLike) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise InputError(
            f"{name} has shape {values.shape}", "Its shape must be [queries], two or more."
        )
    if not np.isfinite(values).all():
        position = np.flatnonzero(~np.isfinite(values))[0]
        raise InputError(f"{name}[{position}] is {values[position]}", "Give finite values.")
    return values
