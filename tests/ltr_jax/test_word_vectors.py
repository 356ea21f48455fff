import dataclasses

import numpy as np
import pytest

from ltr_jax.category_vectors import (
    CategoryVectorConfig,
    absent_categories,
    deepwalk,
    train_category_vectors,
)
from ltr_jax.datasets.collection import Collection, Texts, Topics
from ltr_jax.word_vectors import WordVectorConfig, kept_vectors, train_word_vectors
from retrieval_jax.errors import InputError

pytest.importorskip("gensim")


def make_collection(edges=(("a", "b"), ("b", "a"), ("c", "c"))):
    texts = ("spiel spiel haus", "spiel. Haus!", "")
    return Collection(
        "toy en-de",
        Texts("en", ("q",), ("game house game",), (("a", "x"),)),
        Texts("de", ("1", "2", "3"), texts, (("b",), (), ("y", "a"))),
        {"train": Topics(("q",), {}, {})},
        edges,
        corpora={"en": ("a house",)},
    )


CONFIG = WordVectorConfig(dim=8, epochs=2)


def test_words_of_each_language(tmp_path) -> None:
    german = train_word_vectors(make_collection(), "de", CONFIG, tmp_path)
    assert german.vectors.words == ("spiel", "haus")
    assert german.vectors.vectors.shape == (2, 8)
    assert german.vectors.vectors.dtype == np.float32
    assert german.seconds > 0
    english = train_word_vectors(make_collection(), "en", CONFIG, tmp_path)
    assert set(english.vectors.words) == {"game", "house"}
    with pytest.raises(InputError, match=r"no text in 'fr'(.|\n)*en and de"):
        train_word_vectors(make_collection(), "fr", CONFIG, tmp_path)


def test_vectors_are_trained_once(tmp_path, monkeypatch) -> None:
    first = train_word_vectors(make_collection(), "de", CONFIG, tmp_path)
    with monkeypatch.context() as context:
        context.setattr("ltr_jax.word_vectors.train_skipgram", None)
        again = train_word_vectors(make_collection(), "de", CONFIG, tmp_path)
    assert again.seconds == first.seconds
    np.testing.assert_array_equal(again.vectors.vectors, first.vectors.vectors)
    other = WordVectorConfig(dim=8, epochs=2, seed=1)
    assert len(list(tmp_path.iterdir())) == 1
    train_word_vectors(make_collection(), "de", other, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_texts_of_a_file_are_trained_on_as_those_in_memory(tmp_path) -> None:
    further = ("A palace; a palace!", "", "the garden of the palace")
    path = tmp_path / "corpus_en.txt"
    path.write_text("\n".join(further), encoding="utf-8")
    toy = make_collection()
    in_memory = dataclasses.replace(toy, corpora={"en": (*toy.corpora["en"], *further)})
    in_file = dataclasses.replace(toy, corpus_files={"en": path})
    first, second, without = (
        train_word_vectors(collection, "en", CONFIG, tmp_path / "vectors").vectors
        for collection in (in_memory, in_file, toy)
    )
    assert first.words[:3] == ("a", "palace", "game") and "palace" not in without.words
    assert second.words == first.words
    np.testing.assert_array_equal(second.vectors, first.vectors)
    assert len(list((tmp_path / "vectors").iterdir())) == 3  # and nothing temporary
    # Another file, other vectors, and another collection.
    before = in_file.fingerprint
    path.write_text("a house", encoding="utf-8")
    changed = dataclasses.replace(toy, corpus_files={"en": path})
    assert (
        "palace"
        not in train_word_vectors(changed, "en", CONFIG, tmp_path / "vectors").vectors.words
    )
    assert len({before, changed.fingerprint, toy.fingerprint}) == 3


def test_the_same_texts_give_the_same_vectors(tmp_path) -> None:
    found = [
        train_word_vectors(make_collection(), "de", CONFIG, tmp_path / name).vectors.vectors
        for name in "ab"
    ]
    np.testing.assert_array_equal(*found)


def test_nothing_is_kept_of_a_training_that_fails(tmp_path) -> None:
    def fail():
        raise InputError("no", "no")

    with pytest.raises(InputError):
        kept_vectors(["x"], fail, tmp_path)
    assert not list(tmp_path.iterdir())


def test_categories_of_a_graph_with_cycles_and_parts(tmp_path, caplog) -> None:
    found = train_category_vectors(make_collection(), CategoryVectorConfig(), tmp_path).vectors
    assert sorted(found.words) == ["a", "b", "c"]
    assert found.vectors.shape == (3, 30)
    assert np.isfinite(found.vectors).all()
    assert absent_categories(make_collection()) == ("x", "y")
    assert "2 categories of texts are not in the graph and have no vector: x, y" in caplog.text


def test_neighbours_in_the_graph_are_near() -> None:
    # Two cliques without an edge between them.
    edges = tuple((f"{part}{i}", f"{part}{j}") for part in "ab" for i in range(6) for j in range(i))
    found = deepwalk(edges, CategoryVectorConfig(walks=20, epochs=10))
    assert len(found.words) == 12
    unit = found.vectors / np.linalg.norm(found.vectors, axis=1, keepdims=True)
    same = np.array([[a[0] == b[0] for b in found.words] for a in found.words])
    cosines = unit @ unit.T
    assert cosines[same].min() > cosines[~same].max()
    again = deepwalk(edges, CategoryVectorConfig(walks=20, epochs=10))
    np.testing.assert_array_equal(found.vectors, again.vectors)


def test_a_collection_without_graph(tmp_path) -> None:
    with pytest.raises(InputError, match="no category graph"):
        train_category_vectors(make_collection(edges=()), CategoryVectorConfig(), tmp_path)
