"""Rankings against relevance judgements: measures, TREC files, score fusion, AUC.

A *ranking* is what TREC calls a run: for each query the scored documents. ("Run" means a training
run elsewhere in this code.) Measures are trec_eval's own, called through `ir_measures`.

Order within a query is trec_eval's everywhere in this module: scores rounded to float32 and
descending, equal scores by document id descending. Insertion order of dictionaries never counts.
"""

import collections
import contextlib
import dataclasses
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import ir_measures
import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics as sklearn_metrics

from retrieval_jax.errors import InputError

T = TypeVar("T")

Qrels = dict[str, dict[str, int]]
"""Relevance judgements: query id -> document id -> relevance (negative: in the pool, unjudged)."""

Ranking = dict[str, dict[str, float]]
"""Query id -> document id -> score, higher is better."""

FLOAT32_MAX = float(np.finfo(np.float32).max)
# trec_eval's time and memory grow with the largest relevance, until it hangs or crashes.
MAX_RELEVANCE = 1000


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
    _check_relevances(qrels)
    _check_scores(ranking)
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
    with contextlib.suppress(ValueError, NameError, AssertionError, KeyError, TypeError):
        measure = ir_measures.parse_measure(name)
        # trec_eval crashes on a cutoff of 0.
        smallest = min(measure.params.get("cutoff", 1), measure.params.get("rel", 1))
        if ir_measures.pytrec_eval.supports(measure) and smallest >= 1:
            return measure
    raise InputError(
        f"measures: trec_eval has no {name!r}",
        "Use names like RR, R@50, AP, nDCG, nDCG@10, P@5, Bpref, Bpref(rel=3); "
        "cutoffs and relevance levels start at 1.",
    )


def _check_relevances(qrels: Qrels) -> None:
    for query, documents in qrels.items():
        for document, relevance in documents.items():
            if not isinstance(relevance, int) or abs(relevance) > MAX_RELEVANCE:
                raise InputError(
                    f"qrels: document {document!r} for query {query!r} is judged {relevance!r}",
                    f"Relevances are Python ints from -{MAX_RELEVANCE} to {MAX_RELEVANCE}.",
                )


def _check_scores(ranking: Ranking) -> None:
    for query, documents in ranking.items():
        for document, score in documents.items():
            if not abs(score) <= FLOAT32_MAX:
                raise InputError(
                    f"ranking: the score of document {document!r} for query {query!r} is {score}",
                    "Scores are finite float32 numbers; leave out documents that must not rank.",
                )


def ranking_from_scores(
    query_ids: Sequence[str], document_ids: Sequence[str], scores: ArrayLike, k: int | None = None
) -> Ranking:
    """Makes a ranking of the k best documents per query out of all scores.

    Args:
        query_ids: distinct ids, one per row.
        document_ids: distinct ids, one per column.
        scores: `[queries, documents]` floats.
        k: how many documents to keep; None or more than there are keeps all.

    Raises:
        InputError: ids empty or duplicate, k below 1, shapes that disagree, or a score that is no
            finite float32 number.
    """
    scores = np.asarray(scores)
    _check_distinct("query_ids", query_ids)
    _check_distinct("document_ids", document_ids)
    _check_shape("scores", scores, (len(query_ids), len(document_ids)))
    if k is not None and k < 1:
        raise InputError(f"k is {k}", "Keep at least one document per query.")
    for row in np.flatnonzero(~(np.abs(scores) <= FLOAT32_MAX).all(axis=1)):
        _check_scores({query_ids[int(row)]: dict(zip(document_ids, scores[row], strict=True))})
    # Columns by descending id, so that a stable sort breaks ties as trec_eval does.
    columns = np.array(sorted(range(len(document_ids)), key=document_ids.__getitem__, reverse=True))
    indices = [
        columns[np.argsort(-row[columns].astype(np.float32), kind="stable")[:k]] for row in scores
    ]
    best_scores = np.take_along_axis(scores, np.array(indices), axis=1)
    return ranking_from_top_k(query_ids, document_ids, indices, best_scores)


def ranking_from_top_k(
    query_ids: Sequence[str], document_ids: Sequence[str], indices: ArrayLike, scores: ArrayLike
) -> Ranking:
    """Makes a ranking out of what `retrieval_jax.search.top_k` found.

    The search has cut ties at k by lower index. To cut them as trec_eval would, search documents
    that are sorted by descending id.

    Args:
        query_ids: distinct ids, one per row.
        document_ids: distinct ids; indices point into them.
        indices: `[queries, k]` integers, distinct within a row.
        scores: `[queries, k]` floats.

    Raises:
        InputError: ids empty or duplicate, shapes that disagree, an index out of range or twice in
            a row, or a score that is no finite float32 number.
    """
    indices, scores = np.asarray(indices), np.asarray(scores, dtype=np.float64)
    _check_distinct("query_ids", query_ids)
    _check_distinct("document_ids", document_ids)
    _check_shape("indices", indices, (len(query_ids), *indices.shape[-1:]))
    _check_shape("scores", scores, indices.shape)
    outside = indices[(indices < 0) | (indices >= len(document_ids))]
    if outside.size:
        raise InputError(
            f"indices: {outside[0]} is outside the {len(document_ids)} document_ids",
            "Give the ids of all searched documents, in the order of their vectors.",
        )
    ranking: Ranking = {}
    for query, row, row_scores in zip(query_ids, indices.tolist(), scores.tolist(), strict=True):
        documents = [document_ids[int(index)] for index in row]
        _check_distinct(f"indices of query {query!r}", documents)
        ranking[query] = dict(zip(documents, row_scores, strict=True))
    _check_scores(ranking)
    return ranking


