"""Every measure equals trec_eval's on random rankings with ties, gaps and pools."""

import random

import pytest

from retrieval_jax.evaluation import evaluate

pytrec_eval = pytest.importorskip("pytrec_eval")

# Ours -> trec_eval's name and its relevance level.
NAMES = {
    "AP": ("map", 1),
    "AP(rel=2)": ("map", 2),
    "AP@5": ("map_cut_5", 1),
    "AP(rel=3)@5": ("map_cut_5", 3),
    "Bpref": ("bpref", 1),
    "Bpref(rel=3)": ("bpref", 3),
    "P@5": ("P_5", 1),
    "P(rel=2)@100": ("P_100", 2),
    "R@5": ("recall_5", 1),
    "R(rel=3)@100": ("recall_100", 3),
    "RR": ("recip_rank", 1),
    "RR(rel=3)": ("recip_rank", 3),
    "Rprec": ("Rprec", 1),
    "Rprec(rel=2)": ("Rprec", 2),
    "Success@1": ("success_1", 1),
    "Success(rel=2)@5": ("success_5", 2),
    "nDCG": ("ndcg", 1),
    "nDCG@5": ("ndcg_cut_5", 1),
}


def trec_eval(qrels, ranking):
    """Values of `NAMES` by query; 0 where trec_eval leaves a query out."""
    values = {query: dict.fromkeys(NAMES, 0.0) for query in qrels}
    for name, (theirs, level) in NAMES.items():
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, [theirs], relevance_level=level)
        for query, found in evaluator.evaluate(ranking).items():
            values[query][name] = found[theirs]
    return values


def random_case(seed):
    """Queries of all sizes: empty ones, ones that are not ranked, all documents tied, none."""
    rng = random.Random(seed)
    ids = [f"d{number}" for number in range(40)] + ["é", "ß", "字"]
    qrels, ranking = {}, {}
    for number in range(30):
        levels = rng.choice([(0, 1), (0, 1, 2, 3), (0, 0, 0, 3), (-1, 0, 1), (1,), (0,)])
        judged = rng.sample(ids, rng.choice([0, 1, 2, 9, 30]))
        qrels[f"q{number}"] = {document: rng.choice(levels) for document in judged}
        values = rng.choice([1, 3, 20, 10**6])
        ranked = rng.sample(ids, rng.choice([0, 1, 7, 25, len(ids)]))
        if rng.random() < 0.9:
            ranking[f"q{number}"] = {d: rng.randrange(values) / 7 - 1 for d in ranked}
    return qrels, ranking


@pytest.mark.parametrize("seed", range(20))
def test_every_measure_equals_that_of_trec_eval(seed):
    qrels, ranking = random_case(seed)
    found = evaluate(qrels, ranking, list(NAMES)).per_query
    for query, expected in trec_eval(qrels, ranking).items():
        assert found[query] == pytest.approx(expected, rel=0, abs=1e-12), query
