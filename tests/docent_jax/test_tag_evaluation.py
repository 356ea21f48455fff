"""Tag measures against scikit-learn and trec_eval, and protocols on votes of the paper's size."""

import itertools
import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from docent_jax.datasets.tags import TagVotes
from docent_jax.tag_evaluation import (
    TagSplit,
    counts,
    human_measures,
    limit_films,
    limit_tags,
    measure,
    measure_split,
    published_protocol,
    small_protocol,
    truths,
    user_fold_votes,
)
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import evaluate
from retrieval_jax.fingerprints import stable_hash
from retrieval_jax.rankings import ranking_from_scores

VOTES = np.array([[5, 0, 1, 3], [0, 0, 0, 1], [0, 4, 0, 0]])
SCORES = np.array([[0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 0.5, 0.1]])


def test_measures_have_their_closed_forms():
    # With T = 2 the second film has no positive. The third film's positive shares three ranks.
    result = measure(VOTES, SCORES, threshold=2, k=3)
    average_precision = [(1 + 2 / 4) / 2, 1 / 3]
    assert result.values["MAP"] == pytest.approx(np.mean(average_precision))
    np.testing.assert_allclose(result.precision, [(1 + 1 / 3) / 2, (1 / 2 + 1 / 3) / 2, 1 / 3])
    discount = [1 / math.log2(rank + 1) for rank in (1, 2, 3)]
    first = [5 / 5, 5 / (5 + 3 * discount[1]), 5.5 / (5 + 3 * discount[1] + 0.5)]
    third = [sum(discount[:k]) / 3 for k in (1, 2, 3)]
    np.testing.assert_allclose(result.ndcg, np.mean([first, third], axis=0))
    positives, negatives = (0.9, 0.6, 0.5), (0.8, 0.7, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.1)
    wins = [(p > n) + 0.5 * (p == n) for p in positives for n in negatives]
    assert result.values["AUC"] == pytest.approx(np.mean(wins))
    assert result.values["P@10"] == pytest.approx(result.precision[-1])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), levels=st.integers(1, 6), threshold=st.integers(0, 2))
def test_measures_are_scikit_learns_also_with_ties(seed, levels, threshold):
    rng = np.random.default_rng(seed)
    votes = rng.integers(0, 5, (6, 9)) * rng.integers(0, 2, (6, 9))
    votes[0, :2] = [threshold + 1, 0]
    scores = rng.integers(0, levels, votes.shape) / 3
    result = measure(votes, scores, threshold)
    labels = votes > threshold
    films = labels.any(axis=1)
    expected_map = sklearn.metrics.label_ranking_average_precision_score(
        labels[films], scores[films]
    )
    assert result.values["MAP"] == pytest.approx(expected_map)
    assert np.isnan(result.film_precisions).tolist() == (~films).tolist()
    assert np.nanmean(result.film_precisions) == pytest.approx(expected_map)
    expected_auc = sklearn.metrics.roc_auc_score(labels.ravel(), scores.ravel())
    assert result.values["AUC"] == pytest.approx(expected_auc)
    assert result.ndcg.shape == result.precision.shape == (9,)
    for k in range(1, 10):
        expected = sklearn.metrics.ndcg_score(votes[films], scores[films], k=k)
        assert result.ndcg[k - 1] == pytest.approx(expected)


def test_without_ties_measures_are_trec_evals():
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 4, (5, 12))
    scores = rng.permuted(np.tile(np.arange(12.0), (5, 1)), axis=1)
    result = measure(votes, scores, threshold=1)
    films, tags = [f"film{i}" for i in range(5)], [f"tag{i}" for i in range(12)]
    assert (votes > 1).any(axis=1).all()
    qrels = {
        film: {tag: int(v) for tag, v in zip(tags, row, strict=True)}
        for film, row in zip(films, votes, strict=True)
    }
    ranking = ranking_from_scores(films, tags, scores)
    names = [name for k in range(1, 13) for name in (f"P(rel=2)@{k}", f"nDCG@{k}")]
    trec = evaluate(qrels, ranking, [*names, "AP(rel=2)"]).mean
    assert result.values["MAP"] == pytest.approx(trec["AP(rel=2)"])
    for k in range(1, 13):
        assert result.precision[k - 1] == pytest.approx(trec[f"P(rel=2)@{k}"])
        assert result.ndcg[k - 1] == pytest.approx(trec[f"nDCG@{k}"])


