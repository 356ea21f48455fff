"""Measures of rankings against relevance judgements, and of label scores.

Those of rankings are equal to what trec_eval computes, and order documents as
`retrieval_jax.rankings` does.
"""

import bisect
import contextlib
import dataclasses
import functools
import inspect
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics as sklearn_metrics

from retrieval_jax import ranking_measures
from retrieval_jax.errors import InputError
from retrieval_jax.ranking_measures import Judged
from retrieval_jax.rankings import (
    FLOAT32_MAX,
    MAX_RELEVANCE,
    Qrels,
    Ranking,
    check_relevances,
    check_scores,
    check_shape,
)

MEASURE_NAME = re.compile(
    r"(?P<name>\w+)(\(rel=(?P<level>[1-9]\d*)\))?(@(?P<cutoff>[1-9]\d*))?", re.ASCII
)
MEASURES: Mapping[str, Callable[..., np.ndarray]] = {
    "AP": ranking_measures.average_precision,
    "Bpref": ranking_measures.bpref,
    "MAP": ranking_measures.average_precision,
    "MRR": ranking_measures.reciprocal_rank,
    "NDCG": ranking_measures.ndcg,
    "P": ranking_measures.precision,
    "R": ranking_measures.recall,
    "RR": ranking_measures.reciprocal_rank,
    "Rprec": ranking_measures.r_precision,
    "Success": ranking_measures.success,
    "nDCG": ranking_measures.ndcg,
}
"""Name -> function of `ranking_measures`; what may stand after a name are its parameters."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The measures of one ranking.

    Attributes:
        per_query: query id -> measure -> value, for every judged query, in sorted order.
        mean: measure -> mean over all judged queries.
    """

    per_query: dict[str, dict[str, float]]
    mean: dict[str, float]


def evaluate(
    qrels: Qrels, ranking: Ranking, measures: Sequence[str] = ("RR", "R@50", "R@100")
) -> Evaluation:
    """Computes trec_eval's measures of a ranking, per query and as their mean.

    A judged query that the ranking lacks, or that has no relevant document, counts 0 in the mean
    (trec_eval -c). Queries of the ranking without judgements are left out.

    Args:
        qrels: the judgements; relevance 1 or more is relevant unless the measure says `rel=`.
        ranking: the scored documents.
        measures: names as in `ir_measures`, such as "RR" (MRR), "R@50", "AP", "nDCG", "nDCG@10",
            "P@5", "Bpref", "Bpref(rel=3)". They are also the keys of the result.

    Raises:
        InputError: an unknown measure, a score of a judged query that is no finite float32 number,
            a relevance that is no integer or beyond ±1000, or not one query in both qrels and
            ranking.
    """
    parsed = {name: _parse_measure(name) for name in measures}
    if not any(query in ranking for query in qrels):
        raise InputError(
            f"none of the {len(qrels)} queries in the qrels is among the {len(ranking)} queries "
            "in the ranking",
            "Check that both use the same query ids.",
        )
    queries = sorted(qrels)
    judged = _judged(queries, qrels, ranking)
    columns = {name: measure(judged).tolist() for name, measure in parsed.items()}
    per_query = {
        query: {name: column[number] for name, column in columns.items()}
        for number, query in enumerate(queries)
    }
    mean = {name: statistics.fmean(column) for name, column in columns.items()}
    return Evaluation(per_query, mean)


def _parse_measure(name: str) -> Callable[[Judged], np.ndarray]:
    match = MEASURE_NAME.fullmatch(name)
    if match and match["name"] in MEASURES:
        measure = MEASURES[match["name"]]
        given = {key: int(match[key]) for key in ("level", "cutoff") if match[key]}
        with contextlib.suppress(TypeError):
            inspect.signature(measure).bind(None, **given)
            return functools.partial(measure, **given)
    raise InputError(
        f"measures: trec_eval has no {name!r}",
        "Use names like RR, R@50, AP, nDCG, nDCG@10, P@5, Bpref, Bpref(rel=3); "
        "cutoffs and relevance levels start at 1.",
    )


