"""Formula browsing (the paper's evaluation): bpref over the 20 topics without wildcards.

"Full" counts relevances of 3 and more as relevant, "partial" of 1 and more. Every ranking holds its
whole pool; a topic without a relevant formula counts 0, as trec_eval has it.
"""

from typing import Literal

import numpy as np

from gcl_jax.datasets.ntcir12 import JudgedFormulas
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation, evaluate
from retrieval_jax.rankings import Ranking, ranking_from_scores

MEASURES = {"partial": "Bpref", "full": "Bpref(rel=3)"}
"""The paper's names and trec_eval's."""

Pool = Literal["all", "small"]
"""All judged formulas that have trees (1,198), or those that papers after 2024 keep (1,140)."""

POOLS: tuple[Pool, ...] = ("all", "small")
Topics = Literal["all", "odd", "even"]
"""Choose on the odd-numbered topics, report the even-numbered."""

TOPICS: tuple[Topics, ...] = ("all", "odd", "even")


def pool_ids(judged: JudgedFormulas, pool: Pool) -> tuple[str, ...]:
    """The formulas of a pool."""
    if pool == "all":
        return judged.formulas.ids
    kept = judged.in_small_pool.tolist()
    return tuple(name for name, keep in zip(judged.formulas.ids, kept, strict=True) if keep)


def rank(judged: JudgedFormulas, scores: np.ndarray) -> Ranking:
    """Ranking of all judged formulas for all queries by scores `[queries, formulas]`."""
    return ranking_from_scores(judged.queries.ids, judged.formulas.ids, scores)


def restrict(judged: JudgedFormulas, ranking: Ranking, pool: Pool) -> Ranking:
    """A ranking without what is not in a pool: formulas that nobody judged among them."""
    ids = set(pool_ids(judged, pool))
    return {
        topic: {name: score for name, score in of_topic.items() if name in ids}
        for topic, of_topic in ranking.items()
    }


def evaluate_ranking(
    judged: JudgedFormulas, ranking: Ranking, pool: Pool = "all", topics: Topics = "all"
) -> Evaluation:
    """Both measures of a ranking, per topic and as their mean over all topics of a kind.

    Args:
        judged: pool, queries and judgements.
        ranking: topic -> formula -> score.
        pool: which formulas count.
        topics: which topics count.

    Raises:
        InputError: no topic of the kind, or the ranking holds none of them.
    """
    chosen = {topic for topic in judged.qrels if is_among(topic, topics)}
    if not chosen:
        raise InputError(f"none of {len(judged.qrels)} topics is {topics}", "Give others.")
    qrels = {topic: judged.qrels[topic] for topic in chosen}
    found = evaluate(qrels, restrict(judged, ranking, pool), tuple(MEASURES.values()))
    per_query = {
        topic: {name: values[measure] for name, measure in MEASURES.items()}
        for topic, values in found.per_query.items()
    }
    return Evaluation(per_query, {name: found.mean[m] for name, m in MEASURES.items()})


def is_among(topic: str, topics: Topics) -> bool:
    """Whether a topic, whose id ends in its number, is among the odd or even ones.

    Raises:
        InputError: it does not end in a number.
    """
    if topics == "all":
        return True
    number = topic.rpartition("-")[2]
    if not number.isdecimal():
        raise InputError(f"the topic {topic!r} has no number", "Ids end in -1, -2 and so on.")
    return int(number) % 2 == (topics == "odd")
