"""Tag prediction (section 5.3 of the paper): films, tags, and scores measured against votes.

The number of users who gave a film a tag is both the relevance of the pair, and its label once it
is more than a threshold T. A protocol says which films and tags are trained on, chosen by and
tested on, and whose votes are the truth.
"""

import dataclasses
import statistics
from collections.abc import Sequence

import numpy as np

from docent_jax.datasets.tags import TagVotes
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import label_ranking_average_precisions, roc_auc
from retrieval_jax.fingerprints import stable_hash
from retrieval_jax.rankings import check_shape

# The paper's holdouts (table 3), its threshold (footnote 7) and the authors' folds of users.
TEST_FILMS, DEV_FILMS = 1000, 380
TEST_TAGS, DEV_TAGS, ALL_TAGS = 500, 100, 1128
THRESHOLD, USER_FOLDS = 2, 3
# Of the small protocol.
FILM_FOLDS = 5
SMALL_THRESHOLDS = (0, 2)

MAX_K = 50


@dataclasses.dataclass(frozen=True, eq=False)
class TagMeasures:
    """Measures of scores against votes.

    Attributes:
        values: "MAP", "AUC", "P@10", "NDCG@10", each between 0 and 1.
        precision: float64 `[k]`, precision at 1, 2, ..., k.
        ndcg: float64 `[k]`.
        film_precisions: float64 `[films]`, average precisions, whose mean is MAP unless several
            truths were averaged; NaN for a film without a positive.
    """

    values: dict[str, float]
    precision: np.ndarray
    ndcg: np.ndarray
    film_precisions: np.ndarray


def measure(votes: np.ndarray, scores: np.ndarray, threshold: int, k: int = MAX_K) -> TagMeasures:
    """Measures the scores of all pairs of some films and some tags.

    MAP, precision and NDCG are means over the films with a positive; MAP is scikit-learn's label
    ranking average precision. AUC is over all pairs of all films together. The gain of NDCG is the
    number of votes. Tags of one score count in precision and NDCG as their mean over all orders
    (McSherry and Najork 2008), as scikit-learn's NDCG has it: the order of the vocabulary never
    counts.

    Args:
        votes: int `[films, tags]`.
        scores: float `[films, tags]`, higher for better.
        threshold: T; a pair of more votes is positive.
        k: length of the curves, cut to the number of tags.

    Raises:
        InputError: shapes that disagree, scores that are not finite, no positive or no negative.
    """
    votes, scores = np.asarray(votes), np.asarray(scores, np.float64)
    labels = votes > threshold
    film_precisions = label_ranking_average_precisions(labels, scores)
    area = roc_auc(labels, scores)
    films = labels.any(axis=1)
    precision = _tie_averaged(labels[films], scores[films], k)
    positions = np.arange(1, precision.shape[1] + 1)
    discounts = 1 / np.log2(positions + 1)
    gains = np.cumsum(_tie_averaged(votes[films], scores[films], k) * discounts, axis=1)
    ideal = -np.sort(-votes[films].astype(np.float64), axis=1)[:, : len(positions)]
    ndcg = (gains / np.cumsum(ideal * discounts, axis=1)).mean(axis=0)
    curve = (np.cumsum(precision, axis=1) / positions).mean(axis=0)
    at = min(10, len(positions)) - 1
    values = {
        "MAP": np.nanmean(film_precisions),
        "AUC": area,
        "P@10": curve[at],
        "NDCG@10": ndcg[at],
    }
    values = {name: float(value) for name, value in values.items()}
    return TagMeasures(values, curve, ndcg, film_precisions)


