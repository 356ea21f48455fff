"""Measures of rankings against relevance judgements, and of label scores.

Those of rankings are trec_eval's own, called through `ir_measures`; they order documents as
`retrieval_jax.rankings` does.
"""

import contextlib
import dataclasses
import re
import statistics
from collections.abc import Sequence

import ir_measures
import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics as sklearn_metrics

from retrieval_jax.errors import InputError
from retrieval_jax.rankings import Qrels, Ranking, check_relevances, check_scores, check_shape

# Cutoffs and levels from 1: trec_eval crashes on a cutoff of 0.
MEASURE_NAME = re.compile(
    r"(?P<name>\w+)(\(rel=(?P<rel>[1-9]\d*)\))?(@(?P<cutoff>[1-9]\d*))?", re.ASCII
)
MEASURES = ("AP", "Bpref", "MAP", "MRR", "NDCG", "P", "R", "RR", "Rprec", "Success", "nDCG")


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
        InputError: an unknown measure, a score that is no finite float32 number, a relevance that
            is no integer or beyond ±1000, or not one query in both qrels and ranking.
    """
    parsed = {name: _parse_measure(name) for name in measures}
    check_relevances(qrels)
    check_scores(ranking)
    # pytrec_eval takes nothing but Python floats.
    judged = {
        query: {document: float(score) for document, score in ranking[query].items()}
        for query in qrels
        if query in ranking
    }
    if not judged:
        raise InputError(
            f"none of the {len(qrels)} queries in the qrels is among the {len(ranking)} queries "
            "in the ranking",
            "Check that both use the same query ids.",
        )
    evaluator = ir_measures.pytrec_eval.evaluator(parsed.values(), qrels)
    values = {
        (metric.query_id, metric.measure): float(metric.value)
        for metric in evaluator.iter_calc(judged)
    }
    per_query = {
        query: {name: values[query, measure] for name, measure in parsed.items()}
        for query in sorted(qrels)
    }
    mean = {name: statistics.fmean(row[name] for row in per_query.values()) for name in parsed}
    return Evaluation(per_query, mean)


def _parse_measure(name: str) -> ir_measures.Measure:
    # By ourselves: the library's parser needs parts of `ast` that Python 3.14 no longer has.
    match = MEASURE_NAME.fullmatch(name)
    if match and match["name"] in MEASURES:
        measure = getattr(ir_measures, match["name"])
        if match["rel"]:
            measure = measure(rel=int(match["rel"]))
        if match["cutoff"]:
            measure = measure @ int(match["cutoff"])
        with contextlib.suppress(ValueError, AssertionError, KeyError, TypeError):
            if ir_measures.pytrec_eval.supports(measure):
                return measure
    raise InputError(
        f"measures: trec_eval has no {name!r}",
        "Use names like RR, R@50, AP, nDCG, nDCG@10, P@5, Bpref, Bpref(rel=3); "
        "cutoffs and relevance levels start at 1.",
    )


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


def label_ranking_average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Computes the mean label-ranking average precision over the rows that have a positive.

    Tied labels share the worst of their ranks, as scikit-learn has it.

    Args:
        labels: `[rows, labels]`, 0 or 1.
        scores: `[rows, labels]` floats.

    Raises:
        InputError: shapes that disagree, other labels, scores that are not finite, or no positive.
    """
    labels, scores = _check_labels(labels, scores)
    if labels.ndim != 2:
        raise InputError(f"labels has shape {labels.shape}", "Its shape must be [rows, labels].")
    rows = labels.any(axis=1)
    if not rows.any():
        raise InputError("labels hold no positive", "Give at least one.")
    return float(sklearn_metrics.label_ranking_average_precision_score(labels[rows], scores[rows]))


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
