"""Rankings and relevance judgements: made from scores, fused, as TREC files.

A *ranking* is what TREC calls a run: for each query the scored documents. ("Run" means a training
run elsewhere in this code.)

Order within a query is trec_eval's everywhere in this module: scores rounded to float32 and
descending, equal scores by document id descending. Insertion order of dictionaries never counts.
"""

import collections
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from retrieval_jax.errors import InputError
from retrieval_jax.files import whole_file

T = TypeVar("T")

Qrels = dict[str, dict[str, int]]
"""Relevance judgements: query id -> document id -> relevance (negative: in the pool, unjudged)."""

Ranking = dict[str, dict[str, float]]
"""Query id -> document id -> score, higher is better."""

FLOAT32_MAX = float(np.finfo(np.float32).max)
# trec_eval's time and memory grow with the largest relevance, until it hangs or crashes.
MAX_RELEVANCE = 1000


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
    check_shape("scores", scores, (len(query_ids), len(document_ids)))
    if k is not None and k < 1:
        raise InputError(f"k is {k}", "Keep at least one document per query.")
    for row in np.flatnonzero(~(np.abs(scores) <= FLOAT32_MAX).all(axis=1)):
        check_scores({query_ids[int(row)]: dict(zip(document_ids, scores[row], strict=True))})
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
    check_shape("indices", indices, (len(query_ids), *indices.shape[-1:]))
    check_shape("scores", scores, indices.shape)
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
    check_scores(ranking)
    return ranking


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
        check_scores(ranking)
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
    check_scores(ranking)
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
    layout = "query Q0 document rank score tag"
    return _read_rows(path, layout, "score", _finite_float, "a finite float32 number")


def write_qrels(path: Path | str, qrels: Qrels) -> None:
    """Writes a TREC qrels file: `query 0 document relevance`.

    Raises:
        InputError: an id is empty or holds white space, or a relevance is no integer or beyond
            ±1000.
    """
    check_relevances(qrels)
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
    layout = "query iteration document relevance"
    return _read_rows(path, layout, "relevance", int, "an integer")


def _write_rows(path: Path | str, rows: list[tuple[str, ...]]) -> None:
    for row in rows:
        for field in row:
            if field.split() != [field]:
                raise InputError(
                    f"{path}: the id or tag {field!r} is empty or contains white space",
                    "TREC files separate fields by white space: replace it, for instance by '_'.",
                )
    with whole_file(path) as partial:
        partial.write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")


def _read_rows(
    path: Path | str, layout: str, value_field: str, parse: Callable[[str], T], wanted: str
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
                f"{place}: the {value_field} is {text!r}", f"It must be {wanted}."
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


def check_relevances(qrels: Qrels) -> None:
    """Refuses relevances that trec_eval cannot hold, by an `InputError`."""
    for query, documents in qrels.items():
        for document, relevance in documents.items():
            if not isinstance(relevance, int) or abs(relevance) > MAX_RELEVANCE:
                raise InputError(
                    f"qrels: document {document!r} for query {query!r} is judged {relevance!r}",
                    f"Relevances are Python ints from -{MAX_RELEVANCE} to {MAX_RELEVANCE}.",
                )


def check_scores(ranking: Ranking) -> None:
    """Refuses scores that are no finite float32 numbers, by an `InputError`."""
    for query, documents in ranking.items():
        for document, score in documents.items():
            if not abs(score) <= FLOAT32_MAX:
                raise InputError(
                    f"ranking: the score of document {document!r} for query {query!r} is {score}",
                    "Scores are finite float32 numbers; leave out documents that must not rank.",
                )


def _check_distinct(name: str, ids: Sequence[str]) -> None:
    if len(ids) == 0:
        raise InputError(f"{name} is empty", "Give at least one.")
    item, count = collections.Counter(ids).most_common(1)[0]
    if count > 1:
        raise InputError(f"{name}: {item!r} occurs {count} times", "Remove the duplicates.")


def check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuses an array of another shape, by an `InputError` that calls it `name`."""
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}", f"Its shape must be {shape}.")