def _check_distinct(name: str, ids: Sequence[str]) -> None:
    if len(ids) == 0:
        raise InputError(f"{name} is empty", "Give at least one.")
    item, count = collections.Counter(ids).most_common(1)[0]
    if count > 1:
        raise InputError(f"{name}: {item!r} occurs {count} times", "Remove the duplicates.")


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}", f"Its shape must be {shape}.")


def fuse(rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
    """Adds rankings up, after min-max normalising each one's scores within every query.

    A document that a ranking lacks counts as that ranking's lowest, 0; scores that are all equal
    normalise to 0.

    Raises:
        InputError: not one weight per ranking, or a score that is no finite float32 number.
    """
    if len(rankings) != len(weights):
        raise InputError(
            f"weights: {len(weights)} for {len(rankings)} rankings", "Give one weight per ranking."
        )
    fused: Ranking = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        _check_scores(ranking)
        for query, documents in ranking.items():
            total = fused.setdefault(query, {})
            lowest = min(documents.values(), default=0.0)
            spread = max(documents.values(), default=0.0) - lowest
            for document, score in documents.items():
                normalised = (score - lowest) / spread if spread else 0.0
                total[document] = total.get(document, 0.0) + weight * normalised
    return fused


def write_ranking(path: Path | str, ranking: Ranking, tag: str) -> None:
    """Writes a TREC run file: `query Q0 document rank score tag`, with trec_eval's ranks from 1.

    Raises:
        InputError: an id or the tag is empty or holds white space, or a score is no finite float32
            number.
    """
    _check_scores(ranking)
    rows = []
    for query, documents in sorted(ranking.items()):
        best_first = sorted(documents, key=lambda d: (np.float32(documents[d]), d), reverse=True)
        for rank, document in enumerate(best_first, start=1):
            rows.append((query, "Q0", document, str(rank), str(float(documents[document])), tag))
    _write_rows(path, rows)


def read_ranking(path: Path | str) -> Ranking:
    """Reads a TREC run file; like trec_eval it takes the order from the scores, not the ranks.

    Raises:
        InputError: a file that cannot be read, a malformed line, a document twice for one query.
    """
    return _read_rows(path, "query Q0 document rank score tag", "score", _finite_float)


def write_qrels(path: Path | str, qrels: Qrels) -> None:
    """Writes a TREC qrels file: `query 0 document relevance`.

    Raises:
        InputError: an id is empty or holds white space, or a relevance is no integer or beyond
            ±1000.
    """
    _check_relevances(qrels)
    rows = [
        (query, "0", document, f"{relevance:d}")
        for query, documents in sorted(qrels.items())
        for document, relevance in sorted(documents.items())
    ]
    _write_rows(path, rows)


def read_qrels(path: Path | str) -> Qrels:
    """Reads a TREC qrels file.

    Raises:
        InputError: a file that cannot be read, a malformed line, a document twice for one query.
    """
    return _read_rows(path, "query iteration document relevance", "relevance", int)


def _write_rows(path: Path | str, rows: list[tuple[str, ...]]) -> None:
    for row in rows:
        for field in row:
            if field.split() != [field]:
                raise InputError(
                    f"{path}: the id or tag {field!r} is empty or contains white space",
                    "TREC files separate fields by white space: replace it, for instance by '_'.",
                )
    Path(path).write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")


def _read_rows(
    path: Path | str, layout: str, value_field: str, parse: Callable[[str], T]
) -> dict[str, dict[str, T]]:
    """Reads rows of white-space separated fields into query -> document -> value."""
    names = layout.split()
    table: dict[str, dict[str, T]] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}", "Give a UTF-8 text file.") from error
    for number, line in enumerate(lines, start=1):
        place = f"{path}, line {number}"
        fields = line.split()
        if not fields:
            continue
        if len(fields) != len(names):
            raise InputError(f"{place}: {len(fields)} fields", f"A line must be `{layout}`.")
        query, document, text = fields[0], fields[2], fields[names.index(value_field)]
        try:
            value = parse(text)
        except ValueError:
            raise InputError(
                f"{place}: the {value_field} is {text!r}", "It must be a finite number."
            ) from None
        if document in table.setdefault(query, {}):
            raise InputError(
                f"{place}: document {document!r} occurs twice for query {query!r}",
                "Remove one of the lines.",
            )
        table[query][document] = value
    return table


def _finite_float(text: str) -> float:
    value = float(text)
    if not abs(value) <= FLOAT32_MAX:
        raise ValueError
    return value


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
    _check_shape("scores", scores, labels.shape)
    bad = np.argwhere(~np.isin(labels, (0, 1)) | ~np.isfinite(scores))
    if bad.size:
        place = tuple(bad[0].tolist())
        raise InputError(
            f"labels and scores hold {labels[place]} and {scores[place]} at {place}",
            "Labels are 0 or 1, scores are finite.",
        )
    return labels.astype(bool), scores
