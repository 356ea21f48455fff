import dataclasses
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ltr_jax.baselines import (
    TfidfIndex,
    association_ranking,
    hardest_irrelevant,
    popularity_ranking,
    rank_by,
    tfidf_ranking,
    vector_ranking,
)
from ltr_jax.datasets.collection import DIFFICULTIES, Collection, Texts, Topics
from ltr_jax.datasets.debian_folder import read_debian_folder
from ltr_jax.evaluation import evaluate_levels, to_levels
from ltr_jax.tokenizers import latin_compounds, split_words
from retrieval_jax.errors import InputError
from retrieval_jax.word_vectors import WordVectors

REAL = (
    Path(os.environ.get("RETRIEVAL_DATA", Path(__file__).parents[3] / "shared" / "data"))
    / "debian_clir"
)
needs_data = pytest.mark.skipif(
    not REAL.is_dir(), reason="needs debian_clir in the folder RETRIEVAL_DATA"
)

# The figures of the data's own README, at 40, 200, 400 and 1000 irrelevant documents.
TFIDF = {
    "de": (0.753, 0.645, 0.600, 0.540),
    "fr": (0.811, 0.715, 0.667, 0.605),
    "ja": (0.751, 0.636, 0.590, 0.534),
}

DOCUMENTS = ("kde spiel", "kde kde bibliothek", "gnome spiel", "", "anderes")
QUERIES = ("a kde game", "gnome", "nothing")


def make_collection():
    ids = tuple(f"d{i}" for i in range(len(DOCUMENTS)))
    queries = tuple(f"q{i}" for i in range(len(QUERIES)))
    test = Topics(("q0", "q1", "q2"), {"q0": {"d0": 2}, "q1": {"d2": 2, "d1": 1}}, {})
    train = Topics(("q0", "q1"), {"q0": {"d0": 2, "d1": 1}, "q1": {"d1": 1, "d2": 1}}, {})
    return Collection(
        "toy en-de",
        Texts("en", queries, QUERIES, ((),) * len(QUERIES)),
        Texts("de", ids, DOCUMENTS, ((),) * len(DOCUMENTS)),
        {"train": train, "test": test},
        (),
    )