def test_ties_count_as_the_mean_over_all_orders_of_trec_eval():
    votes, scores = np.array([[3, 0, 1, 0]]), np.array([[0.5, 0.5, 0.5, 0.9]])
    orders = []
    for names in itertools.permutations("abcd"):
        # trec_eval orders ties by name.
        qrels = {"q": dict(zip(names, votes[0].tolist(), strict=True))}
        ranking = {"q": dict(zip(names, scores[0].tolist(), strict=True))}
        orders.append(evaluate(qrels, ranking, ["P@2", "nDCG@3"]).mean)
    result = measure(votes, scores, threshold=0)
    assert result.precision[1] == pytest.approx(np.mean([order["P@2"] for order in orders]))
    assert result.ndcg[2] == pytest.approx(np.mean([order["nDCG@3"] for order in orders]))


def test_the_order_of_the_vocabulary_never_counts():
    rng = np.random.default_rng(0)
    votes, scores = rng.integers(0, 3, (6, 20)), rng.integers(0, 3, (6, 20)) / 2
    order = rng.permutation(20)
    first, second = measure(votes, scores, 0), measure(votes[:, order], scores[:, order], 0)
    assert first.values == pytest.approx(second.values)
    np.testing.assert_allclose(first.precision, second.precision)


@pytest.mark.parametrize(
    ("votes", "scores", "problem"),
    [
        (VOTES, SCORES[:2], "shape"),
        (VOTES, np.where(SCORES > 0.8, np.nan, SCORES), "finite"),
        (VOTES * 0, SCORES, "positive"),
    ],
)
def test_what_cannot_be_measured_is_refused(votes, scores, problem):
    with pytest.raises(InputError, match=problem):
        measure(votes, scores, 0)


def generated_votes(num_films, num_tags, applications, num_users=4000, seed=0):
    """Popular films and tags have more votes, as in MovieLens."""
    rng = np.random.default_rng(seed)

    def draw(number):
        skewed = rng.random(applications) ** 3 * number
        return rng.permutation(number)[skewed.astype(int)].astype(np.int32)

    tags = tuple(f"tag {i}" for i in range(num_tags))
    films, tag_ids = draw(num_films), draw(num_tags)
    return TagVotes(tags, films, tag_ids, draw(num_users))


PUBLISHED_NAMES = [f"film {i}" for i in range(17_131)]


@pytest.fixture(scope="module")
def published():
    return generated_votes(17_131, 1128, 700_000)


@pytest.fixture(scope="module")
def published_votes(published):
    return published.votes(17_131)


def parts(split, kind):
    return [set(getattr(split, f"{part}_{kind}").tolist()) for part in ("train", "dev", "test")]


def test_published_protocol_has_the_papers_sizes(published, published_votes):
    protocol = published_protocol(published_votes, PUBLISHED_NAMES, published.tags)
    assert (protocol.thresholds, protocol.user_folds) == ((2,), 3)
    (closed,) = protocol.closed
    assert (len(closed.test_films), len(closed.dev_films)) == (1000, 380)
    train, dev, test = parts(closed, "films")
    assert not train & dev and not train & test and not dev & test
    assert train | dev | test == set(np.flatnonzero(published_votes.any(axis=1)))
    assert all(tags == set(range(1128)) for tags in parts(closed, "tags"))
    held_out = published_votes[np.concatenate([closed.test_films, closed.dev_films])]
    assert (held_out > 2).any(axis=1).all()
    printed = counts(closed, "test", published_votes, 2)
    assert (printed["films"], printed["tags"]) == (1000, 1128)
    assert printed["films with a positive"] == 1000
    assert printed["positive pairs"] == np.count_nonzero(held_out[:1000] > 2) > 1000
    train, dev, test = parts(protocol.open, "tags")
    assert (len(dev), len(test)) == (100, 500)
    assert not train & dev and not train & test and not dev & test
    of_test = published_votes[:, protocol.open.test_tags].any(axis=1)
    np.testing.assert_array_equal(protocol.open.test_films, np.flatnonzero(of_test))
    assert counts(protocol.open, "test", published_votes, 2)["tags"] == 500


