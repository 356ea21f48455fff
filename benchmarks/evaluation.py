"""Measures of rankings: ours beside trec_eval's own C code.

COMMAND   python -m benchmarks.evaluation --output benchmarks/results/evaluation.json
          with many judgements and ties: --judged 40 --digits 3
TIME      about 2 minutes
HARDWARE  2 CPU cores, 4 GiB of memory
RESULT    benchmarks/results/evaluation.json

A run computes AP, reciprocal rank, nDCG, recall and bpref of every query. Sides, in queries a
second: `ours`, `evaluation.evaluate`; `pytrec_eval`, trec_eval as a library; and what it takes
where hits come as arrays, as from a search, `pytrec_eval_with_dictionaries`, which makes the
dictionaries first. Scores are rounded, so that some are equal. All values must be equal within
1e-9.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import tyro

from benchmarks import measure
from retrieval_jax.evaluation import evaluate
from retrieval_jax.rankings import Qrels, Ranking

# Ours -> trec_eval's.
MEASURES = {"AP": "map", "RR": "recip_rank", "nDCG": "ndcg", "R@100": "recall_100"}
MEASURES |= {"Bpref": "bpref"}
# How often a judged document has each relevance, from 0.
RELEVANCES = (0.5, 0.25, 0.15, 0.1)
TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        options: how to measure.
        queries: how many are evaluated.
        hits: documents that each ranks.
        judged: documents that each has judged, about half of them among its hits.
        documents: that there are; a power of two.
        digits: of scores, after the point.
        seed: of everything.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options()
    queries: int = 10_000
    hits: int = 1_000
    judged: int = 20
    documents: int = 2**17
    digits: int = 5
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Hits:
    """What a search gives, best first.

    Attributes:
        names: of all documents.
        indices: `[queries, hits]` into them.
        scores: float32 `[queries, hits]`.
    """

    names: list[str]
    indices: np.ndarray
    scores: np.ndarray

    def dictionaries(self) -> Ranking:
        """The same as a ranking."""
        rows = zip(self.indices.tolist(), self.scores.tolist(), strict=True)
        return {
            f"q{query}": {self.names[index]: score for index, score in zip(*row, strict=True)}
            for query, row in enumerate(rows)
        }


def draw_hits(command: Command, rng: np.random.Generator) -> Hits:
    """Random documents, distinct for each query, with normally distributed scores."""
    # Steps of an odd number of documents: a power of two of them has no common divisor with it.
    starts, steps = rng.integers(0, command.documents, (2, command.queries, 1))
    indices = (starts + (2 * steps + 1) * np.arange(command.hits)) % command.documents
    scores = rng.standard_normal((command.queries, command.hits)).round(command.digits)
    best_first = -np.sort(-scores, axis=1)
    names = [f"document{index:07d}" for index in range(command.documents)]
    return Hits(names, indices, best_first.astype(np.float32))


def draw_qrels(command: Command, hits: Hits, rng: np.random.Generator) -> Qrels:
    """Random judgements, half of them of hits."""
    shape = (command.queries, command.judged)
    among = rng.integers(0, command.hits, shape)
    judged = np.take_along_axis(hits.indices, among, axis=1)
    other = rng.integers(0, command.documents, shape)
    judged[:, ::2] = other[:, ::2]
    relevances = rng.choice(len(RELEVANCES), shape, p=RELEVANCES)
    return {
        f"q{query}": {hits.names[index]: relevance for index, relevance in zip(*row, strict=True)}
        for query, row in enumerate(zip(judged.tolist(), relevances.tolist(), strict=True))
    }


def prepare(command: Command) -> measure.Comparison:
    """Draws hits and judgements and names the sides."""
    import pytrec_eval  # pyright: ignore[reportMissingImports]

    rng = np.random.default_rng(command.seed)
    hits = draw_hits(command, rng)
    qrels = draw_qrels(command, hits, rng)
    ranking = hits.dictionaries()

    def ours() -> np.ndarray:
        return values(evaluate(qrels, ranking, list(MEASURES)).per_query, list(MEASURES))

    def peer(ranking: Ranking) -> np.ndarray:
        theirs = list(MEASURES.values())
        return values(pytrec_eval.RelevanceEvaluator(qrels, theirs).evaluate(ranking), theirs)

    runs = {
        "ours": ours,
        "pytrec_eval": lambda: peer(ranking),
        "pytrec_eval_with_dictionaries": lambda: peer(hits.dictionaries()),
    }
    return measure.Comparison(
        settings=measure.settings_of(command),
        data={"name": "random hits and judgements", "fingerprint": f"seed {command.seed}"},
        packages=("pytrec-eval-terrier",),
        sides={
            name: lambda run=run: measure.Side(run, command.queries) for name, run in runs.items()
        },
        check=check_values,
    )


def values(per_query: Mapping[str, Mapping[str, float]], measures: list[str]) -> np.ndarray:
    """`[queries, measures]`, queries in the order of their ids."""
    rows = (per_query[query] for query in sorted(per_query))
    return np.array([[row[measure] for measure in measures] for row in rows])


def check_values(found: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Gives the largest difference of a value of ours from each peer's.

    Raises:
        DisagreementError: it is above `TOLERANCE`.
    """
    ours, *peers = found
    largest = {side: float(np.abs(found[ours] - found[side]).max()) for side in peers}
    for side, difference in largest.items():
        if not difference <= TOLERANCE:
            raise measure.DisagreementError(f"{ours} and {side} differ by {difference:.2g}")
    return {"largest_difference": largest}


if __name__ == "__main__":
    measure.command_line("evaluation", prepare, Command, __doc__)
