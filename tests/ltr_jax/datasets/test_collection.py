import dataclasses

import pytest

from ltr_jax.datasets.collection import Collection, Texts, Topics
from ltr_jax.datasets.draws import draw_irrelevant, sample, split_of
from retrieval_jax.errors import InputError


def texts(language, ids):
    return Texts(language, ids, tuple(f"text {i}" for i in ids), ((),) * len(ids))


def topics(seed=0):
    irrelevant = {"a": tuple(f"d{i}" for i in range(2, 52))}
    return Topics(("a", "b"), {"a": {"d0": 2, "d1": 1}}, irrelevant, seed)


def collection(**changes):
    documents = tuple(f"d{i}" for i in range(60))
    parts = {
        "name": "test en-de",
        "queries": texts("en", ("a", "b")),
        "documents": texts("de", documents),
        "splits": {"test": topics()},
        "category_edges": (),
    }
    return Collection(**parts | changes)


def test_candidates_are_nested_and_complete() -> None:
    easy, hard = topics().candidates_at(10)["a"], topics().candidates_at(50)["a"]
    assert set(easy) == {"d0", "d1", *(f"d{i}" for i in range(2, 12))}
    assert set(hard) == {f"d{i}" for i in range(52)}
    assert topics().candidates["a"] == hard
    assert topics().hardest == 50


def test_the_order_of_candidates_is_random_and_repeatable() -> None:
    first = topics().candidates["a"]
    assert first == topics().candidates["a"]
    assert first != topics(seed=1).candidates["a"]
    places = [topics(seed).candidates["a"].index("d0") for seed in range(200)]
    # Uniform over 52 places: mean 25.5, standard error 1.06.
    assert abs(sum(places) / len(places) - 25.5) < 4


def test_a_query_without_irrelevant_documents() -> None:
    assert topics().candidates["b"] == ()
    assert topics().candidates_at(10)["b"] == ()


@pytest.mark.parametrize("difficulty", [0, 51])
def test_levels_that_are_not_there(difficulty) -> None:
    with pytest.raises(InputError, match="1 to 50"):
        topics().candidates_at(difficulty)


@pytest.mark.parametrize(
    ("split", "problem"),
    [
        (Topics(("z",), {}, {}), "no query 'z'"),
        (Topics(("a",), {"a": {"d0": 3}}, {}), "relevance 3"),
        (Topics(("a",), {"a": {"x": 1}}, {}), "no document 'x'"),
        (Topics(("a",), {"a": {"d0": 1}}, {"a": ("d0",)}), "relevant and irrelevant"),
        (Topics(("a",), {}, {"a": ("d0", "d0")}), "irrelevant twice"),
    ],
)
def test_splits_that_do_not_fit(split, problem) -> None:
    with pytest.raises(InputError, match=problem):
        collection(splits={"test": split})


def test_texts_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="2 ids, 1 texts"):
        Texts("en", ("a", "b"), ("x",), ((), ()))
    with pytest.raises(InputError, match="'a' occurs 2 times"):
        texts("en", ("a", "a"))


def test_the_fingerprint_is_of_all_contents() -> None:
    base = collection()
    assert base.fingerprint == collection(name="other", card={"x": 1}).fingerprint
    others = [
        collection(documents=texts("fr", base.documents.ids)),
        collection(splits={"test": topics(seed=1)}),
        collection(category_edges=(("a", "b"),)),
        collection(corpora={"de": ("more",)}),
        collection(queries=dataclasses.replace(base.queries, categories=(("c",), ()))),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_the_corpus_of_a_language() -> None:
    made = collection(corpora={"en": ("more",)})
    assert made.corpus("en") == ("text a", "text b", "more")
    assert len(made.corpus("de")) == 60
    assert made.corpus("fr") == ()


def test_draws() -> None:
    names = [f"n{i}" for i in range(1000)]
    counts = {split: sum(split_of(n) == split for n in names) for split in ("train", "dev", "test")}
    assert 750 < counts["train"] < 850
    assert 70 < counts["dev"] < 130
    assert sample(names, 10, 0, "x") == sample(reversed(names), 20, 0, "x")[:10]
    assert sample(names, 10, 0, "x") != sample(names, 10, 0, "y")
    assert sorted(sample(names, None, 0, "x")) == sorted(names)
    judged = {"q": {"n0": 2, "n1": 1}}
    drawn = draw_irrelevant(judged, names, 100, 0)["q"]
    assert len(set(drawn)) == 100
    assert not {"n0", "n1"} & set(drawn)
    assert draw_irrelevant(judged | {"r": {}}, names, 100, 0)["q"] == drawn
    assert len(draw_irrelevant(judged, names, 5000, 0)["q"]) == 998
