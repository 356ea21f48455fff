"""The paper's protocol (section 3.1): NDCG without cut-off at each difficulty.

A harder level has the candidates of the easier ones and more. So a system scores the candidates of
the hardest level once, and each level takes its part of that ranking.
"""

from collections.abc import Sequence

from ltr_jax.datasets.collection import DIFFICULTIES, Topics
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation, evaluate
from retrieval_jax.rankings import Qrels, Ranking

MEASURE = "nDCG"

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
