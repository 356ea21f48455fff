"""trec_eval's measures of rankings, of all queries at once.

Of a ranking they need the ranks of the judged documents alone. Every function takes a `Judged` and
gives one value a query, float64 `[queries]`; a query without a relevant document has 0. `level` is
the least relevance that counts as relevant, `cutoff` how many documents are looked at.
"""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Judged:
    """Judgements of all queries, in the order of the queries and, in each, of the ranks.

    Attributes:
        queries: int64 `[judged]`, whose judgement it is, from 0.
        ranks: float64 `[judged]`, from 1; infinite where the ranking lacks the document.
        relevances: int64 `[judged]`; negative: in the pool, unjudged.
        num_queries: how many queries there are, with those that have no judgement.
    """

    queries: np.ndarray
    ranks: np.ndarray
    relevances: np.ndarray
    num_queries: int

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Int64 `[judged]`, the first place of each place's query."""
        return np.searchsorted(self.queries, self.queries)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Adds `values` `[judged]` up within each query, `[queries]`."""
        return np.bincount(self.queries, values, self.num_queries)

    def counts(self, chosen: np.ndarray) -> np.ndarray:
        """How many of `chosen`, bool `[judged]`, are true up to each place of its query."""
        total = np.cumsum(chosen)
        return total - (total - chosen)[self.starts]

    def is_relevant(self, level: int) -> np.ndarray:
        """Bool `[judged]`."""
        return self.relevances >= level


def average_precision(judged: Judged, level: int = 1, cutoff: int | None = None) -> np.ndarray:
    """Precision at the rank of each relevant document, averaged over all relevant ones."""
    relevant = judged.is_relevant(level)
    precisions = judged.counts(relevant) / judged.ranks
    within = relevant & _within(judged.ranks, cutoff)
    return _shares(judged.sums(precisions * within), judged.sums(relevant))


def reciprocal_rank(judged: Judged, level: int = 1) -> np.ndarray:
    """1 / rank of the first relevant document."""
    relevant = judged.is_relevant(level)
    is_first = relevant & (judged.counts(relevant) == 1)
    return judged.sums(is_first / judged.ranks)


def precision(judged: Judged, cutoff: int, level: int = 1) -> np.ndarray:
    """Share of the first `cutoff` places that hold a relevant document."""
    return _found(judged, level, cutoff) / cutoff


def recall(judged: Judged, cutoff: int, level: int = 1) -> np.ndarray:
    """Share of the relevant documents among the first `cutoff`."""
    return _shares(_found(judged, level, cutoff), judged.sums(judged.is_relevant(level)))


def success(judged: Judged, cutoff: int, level: int = 1) -> np.ndarray:
    """1 if there is a relevant document among the first `cutoff`."""
    return (_found(judged, level, cutoff) > 0).astype(np.float64)


def r_precision(judged: Judged, level: int = 1) -> np.ndarray:
    """Precision at the number of relevant documents."""
    relevant = judged.is_relevant(level)
    num_relevant = judged.sums(relevant)
    within = relevant & (judged.ranks <= num_relevant[judged.queries])
    return _shares(judged.sums(within), num_relevant)


def ndcg(judged: Judged, cutoff: int | None = None) -> np.ndarray:
    """Discounted gain by the best possible one (Järvelin and Kekäläinen, 2002).

    The gain is the relevance, the discount log2(rank + 1).
    """
    gains = np.maximum(judged.relevances, 0)
    order = np.lexsort((-gains, judged.queries))
    best_ranks = judged.counts(np.ones(len(gains), bool))

    def discounted(gains: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        return judged.sums(gains * _within(ranks, cutoff) / np.log2(ranks + 1))

    return _shares(discounted(gains, judged.ranks), discounted(gains[order], best_ranks))


def bpref(judged: Judged, level: int = 1) -> np.ndarray:
    """Judged non-relevant documents above each relevant one (Buckley and Voorhees, 2004).

    Only as many of them count as there are relevant documents.
    """
    relevant = judged.is_relevant(level)
    irrelevant = ~relevant & (judged.relevances >= 0)
    num_relevant = judged.sums(relevant)
    limits = np.minimum(judged.sums(irrelevant), num_relevant)[judged.queries]
    above = np.minimum(judged.counts(irrelevant), num_relevant[judged.queries])
    shares = _shares(above, limits)
    preferred = np.where(relevant & np.isfinite(judged.ranks), 1 - shares, 0.0)
    return _shares(judged.sums(preferred), num_relevant)


def _found(judged: Judged, level: int, cutoff: int) -> np.ndarray:
    """Relevant documents among the first `cutoff`, `[queries]`."""
    return judged.sums(judged.is_relevant(level) & _within(judged.ranks, cutoff))


def _within(ranks: np.ndarray, cutoff: int | None) -> np.ndarray:
    return np.isfinite(ranks) if cutoff is None else ranks <= cutoff


def _shares(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """`parts / wholes`, 0 where the whole is 0."""
    return np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)
