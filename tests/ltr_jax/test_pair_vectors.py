"""Word vectors of two languages from training pairs."""

import dataclasses

import numpy as np
import pytest

from ltr_jax.datasets.collection import Collection, Texts, Topics
from ltr_jax.pair_vectors import train_pair_vectors
from retrieval_jax.errors import InputError

# Three topics of three pairs each; "kde" is a word of both languages, "die" everywhere.
ENGLISH = ("game level kde", "game level", "level game score") + ("mail server",) * 3
ENGLISH += ("font glyph", "glyph font", "font glyph")
GERMAN = ("die spiel stufe kde", "die stufe spiel kde", "die spiel stufe") + ("die post",) * 3
GERMAN += ("die schrift", "die schrift", "die schrift zeichen")


def make_collection(qrels=None):
    ids = tuple(f"{i}" for i in range(len(ENGLISH)))
    none = ((),) * len(ids)
    qrels = {i: {i: 2} for i in ids} if qrels is None else qrels
    return Collection(
        "toy en-de",
        Texts("en", ids, ENGLISH, none),
        Texts("de", ids, GERMAN, none),
        {"train": Topics(ids, qrels, {})},
        (),
        corpora={"en": ("a kde game", "kde")},
    )


def unit(vectors, word):
    vector = vectors.vectors[vectors.vocabulary[word]]
    return vector / np.linalg.norm(vector)


def test_translations_are_near_each_other() -> None:
    english, german = train_pair_vectors(make_collection(), dim=3, min_count=2, seed=0)
    for word, near, far in (
        ("game", "spiel", "post"),
        ("server", "post", "schrift"),
        ("glyph", "schrift", "stufe"),
    ):
        assert unit(english, word) @ unit(german, near) > 0.95
        assert unit(english, word) @ unit(german, far) < 0.5
    np.testing.assert_allclose(unit(english, "kde"), unit(german, "kde"), atol=1e-6)


def test_each_language_has_the_frequent_words_of_its_texts() -> None:
    english, german = train_pair_vectors(make_collection(), dim=3, min_count=2, seed=0)
    assert set(english.words) == {"game", "level", "mail", "server", "font", "glyph", "kde"}
    assert set(german.words) == {"die", "spiel", "stufe", "kde", "post", "schrift"}
    assert english.vectors.dtype == np.float32


def test_lengths_are_idf() -> None:
    english, _ = train_pair_vectors(make_collection(), dim=3, min_count=2, seed=0)
    texts = 9 + 2  # with those of the corpus, of which "kde" is in two and "game" in one

    def idf(occurs):
        return np.log((1 + texts) / (1 + occurs)) + 1

    lengths = np.sqrt(np.mean(np.square(english.vectors), axis=1))
    rarest = idf(1)
    assert lengths[english.vocabulary["kde"]] == pytest.approx(idf(3) / rarest, rel=1e-5)
    assert lengths[english.vocabulary["game"]] == pytest.approx(idf(4) / rarest, rel=1e-5)


def test_the_same_seed_gives_the_same_vectors() -> None:
    first, second = (train_pair_vectors(make_collection(), 3, 2, 0)[0] for _ in range(2))
    np.testing.assert_array_equal(first.vectors, second.vectors)


def test_other_judgements_are_not_used() -> None:
    collection = make_collection()
    more = {query: of | {f"{(int(query) + 3) % 9}": 1} for query, of in
            collection.splits["train"].qrels.items()}  # fmt: skip
    partly = make_collection(more)
    split = Topics(("0",), {"0": {"5": 2}}, {})
    partly = dataclasses.replace(partly, splits={**partly.splits, "test": split})
    for one, other in zip(
        train_pair_vectors(collection, 3, 2, 0), train_pair_vectors(partly, 3, 2, 0), strict=True
    ):
        np.testing.assert_array_equal(one.vectors, other.vectors)


def test_too_little_to_learn_from_is_refused() -> None:
    with pytest.raises(InputError, match="9 training pairs have 12 words"):
        train_pair_vectors(make_collection(), dim=10, min_count=2, seed=0)
    with pytest.raises(InputError, match="no document of relevance 2"):
        train_pair_vectors(make_collection(qrels={"0": {"1": 1}}), dim=3, min_count=2, seed=0)