@pytest.mark.long
def test_published_protocol_measures_against_folds_of_users(published, published_votes):
    protocol = published_protocol(published_votes, PUBLISHED_NAMES, published.tags)
    folds = user_fold_votes(published, 17_131)
    np.testing.assert_array_equal(folds.sum(axis=0), published_votes)
    np.testing.assert_array_equal(truths(folds)[1], folds[0] + folds[2])
    (closed,) = protocol.closed
    human = human_measures(closed, "test", folds, 2)
    by_hand = [
        measure((folds.sum(axis=0) - fold)[closed.test_films], fold[closed.test_films], 2)
        for fold in folds
    ]
    for name in ("MAP", "AUC"):
        assert human.values[name] == pytest.approx(np.mean([m.values[name] for m in by_hand]))
    # All votes, which hold the truth, are better than a third of them; constant scores are chance.
    whole = measure_split(closed, "test", closed.part("test", published_votes), truths(folds), 2)
    assert 1 >= whole.values["MAP"] > human.values["MAP"] > 0.05
    chance = measure_split(closed, "test", np.zeros((1000, 1128)), truths(folds), 2)
    assert chance.values["AUC"] == pytest.approx(0.5)


def test_each_user_is_in_one_fold():
    votes = TagVotes(
        ("a",),
        np.arange(40, dtype=np.int32),
        np.zeros(40, np.int32),
        np.repeat(np.arange(10, dtype=np.int32), 4),
    )
    folds = user_fold_votes(votes, 40, folds=2)[:, :, 0].reshape(2, 10, 4)
    assert np.isin(folds.sum(axis=2), (0, 4)).all()
    np.testing.assert_array_equal(folds.sum(axis=0), 1)
    assert folds.any(axis=(1, 2)).all()
    with pytest.raises(InputError, match="1 folds"):
        user_fold_votes(votes, 40, folds=1)


def test_small_protocol_tests_every_film_once():
    tag_votes = generated_votes(300, 60, 900)
    votes = tag_votes.votes(300)
    names = [f"film {i}" for i in range(300)]
    protocol = small_protocol(votes, names, tag_votes.tags)
    assert protocol.thresholds == (0, 2)
    assert len(protocol.closed) == 5
    tested = np.concatenate([split.test_films for split in protocol.closed])
    np.testing.assert_array_equal(np.sort(tested), np.flatnonzero(votes.any(axis=1)))
    for split in protocol.closed:
        train, dev, test = parts(split, "films")
        assert not train & dev and not train & test and not dev & test
        assert len(train | dev | test) == len(tested)
    train, dev, test = parts(protocol.open, "tags")
    voted = np.count_nonzero(votes.any(axis=0))
    assert (len(test), len(dev)) == (round(voted * 500 / 1128), round(voted * 100 / 1128))
    assert len(train | dev | test) == voted == len(train) + len(dev) + len(test)


ONE_TO_ONE = [None, [*range(1, 300), None], [None] * 300]


@pytest.mark.parametrize("movielens_ids", ONE_TO_ONE)
def test_films_with_numbers_of_their_own_are_split_by_the_hash_of_their_names(movielens_ids):
    tag_votes = generated_votes(300, 60, 900)
    votes = tag_votes.votes(300)
    names = [f"film {i}" for i in range(300)]
    protocol = small_protocol(votes, names, tag_votes.tags, movielens_ids)
    voted = np.flatnonzero(votes.any(axis=1)).tolist()
    order = sorted(voted, key=lambda film: stable_hash(names[film]))
    for fold, split in enumerate(protocol.closed):
        test, dev = sorted(order[fold::5]), sorted(order[(fold + 1) % 5 :: 5])
        assert (split.test_films.tolist(), split.dev_films.tolist()) == (test, dev)
        assert split.train_films.tolist() == sorted(set(voted) - {*test, *dev})
        assert (
            split.train_films.dtype == split.dev_films.dtype == split.test_films.dtype == np.int32
        )


def test_published_splits_of_films_with_numbers_of_their_own_are_those_of_their_names(
    published, published_votes
):
    ids = list(range(17_131))
    (split,) = published_protocol(published_votes, PUBLISHED_NAMES, published.tags, ids).closed
    positive = np.flatnonzero((published_votes > 2).any(axis=1)).tolist()
    order = sorted(positive, key=lambda film: stable_hash(PUBLISHED_NAMES[film]))
    assert split.test_films.tolist() == sorted(order[:1000])
    assert split.dev_films.tolist() == sorted(order[1000:1380])
    voted = set(np.flatnonzero(published_votes.any(axis=1)).tolist())
    assert split.train_films.tolist() == sorted(voted - set(order[:1380]))