def _judged(queries: Sequence[str], qrels: Qrels, ranking: Ranking) -> Judged:
    """The judgements of `queries` and the ranks of what they judge."""
    relevances = [relevance for query in queries for relevance in qrels[query].values()]
    if (
        not {int}.issuperset(map(type, relevances))
        or max(map(abs, relevances), default=0) > MAX_RELEVANCE
    ):
        check_relevances(qrels)
    ranks = np.concatenate(
        [_ranks(query, list(qrels[query]), ranking.get(query, {})) for query in queries]
    )
    numbers = np.repeat(np.arange(len(queries)), [len(qrels[query]) for query in queries])
    order = np.lexsort((ranks, numbers))
    return Judged(numbers, ranks[order], np.array(relevances, np.int64)[order], len(queries))


def _ranks(query: str, names: Sequence[str], documents: dict[str, float]) -> np.ndarray:
    """Ranks of documents in a query's ranking, float64 `[names]`; infinite for one it lacks.

    Without an order of all documents: before one are those of larger scores and, of equal ones,
    those of larger ids.
    """
    scores = np.fromiter(documents.values(), np.float64, len(documents))
    if not np.abs(scores).max(initial=0) <= FLOAT32_MAX:
        check_scores({query: documents})
    scores = scores.astype(np.float32)
    own = np.array([documents.get(name, math.nan) for name in names], np.float32)
    ascending = np.sort(scores)
    # Methods: the functions of the same names take as long to call them as these to search.
    not_above, below = ascending.searchsorted(own, "right"), ascending.searchsorted(own, "left")
    ranks = np.where(np.isnan(own), np.inf, len(scores) - not_above + 1.0)
    tied = (not_above - below > 1).nonzero()[0].tolist()
    ids = list(documents) if tied else []
    groups: dict[float, list[str]] = {}
    for index in tied:
        score = float(own[index])
        if score not in groups:
            groups[score] = sorted(ids[equal] for equal in np.flatnonzero(scores == own[index]))
        ranks[index] += len(groups[score]) - bisect.bisect_right(groups[score], names[index])
    return ranks


def roc_auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Computes the area under the ROC curve over all pairs together (micro average).

    Args:
        labels: 0 or 1, of any shape.
        scores: floats of the same shape.

    Raises:
        InputError: shapes that disagree, other labels, scores that are not finite, or labels that
            are all equal.
    """
    labels, scores = _check_labels(labels, scores)
    if labels.all() or not labels.any():
        raise InputError("labels are all alike", "Give at least one positive and one negative.")
    return float(sklearn_metrics.roc_auc_score(labels.ravel(), scores.ravel()))


def label_ranking_average_precisions(labels: ArrayLike, scores: ArrayLike) -> np.ndarray:
    """Computes each row's label-ranking average precision.

    Tied labels share the worst of their ranks, as scikit-learn has it.

    Args:
        labels: `[rows, labels]`, 0 or 1.
        scores: `[rows, labels]` floats.

    Returns:
        float64 `[rows]`, NaN for a row without a positive.

    Raises:
        InputError: shapes that disagree, other labels, scores that are not finite, or no positive.
    """
    labels, scores = _check_labels(labels, scores)
    if labels.ndim != 2:
        raise InputError(f"labels has shape {labels.shape}", "Its shape must be [rows, labels].")
    rows = np.flatnonzero(labels.any(axis=1))
    if not rows.size:
        raise InputError("labels hold no positive", "Give at least one.")
    precisions = np.full(len(labels), np.nan)
    for row in rows:
        precisions[row] = sklearn_metrics.label_ranking_average_precision_score(
            labels[[row]], scores[[row]]
        )
    return precisions


def _check_labels(labels: ArrayLike, scores: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    labels, scores = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    check_shape("scores", scores, labels.shape)
    bad = np.argwhere(~np.isin(labels, (0, 1)) | ~np.isfinite(scores))
    if bad.size:
        place = tuple(bad[0].tolist())
        raise InputError(
            f"labels and scores hold {labels[place]} and {scores[place]} at {place}",
            "Labels are 0 or 1, scores are finite.",
        )
    return labels.astype(bool), scores
