"""The paper's protocol (section 3.1): NDCG without cut-off at each difficulty, runs compared.

A harder level has the candidates of the easier ones and more. So a system scores the candidates of
the hardest level once, and each level takes its part of that ranking.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ltr_jax.datasets.collection import DIFFICULTIES, Topics
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation, evaluate
from retrieval_jax.rankings import Qrels, Ranking
from retrieval_jax.significance import holm, paired_randomisation

MEASURE = "nDCG"
SIGNIFICANT = 0.05

Levels = dict[int, Ranking]
"""Difficulty -> ranking of that level's candidates."""


def qrels_of(topics: Topics) -> Qrels:
    """The judgements of a split's queries, as `retrieval_jax.evaluation` takes them.

    A query without relevant documents has an empty entry: it is judged, and counts 0.
    """
    return {query: dict(topics.qrels.get(query, {})) for query in topics.query_ids}


def without_relevant(topics: Topics) -> tuple[str, ...]:
    """The queries that have no relevant document: each counts 0, whatever the system."""
    return tuple(query for query in topics.query_ids if not topics.qrels.get(query))


def at_difficulty(ranking: Ranking, topics: Topics, difficulty: int) -> Ranking:
    """The part of a ranking that belongs to an easier level.

    Args:
        ranking: of all candidates of the hardest level, of every query.
        topics: the split.
        difficulty: irrelevant documents of each query.

    Raises:
        InputError: a query or a candidate has no score; no such level.
    """
    level: Ranking = {}
    for query, documents in topics.candidates_at(difficulty).items():
        scores = ranking.get(query, {})
        missing = [document for document in documents if document not in scores]
        if missing:
            raise InputError(
                f"The ranking lacks {len(missing)} of the {len(documents)} candidates of query "
                f"{query!r}, the first of them {missing[0]!r}.",
                "Score all candidates of each query (`Topics.candidates`).",
            )
        level[query] = {document: scores[document] for document in documents}
    return level


def to_levels(
    ranking: Ranking, topics: Topics, difficulties: Sequence[int] = DIFFICULTIES
) -> Levels:
    """Cuts a ranking into levels.

    Args:
        ranking: of all candidates of the hardest level, of every query.
        topics: the split.
        difficulties: levels; those beyond what the split has are left out, but for the hardest.

    Raises:
        InputError: a candidate has no score; the split has nothing to rank.
    """
    levels = sorted({min(difficulty, topics.hardest) for difficulty in difficulties})
    return {level: at_difficulty(ranking, topics, level) for level in levels}


def evaluate_levels(levels: Levels, topics: Topics) -> dict[int, Evaluation]:
    """`MEASURE` of each level, by trec_eval.

    Args:
        levels: of `to_levels`.
        topics: the split.
    """
    qrels = qrels_of(topics)
    return {level: evaluate(qrels, ranking, (MEASURE,)) for level, ranking in levels.items()}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two systems in one cell of a table.

    Attributes:
        baseline: mean NDCG over runs and queries of the first system.
        system: of the second.
        gain: their difference.
        gains: of each pair of corresponding runs.
        p_value: of the gain, by the paired randomisation test over queries.
        adjusted: `p_value` after Holm's correction over all cells.
    """

    baseline: float
    system: float
    gain: float
    gains: tuple[float, ...]
    p_value: float
    adjusted: float

    @property
    def is_significant(self) -> bool:
        """Whether the gain is significant at .05 after correction."""
        return self.adjusted < SIGNIFICANT


def compare_cells(
    cells: Mapping[str, tuple[Sequence[Evaluation], Sequence[Evaluation]]],
    resamples: int = 99_999,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Compares two systems in every cell of a table.

    Corresponding runs (of the same seed) are paired. A query's value is its mean over the runs, so
    that the runs of one query do not count as independent of each other.

    Args:
        cells: name -> evaluations of the baseline's runs and of the system's, in the same order.
        resamples: random sign patterns; all are tried where there are no more of them.
        seed: of the random patterns.

    Raises:
        InputError: numbers of runs that differ, or runs that judge other queries.
    """
    rows = {name: _paired_values(name, *runs) for name, runs in cells.items()}
    p_values = [
        paired_randomisation(system.mean(0), baseline.mean(0), resamples, seed)
        for baseline, system in rows.values()
    ]
    return {
        name: Comparison(
            baseline=float(baseline.mean()),
            system=float(system.mean()),
            gain=float(system.mean() - baseline.mean()),
            gains=tuple((system.mean(1) - baseline.mean(1)).tolist()),
            p_value=p_value,
            adjusted=adjusted,
        )
        for (name, (baseline, system)), p_value, adjusted in zip(
            rows.items(), p_values, holm(p_values), strict=True
        )
    }


def _paired_values(
    cell: str, baseline: Sequence[Evaluation], system: Sequence[Evaluation]
) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays `[runs, queries]` of NDCG."""
    queries = [sorted(run.per_query) for run in (*baseline, *system)]
    if len(baseline) != len(system) or not baseline or any(q != queries[0] for q in queries):
        raise InputError(
            f"Cell {cell!r}: {len(baseline)} and {len(system)} runs that do not judge the same "
            f"queries ({sorted(set(map(len, queries)))} of them).",
            "Give as many runs of each system, evaluated on the same split.",
        )
    first, second = (
        np.array([[run.per_query[query][MEASURE] for query in queries[0]] for run in runs])
        for runs in (baseline, system)
    )
    return first, second
