"""Zero-shot ranking (section 3.3): queries in plain text, entities ranked by the model alone."""

from collections.abc import Sequence

import numpy as np

from docent_jax.datasets.corpus import EntityCorpus
from retrieval_jax.encoding import unit_length
from retrieval_jax.evaluation import Evaluation, evaluate
from retrieval_jax.rankings import Ranking, ranking_from_scores

# The paper's measures (table 5), by ir_measures' names; RR is the reciprocal rank.
MEASURES = ("RR", "R@50", "R@100")
# Entities that a ranking keeps, beyond the deepest measure.
DEPTH = 1000


def cosine_scores(query_vectors: np.ndarray, entity_vectors: np.ndarray) -> np.ndarray:
    """s(e, s) of section 2.1: cosines `[queries, entities]` float32 of two lists of vectors."""
    return unit_length(query_vectors) @ unit_length(entity_vectors).T


def rank(scores: np.ndarray, corpus: EntityCorpus, split: str) -> Ranking:
    """Ranking of all entities for the queries of a split.

    Args:
        scores: `[queries, entities]`.
        corpus: whose queries and entities they are.
        split: "dev" or "test".
    """
    query_ids = [query.query_id for query in corpus.queries[split]]
    return ranking_from_scores(query_ids, corpus.entities, scores, DEPTH)


def evaluate_ranking(
    ranking: Ranking, corpus: EntityCorpus, split: str, measures: Sequence[str] = MEASURES
) -> Evaluation:
    """Measures of a ranking on a split."""
    return evaluate(corpus.qrels(split), ranking, measures)


def zero_shot_measures(scores: np.ndarray, corpus: EntityCorpus, split: str) -> dict[str, float]:
    """The paper's measures of scores `[queries, entities]`."""
    return evaluate_ranking(rank(scores, corpus, split), corpus, split).mean