def test_tfidf_is_the_cosine() -> None:
    scores = TfidfIndex(DOCUMENTS, split_words).scores(["kde", "nothing", "anderes"])
    idf = {word: np.log(6 / (1 + df)) + 1 for word, df in {"kde": 2, "spiel": 2, "x": 1}.items()}
    first = idf["kde"] / np.hypot(idf["kde"], idf["spiel"])
    twice = (1 + np.log(2)) * idf["kde"]
    expected = [first, twice / np.hypot(twice, idf["x"]), 0, 0, 0]
    np.testing.assert_allclose(scores[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(scores[1], np.zeros(5))
    np.testing.assert_allclose(scores[2], [0, 0, 0, 0, 1], rtol=1e-6)


def test_documents_without_words() -> None:
    with pytest.raises(InputError, match="None of the 2 documents"):
        TfidfIndex(["", "..."])


def test_only_candidates_are_ranked() -> None:
    ranking = tfidf_ranking(make_collection(), {"q0": ("d4", "d1", "d0"), "q2": ("d3",)})
    assert list(ranking["q0"]) == ["d4", "d1", "d0"]
    assert ranking["q0"]["d1"] > ranking["q0"]["d0"] > ranking["q0"]["d4"] == 0
    assert ranking["q2"] == {"d3": 0.0}


def test_translated_queries() -> None:
    candidates = {"q0": ("d0", "d2")}
    ranking = tfidf_ranking(make_collection(), candidates, texts={"q0": "gnome spiel"})
    assert ranking["q0"]["d2"] == pytest.approx(1.0)
    with pytest.raises(InputError, match="no text for 1 queries, the first 'q0'"):
        tfidf_ranking(make_collection(), candidates, texts={"q1": "x"})


def test_batches_of_queries_change_nothing(monkeypatch) -> None:
    collection = make_collection()
    candidates = dict.fromkeys(("q0", "q1", "q2"), collection.documents.ids)
    scores = TfidfIndex(DOCUMENTS).scores
    whole = rank_by(scores, collection, candidates)
    monkeypatch.setattr("ltr_jax.baselines._MAX_SCORES", 1)
    assert rank_by(scores, collection, candidates) == whole


def test_cosine_of_mean_vectors() -> None:
    documents = WordVectors(("kde", "spiel"), np.array([[1, 0], [0, 2]], np.float32))
    queries = WordVectors(("kde", "game"), np.array([[2, 0], [0, 2]], np.float32))
    candidates = {"q0": ("d0", "d1", "d3"), "q2": ("d0",)}
    ranking = vector_ranking(make_collection(), candidates, queries, documents)
    # "a kde game" is (2, 2), "kde spiel" (1, 2), "kde kde bibliothek" (2, 0), "" and "nothing" 0.
    expected = {"d0": 3 / np.sqrt(10), "d1": 1 / np.sqrt(2), "d3": 0.0}
    assert ranking["q0"] == pytest.approx(expected, abs=1e-6)
    assert ranking["q2"] == {"d0": 0.0}


def test_popularity_counts_links_of_training_alone() -> None:
    ranking = popularity_ranking(make_collection(), {"q2": ("d0", "d1", "d2")})
    assert ranking == {"q2": {"d0": 0.0, "d1": 2.0, "d2": 1.0}}


def test_association_of_categories() -> None:
    ids = ("a", "b", "c", "d")
    sides = [
        Texts("en", ids, ("",) * 4, (("x",), ("x", "y"), ("y",), ())),
        Texts("de", ids, ("",) * 4, (("u",), ("v",), ("v", "w"), ())),
    ]
    # Of relevance 2: (a, a), (b, b), (c, c). The pair of relevance 1 does not count.
    qrels = {"a": {"a": 2, "c": 1}, "b": {"b": 2}, "c": {"c": 2}}
    train = Topics(("a", "b", "c"), qrels, {})
    collection = Collection("toy en-de", *sides, {"train": train}, ())
    ranking = association_ranking(collection, {"b": ids, "d": ids})
    pmi = {
        "xu": np.log(1 * 3 / (2 * 1)),
        "xv": np.log(1 * 3 / (2 * 2)),
        "yv": np.log(2 * 3 / (2 * 2)),
        "yw": np.log(1 * 3 / (2 * 1)),
    }
    assert ranking["b"] == pytest.approx(
        {
            "a": pmi["xu"] / 2,
            "b": (pmi["xv"] + pmi["yv"]) / 2,
            "c": (pmi["xv"] + pmi["yv"] + pmi["yw"]) / 4,
            "d": 0,
        },
        abs=1e-6,
    )
    assert ranking["d"] == dict.fromkeys(ids, 0.0)


def random_categories(n, names, rng):
    return tuple(
        tuple(names[i] for i in rng.choice(len(names), rng.integers(0, 4), replace=False))
        for _ in range(n)
    )


def collection_of_categories(of_queries, of_documents):
    ids = tuple(str(i) for i in range(len(of_queries)))
    sides = [
        Texts(language, ids, ("",) * len(ids), categories)
        for language, categories in (("en", of_queries), ("de", of_documents))
    ]
    train = Topics(ids, {name: {name: 2} for name in ids}, {})
    return Collection("toy en-de", *sides, {"train": train}, ())


def test_association_equals_the_formula_on_dense_tables() -> None:
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(9)]
    sides = random_categories(40, names, rng), random_categories(40, names, rng)
    has = [np.array([[name in of for name in names] for of in side], float) for side in sides]
    together, expected = has[0].T @ has[1], np.outer(has[0].sum(0), has[1].sum(0)) / 40
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.where(together > 0, np.log(together / expected), 0)
        means = [of / np.maximum(of.sum(1, keepdims=True), 1) for of in has]
    scores = means[0] @ information @ means[1].T
    assert (scores > 0).any() and (scores < 0).any()

    collection = collection_of_categories(*sides)
    ids = collection.documents.ids
    ranking = association_ranking(collection, dict.fromkeys(ids, ids))
    found = [[of_query[document] for document in ids] for of_query in ranking.values()]
    np.testing.assert_allclose(found, scores, atol=1e-6)


def test_association_of_hundreds_of_thousands_of_categories_fits_in_memory() -> None:
    n = 100_000
    # Of its own two, and one of a few that many texts share.
    own = tuple((f"a{i}", f"b{i}", f"shared{i % 50}") for i in range(n))
    collection = collection_of_categories(own, own)
    tracemalloc.start()
    ranking = association_ranking(collection, {"7": ("7", "57", "8")})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**30  # as a table they would be 300 GiB
    # Of nine pairs four are of the own two alone, and five have the shared one in them.
    expected = {"7": (4 * np.log(n) + 5 * np.log(50)) / 9, "57": 5 * np.log(50) / 9, "8": 0}
    assert ranking["7"] == pytest.approx(expected, abs=1e-5)


def test_hardest_irrelevant_documents() -> None:
    collection = make_collection()
    split = dataclasses.replace(
        collection.splits["test"], irrelevant={"q0": ("d3", "d4"), "q1": ("d3",), "q2": ("d0",)}
    )
    topics = hardest_irrelevant(collection, split, 3)
    # Of q0 d0 is relevant; d1 shares a word; others are equal, in their own order.
    assert topics.irrelevant["q0"] == ("d1", "d2", "d3")
    assert topics.irrelevant["q1"] == ("d0", "d3", "d4")
    assert topics.qrels == split.qrels
    by_translation = hardest_irrelevant(
        collection,
        split,
        1,
        texts={"q0": "anderes", "q1": "anderes", "q2": "gnome"},
    )
    assert by_translation.irrelevant == {"q0": ("d4",), "q1": ("d4",), "q2": ("d2",)}
    with pytest.raises(InputError, match="query 'q0' has 4"):
        hardest_irrelevant(collection, split, 5)
    # A document that no query of the split ranks is not found.
    own = dataclasses.replace(split, irrelevant={"q0": ("d4",)})
    assert own.pool == ("d0", "d1", "d2", "d4")
    assert hardest_irrelevant(collection, own, 2).irrelevant["q1"] == ("d0", "d4")


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("language", TFIDF)
def test_tfidf_on_real_data(language) -> None:
    collection = read_debian_folder(REAL, language)
    topics = collection.splits["test"]
    ranking = tfidf_ranking(collection, topics.candidates, latin_compounds)
    levels = evaluate_levels(to_levels(ranking, topics, DIFFICULTIES), topics)
    found = [level.mean["nDCG"] for level in levels.values()]
    # Its words were split a little differently.
    np.testing.assert_allclose(found, TFIDF[language], atol=0.01)


@needs_data
def test_popularity_on_real_data() -> None:
    collection = read_debian_folder(REAL, "de")
    topics = collection.splits["test"]
    ranking = popularity_ranking(collection, topics.candidates)
    found = evaluate_levels(to_levels(ranking, topics, (40, 1000)), topics)
    assert found[40].mean["nDCG"] == pytest.approx(0.483, abs=0.002)
    assert found[1000].mean["nDCG"] == pytest.approx(0.227, abs=0.002)