def _tie_averaged(gains: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    """Gains `[films, min(k, tags)]` by rank; each rank has the mean over the tags tied for it."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(gains, order, axis=1).astype(np.float64)
    ordered = np.take_along_axis(scores, order, axis=1)
    starts = np.ones(ordered.shape, bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    groups = np.cumsum(starts) - 1  # a row starts a group, so none crosses rows
    means = np.bincount(groups, ranked.ravel()) / np.bincount(groups)
    return means[groups].reshape(ordered.shape)[:, :k]


def mean_measures(measures: Sequence[TagMeasures]) -> TagMeasures:
    """Mean over folds, of a film's precisions over those where it has a positive."""
    names = measures[0].values
    precisions = np.stack([m.film_precisions for m in measures])
    known = np.isfinite(precisions)
    sums = np.where(known, precisions, 0).sum(axis=0)
    film_precisions = np.full(len(sums), np.nan)
    np.divide(sums, known.sum(axis=0), out=film_precisions, where=known.any(axis=0))
    return TagMeasures(
        {name: statistics.fmean(m.values[name] for m in measures) for name in names},
        np.mean([m.precision for m in measures], axis=0),
        np.mean([m.ndcg for m in measures], axis=0),
        film_precisions,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class TagSplit:
    """Films and tags to train on, to choose by and to test on: int32 indices.

    Attributes:
        name: what it is called in results.
        train_films: `[n]`; trained on with `train_tags`, and so on.
        dev_films: `[n]`.
        test_films: `[n]`.
        train_tags: `[n]`.
        dev_tags: `[n]`.
        test_tags: `[n]`.
    """

    name: str
    train_films: np.ndarray
    dev_films: np.ndarray
    test_films: np.ndarray
    train_tags: np.ndarray
    dev_tags: np.ndarray
    test_tags: np.ndarray

    def part(self, name: str, array: np.ndarray) -> np.ndarray:
        """Picks the films and tags of "train", "dev" or "test" out of `[all films, all tags]`."""
        return array[np.ix_(getattr(self, f"{name}_films"), getattr(self, f"{name}_tags"))]


@dataclasses.dataclass(frozen=True, eq=False)
class Protocol:
    """How tag prediction is evaluated.

    Attributes:
        name: of the protocol.
        thresholds: T of each row of results.
        closed: films held out; every tag is trained on.
        open: tags held out.
        user_folds: over how many folds of users measures are averaged; 1 = all users together.
    """

    name: str
    thresholds: tuple[int, ...]
    closed: tuple[TagSplit, ...]
    open: TagSplit
    user_folds: int


def published_protocol(
    votes: np.ndarray,
    film_names: Sequence[str],
    tags: Sequence[str],
    movielens_ids: Sequence[int | None] | None = None,
) -> Protocol:
    """The paper's protocol: 1000 test and 380 dev films, T = 2, three folds of users.

    The paper does not say how films and tags were chosen; here by a hash of their names, films
    among those with a positive. Rows of one MovieLens film count as one and are held out together.
    Its open task holds out 500 test and 100 dev tags, and tests on the films with votes for them.

    Args:
        votes: int `[films, tags]`.
        film_names: of the rows.
        tags: of the columns.
        movielens_ids: of the rows; None where a film is not in MovieLens. By default all differ.

    Raises:
        InputError: too few films with a positive, too few tags, or names that do not fit.
    """
    _check_names(votes, film_names, tags, movielens_ids)
    voted_films = same_films(by_hash(_with_votes(votes), film_names), movielens_ids)
    films = [rows for rows in voted_films if (votes[rows] > THRESHOLD).any()]
    held_out, voted = TEST_FILMS + DEV_FILMS, int(np.count_nonzero(votes.any(axis=0)))
    if len(films) <= held_out or voted <= TEST_TAGS + DEV_TAGS:
        raise InputError(
            f"{len(films)} films have a tag with more than {THRESHOLD} votes, {voted} tags a vote",
            f"The published protocol holds out {held_out} films and {TEST_TAGS + DEV_TAGS} tags;"
            " use the small protocol.",
        )
    test, dev = (_rows(part) for part in (films[:TEST_FILMS], films[TEST_FILMS:held_out]))
    closed = TagSplit(
        "closed",
        np.setdiff1d(_with_votes(votes), np.concatenate([test, dev])).astype(np.int32),
        dev,
        test,
        *[np.arange(len(tags), dtype=np.int32)] * 3,
    )
    open_split = _open_split(votes, tags, TEST_TAGS, DEV_TAGS)
    return Protocol("published", (THRESHOLD,), (closed,), open_split, USER_FOLDS)


def small_protocol(
    votes: np.ndarray,
    film_names: Sequence[str],
    tags: Sequence[str],
    movielens_ids: Sequence[int | None] | None = None,
) -> Protocol:
    """A protocol for few votes: five folds of films, T = 0 and T = 2, all users together.

    Films with a vote go into folds by a hash of their names, rows of one MovieLens film into the
    same. Each fold is the test films once; the next one is then the dev films. Of the tags that
    have votes, as large shares are held out for the open task as in the paper.

    Args:
        votes: int `[films, tags]`.
        film_names: of the rows.
        tags: of the columns.
        movielens_ids: as in `published_protocol`.

    Raises:
        InputError: fewer films or tags with votes than folds, or names that do not fit.
    """
    _check_names(votes, film_names, tags, movielens_ids)
    films = same_films(by_hash(_with_votes(votes), film_names), movielens_ids)
    voted = int(np.count_nonzero(votes.any(axis=0)))
    if min(len(films), voted) < FILM_FOLDS:
        raise InputError(
            f"{len(films)} films and {voted} tags have votes",
            f"The small protocol needs {FILM_FOLDS} of both.",
        )
    folds = [_rows(films[i::FILM_FOLDS]) for i in range(FILM_FOLDS)]
    closed = []
    for i, test in enumerate(folds):
        dev = folds[(i + 1) % FILM_FOLDS]
        train = np.setdiff1d(_rows(films), np.concatenate([test, dev])).astype(np.int32)
        every_tag = [np.arange(len(tags), dtype=np.int32)] * 3
        closed.append(TagSplit(f"closed, fold {i + 1}", train, dev, test, *every_tag))
    test_tags = max(1, round(voted * TEST_TAGS / ALL_TAGS))
    dev_tags = max(1, round(voted * DEV_TAGS / ALL_TAGS))
    open_split = _open_split(votes, tags, test_tags, dev_tags)
    return Protocol("small", SMALL_THRESHOLDS, tuple(closed), open_split, 1)


def by_hash(indices: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The indices, int32 `[n]`, in the order of a hash of their names."""
    return np.array(sorted(indices.tolist(), key=lambda i: stable_hash(str(names[i]))), np.int32)


def same_films(
    rows: np.ndarray, movielens_ids: Sequence[int | None] | None = None
) -> list[list[int]]:
    """Groups rows by the MovieLens film that they are of, in the order of each group's first row.

    What Amazon sells as several items is one film there, with the tags of each: apart, some would
    be trained on with the labels that others are tested on.

    Args:
        rows: int `[n]`.
        movielens_ids: of all rows; None is a film of its own, and by default all differ.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for row in rows.tolist():
        film = None if movielens_ids is None else movielens_ids[row]
        groups.setdefault(("row", row) if film is None else ("film", film), []).append(row)
    return list(groups.values())


def _rows(films: Sequence[Sequence[int]]) -> np.ndarray:
    """The rows of groups, int32 `[n]`, sorted."""
    return np.sort(np.concatenate([np.array(rows, np.int32) for rows in films]))


def limit_tags(split: TagSplit, tags: int) -> TagSplit:
    """Fewer tags to train on (figure 2c), the first ones of `train_tags`.

    Raises:
        InputError: fewer than one, or more than there are.
    """
    if not 1 <= tags <= len(split.train_tags):
        raise InputError(
            f"{tags} training tags of {len(split.train_tags)}", "Give from 1 to all of them."
        )
    name = f"{split.name}, {tags} tags"
    return dataclasses.replace(split, name=name, train_tags=split.train_tags[:tags])


def limit_films(split: TagSplit, films: int | None) -> TagSplit:
    """Fewer dev films and fewer test films, so many at most; None keeps all.

    They are a random part, the same for the same number: films are sorted by their number, hence by
    age.

    Raises:
        InputError: fewer than one.
    """
    if films is None:
        return split
    if films < 1:
        raise InputError(f"{films} films of a part", "Give one or more, or None for all.")

    def some(of_part: np.ndarray) -> np.ndarray:
        return np.sort(np.random.default_rng(0).permutation(of_part)[:films])

    return dataclasses.replace(
        split, dev_films=some(split.dev_films), test_films=some(split.test_films)
    )


def _open_split(votes: np.ndarray, tags: Sequence[str], n_test: int, n_dev: int) -> TagSplit:
    """Tags that have votes, held out by hash; films are those with votes for them."""
    order = by_hash(np.flatnonzero(votes.any(axis=0)), tags)
    # Training tags stay in the order of the hash, so that fewer lie inside more.
    test, dev, train = np.split(order, [n_test, n_test + n_dev])
    return TagSplit(
        "open",
        *(_with_votes(votes[:, columns]) for columns in (train, dev, test)),
        train_tags=train,
        dev_tags=np.sort(dev),
        test_tags=np.sort(test),
    )


def _with_votes(votes: np.ndarray) -> np.ndarray:
    return np.flatnonzero(votes.any(axis=1)).astype(np.int32)


def _check_names(
    votes: np.ndarray,
    film_names: Sequence[str],
    tags: Sequence[str],
    movielens_ids: Sequence[int | None] | None,
) -> None:
    check_shape("votes", votes, (len(film_names), len(tags)))
    if movielens_ids is not None:
        check_shape("movielens_ids", np.array(movielens_ids, object), (len(film_names),))


def user_fold_votes(tag_votes: TagVotes, num_entities: int, folds: int = USER_FOLDS) -> np.ndarray:
    """Votes of each fold of users: int32 `[folds, entities, tags]`.

    Users fold by a hash of their number in `tag_votes`: the same data give the same folds, other
    films or users other ones.

    Args:
        tag_votes: who gave what to what.
        num_entities: rows.
        folds: two or more.

    Raises:
        InputError: fewer than two folds.
    """
    if folds < 2:
        raise InputError(f"{folds} folds of users", "Give two or more.")
    users, places = np.unique(tag_votes.user_ids, return_inverse=True)
    fold = np.array([stable_hash(str(user)) % folds for user in users.tolist()], np.int64)[places]
    columns = ("entity_ids", "tag_ids", "user_ids")
    parts = []
    for i in range(folds):
        kept = {name: getattr(tag_votes, name)[fold == i] for name in columns}
        parts.append(dataclasses.replace(tag_votes, **kept).votes(num_entities))
    return np.stack(parts)


def truths(fold_votes: np.ndarray) -> np.ndarray:
    """Votes that a fold's users did not give, int32 `[folds, entities, tags]`: what they predict.

    In the published protocol all systems are measured against each of them, so that the Human row
    compares; in the small one, of few votes, the others are measured against all votes.
    """
    return fold_votes.sum(axis=0, dtype=np.int32) - fold_votes


def measure_split(
    split: TagSplit, part: str, scores: np.ndarray, truth: np.ndarray, threshold: int
) -> TagMeasures:
    """Measures scores on a split's dev or test, averaged over the truths.

    Args:
        split: which films and tags.
        part: "dev" or "test".
        scores: `[films of the part, tags of the part]`.
        truth: int `[truths, all films, all tags]`.
        threshold: T.
    """
    return mean_measures([measure(split.part(part, votes), scores, threshold) for votes in truth])


def human_measures(
    split: TagSplit, part: str, fold_votes: np.ndarray, threshold: int
) -> TagMeasures:
    """The Human row: each fold of users, as scores, against the votes of all others.

    Args:
        split: which films and tags.
        part: "dev" or "test".
        fold_votes: int `[folds, all films, all tags]` (`user_fold_votes`).
        threshold: T.
    """
    pairs = zip(fold_votes, truths(fold_votes), strict=True)
    return mean_measures(
        [measure(split.part(part, t), split.part(part, f), threshold) for f, t in pairs]
    )


def counts(split: TagSplit, part: str, votes: np.ndarray, threshold: int) -> dict[str, int]:
    """What a part of a split holds.

    Args:
        split: which films and tags.
        part: "train", "dev" or "test".
        votes: int `[all films, all tags]`.
        threshold: T.

    Returns:
        Numbers of films, tags, pairs with a vote, positive pairs, films and tags with a positive.
    """
    chosen = split.part(part, votes)
    labels = chosen > threshold
    return {
        "films": chosen.shape[0],
        "tags": chosen.shape[1],
        "pairs with a vote": int(np.count_nonzero(chosen)),
        "positive pairs": int(labels.sum()),
        "films with a positive": int(labels.any(axis=1).sum()),
        "tags with a positive": int(labels.any(axis=0).sum()),
    }
