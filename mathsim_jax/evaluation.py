"""Does the cosine of two texts tell whether they are alike? Measures of pairs and of rankings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike
from sklearn import metrics as sklearn_metrics

from mathsim_jax.data import TokenPairs
from mathsim_jax.datasets.pairs import Pairs
from retrieval_jax.encoding import EncodeBatch, encode
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation, evaluate
from retrieval_jax.rankings import Qrels, Ranking

PAIR_MEASURES = ("Spearman", "Pearson", "AP", "best accuracy")
RETRIEVAL_MEASURES = ("MAP", "RR")


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine of each row of `[n, dim]` with the same row of the other, float64 `[n]`.

    0 where a vector is zero.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.einsum("nd,nd->n", first, second) / np.where(norms > 0, norms, 1.0)


def pair_cosines(encode_batch: EncodeBatch, pairs: TokenPairs) -> np.ndarray:
    """Encodes each distinct text once; cosine of each pair, float64 `[pairs]`."""
    vectors = encode(encode_batch, pairs.table)
    return cosines(vectors[pairs.texts[:, 0]], vectors[pairs.texts[:, 1]])


def pair_measures(scores: ArrayLike, labels: ArrayLike) -> dict[str, float]:
    """Measures of pairs by their scores.

    Args:
        scores: `[pairs]`, cosines.
        labels: `[pairs]`, 0 or 1.

    Returns:
        "Spearman" and "Pearson" correlation of scores and labels; "AP", average precision of the
        positives; "best accuracy", at the threshold that is best for these very pairs: an upper
        bound of what a threshold chosen on others gives. Correlations of scores that are all equal
        are 0.

    Raises:
        InputError: shapes that disagree, scores that are not finite, other labels, or only one.
    """
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels)
    if scores.ndim != 1 or scores.shape != labels.shape:
        raise InputError(
            f"scores have shape {scores.shape}, labels {labels.shape}", "Both must be [pairs]."
        )
    if not np.isfinite(scores).all() or not np.isin(labels, (0, 1)).all():
        raise InputError("scores are not finite, or labels not 0 or 1", "Give one of each a pair.")
    if len(set(labels.tolist())) < 2:
        raise InputError("labels are all alike", "Give positives and negatives.")
    correlations = {"Spearman": 0.0, "Pearson": 0.0}
    if np.ptp(scores) > 0:
        spearman: Any = scipy.stats.spearmanr(scores, labels)
        pearson: Any = scipy.stats.pearsonr(scores, labels)
        correlations = {"Spearman": float(spearman[0]), "Pearson": float(pearson[0])}
    return correlations | {
        "AP": float(sklearn_metrics.average_precision_score(labels, scores)),
        "best accuracy": best_accuracy(scores, labels),
    }


def best_accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    """Share of `[pairs]` right if those above the best threshold are called positive."""
    false_positive, true_positive, _ = sklearn_metrics.roc_curve(
        labels, scores, drop_intermediate=False
    )
    positives = labels.sum()
    right = true_positive * positives + (1 - false_positive) * (len(labels) - positives)
    return float(right.max() / len(labels))


def retrieval_measures(
    pairs: Pairs, scores: np.ndarray, measures: Sequence[str] = RETRIEVAL_MEASURES
) -> Evaluation:
    """Ranks the second texts of each group, by their scores, for its first text.

    Only groups with a positive and a negative are ranked.

    Args:
        pairs: of several second texts a group.
        scores: `[pairs]`.
        measures: as in `retrieval_jax.evaluation`.

    Raises:
        InputError: no group with both labels.
    """
    qrels: Qrels = {}
    ranking: Ranking = {}
    for index, (group, label) in enumerate(zip(pairs.groups, pairs.labels.tolist(), strict=True)):
        qrels.setdefault(group, {})[str(index)] = label
        ranking.setdefault(group, {})[str(index)] = float(scores[index])
    mixed = {group: judged for group, judged in qrels.items() if len(set(judged.values())) == 2}
    if not mixed:
        raise InputError("no group has a positive and a negative", "Give more pairs a group.")
    return evaluate(mixed, ranking, measures)


def bootstrap_groups(
    systems: Mapping[str, np.ndarray],
    labels: np.ndarray,
    groups: Sequence[str],
    measures: Sequence[str] = ("Spearman", "AP"),
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, dict[str, np.ndarray]]:
    """Measures of all systems on the same resamples of whole groups.

    Pairs of one anchor are not independent: anchors are drawn with replacement, not pairs.

    Args:
        systems: name -> scores `[pairs]`, or `[seeds, pairs]`, of which measures are averaged.
        labels: `[pairs]`, 0 or 1.
        groups: of each pair.
        measures: of `pair_measures`.
        resamples: how many; those of one label only are drawn again.
        seed: of the draws.

    Returns:
        System -> measure -> `[resamples]`. Differences of systems are differences of these.

    Raises:
        InputError: fewer than two groups, or one label only.
    """
    names = sorted(set(groups))
    if len(names) < 2 or len(set(labels.tolist())) < 2:
        raise InputError(
            f"{len(names)} groups, labels {sorted(set(labels.tolist()))}",
            "Give two groups or more, and pairs of both labels.",
        )
    members = [np.flatnonzero(np.asarray(groups) == name) for name in names]
    rng = np.random.default_rng(seed)
    values = {name: {measure: np.empty(resamples) for measure in measures} for name in systems}
    done = 0
    while done < resamples:
        drawn = np.concatenate([members[i] for i in rng.integers(0, len(names), len(names))])
        if len(set(labels[drawn].tolist())) < 2:
            continue
        for name, scores in systems.items():
            runs = [pair_measures(row[drawn], labels[drawn]) for row in np.atleast_2d(scores)]
            for measure in measures:
                values[name][measure][done] = np.mean([run[measure] for run in runs])
        done += 1
    return values


def percentile_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Lower and upper end of the middle `level` of resampled values."""
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