def test_rows_of_one_film_stay_together(published, published_votes):
    """Items 2 i and 2 i + 1 are one film, which users gave one set of tags."""
    small = generated_votes(150, 60, 900)
    of_small = np.repeat(small.votes(150), 2, axis=0)
    names = [f"item {i}" for i in range(300)]
    ids = [i // 2 for i in range(300)]
    splits = list(small_protocol(of_small, names, small.tags, ids).closed)
    tested = np.concatenate([split.test_films for split in splits])
    np.testing.assert_array_equal(np.sort(tested), np.flatnonzero(of_small.any(axis=1)))
    # Of an item that has only single votes and one with more, too.
    votes = published_votes[np.arange(17_131) // 2 * 2]
    votes[1::2] = np.minimum(votes[1::2], 1)
    ids = [i // 2 for i in range(17_131)]
    (split,) = published_protocol(votes, PUBLISHED_NAMES, published.tags, ids).closed
    assert (len(set(split.test_films // 2)), len(set(split.dev_films // 2))) == (1000, 380)
    for of in (*splits, split):
        train, dev, test = ({row // 2 for row in part} for part in parts(of, "films"))
        assert not train & dev and not train & test and not dev & test


def test_splits_do_not_depend_on_the_order_of_films():
    tag_votes = generated_votes(300, 60, 900)
    votes, order = tag_votes.votes(300), np.random.default_rng(1).permutation(300)
    names = np.array([f"film {i}" for i in range(300)])
    first = small_protocol(votes, names.tolist(), tag_votes.tags).closed[0]
    second = small_protocol(votes[order], names[order].tolist(), tag_votes.tags).closed[0]
    assert set(names[first.test_films]) == set(names[order][second.test_films])


def test_fewer_training_tags_lie_inside_more():
    tag_votes = generated_votes(300, 60, 900)
    names = [f"film {i}" for i in range(300)]
    split = small_protocol(tag_votes.votes(300), names, tag_votes.tags).open
    few, more = limit_tags(split, 5), limit_tags(split, 9)
    assert set(few.train_tags) < set(more.train_tags) < set(split.train_tags)
    np.testing.assert_array_equal(few.test_tags, split.test_tags)
    for number in (0, 61):
        with pytest.raises(InputError, match="training tags"):
            limit_tags(split, number)


def test_too_little_data_is_refused():
    tag_votes = generated_votes(300, 60, 900)
    names = [f"film {i}" for i in range(300)]
    with pytest.raises(InputError, match="use the small protocol"):
        published_protocol(tag_votes.votes(300), names, tag_votes.tags)
    with pytest.raises(InputError, match="needs 5 of both"):
        small_protocol(np.eye(4, dtype=int), names[:4], tag_votes.tags[:4])
    with pytest.raises(InputError, match="shape"):
        small_protocol(tag_votes.votes(300), names[:9], tag_votes.tags)
    with pytest.raises(InputError, match="movielens_ids"):
        small_protocol(tag_votes.votes(300), names, tag_votes.tags, [1] * 9)


def test_fewer_films_lie_inside_more_and_training_films_stay():
    films, tags = np.arange(40, dtype=np.int32), np.arange(3, dtype=np.int32)
    split = TagSplit("closed", films[:10], films[10:25], films[25:], tags, tags, tags)
    assert limit_films(split, None) == split
    with pytest.raises(InputError, match="0 films"):
        limit_films(split, 0)
    fewer, fewest = limit_films(split, 8), limit_films(split, 4)
    assert np.array_equal(fewer.train_films, split.train_films)
    for part, low in (("dev_films", 10), ("test_films", 25)):
        some, least = getattr(fewer, part), getattr(fewest, part)
        assert len(some) == 8 and np.all(np.diff(some) > 0) and some.min() >= low
        assert set(least) < set(some) and some.dtype == np.int32
    assert limit_films(split, 99).dev_films.tolist() == split.dev_films.tolist()


def test_precisions_of_films_are_meant_over_the_truths_that_have_a_positive():
    films = np.arange(3, dtype=np.int32)
    tags = np.arange(2, dtype=np.int32)
    split = TagSplit("closed", films, films, films, tags, tags, tags)
    truth = np.array([[[1, 0], [1, 0], [0, 0]], [[0, 1], [0, 0], [0, 0]]])
    scores = np.tile([1.0, 0.0], (3, 1))
    precisions = measure_split(split, "test", scores, truth, 0).film_precisions
    np.testing.assert_array_equal(precisions, [(1 + 1 / 2) / 2, 1, np.nan])
