"""Lookups, packed rows and the sampling of instances."""

import dataclasses

import numpy as np
import pytest

from ltr_jax.config import SamplingConfig
from ltr_jax.data import InstanceSource, Sampler, feature_table, make_data, training_batches
from ltr_jax.datasets.collection import Topics
from retrieval_jax.errors import InputError
from retrieval_jax.packing import place
from retrieval_jax.word_vectors import WordVectors
from tests.ltr_jax.toy_collection import toy_collection, toy_config, toy_vectors

COLLECTION = toy_collection()
SAMPLING = SamplingConfig(partly_relevant=2, irrelevant=3, documents_per_query=4)
VECTORS = WordVectors(("a", "b", "c"), np.array([[1, 0], [0, 1], [1, 1]], np.float32))


def test_what_has_no_vector_is_left_out_and_texts_are_cut():
    table = feature_table([["a", "x", "c"], [], ["b"], ["c"] * 9], VECTORS, 2, 4)
    np.testing.assert_array_equal(
        table.table.input_ids, [[1, 3, 0, 0], [0] * 4, [2, 0, 0, 0], [3, 3, 3, 3]]
    )
    np.testing.assert_array_equal(table.table.lengths, [2, 2, 2, 4])
    np.testing.assert_array_equal(table.vectors, [[0, 0], *VECTORS.vectors])
    scaled = feature_table([["a"]], VECTORS, 1, 4, scale=0.5).vectors
    np.testing.assert_allclose(
        scaled, [[0, 0], [0.5**0.5, 0], [0, 0.5**0.5], [0.5, 0.5]], rtol=1e-6
    )


def test_windows_stay_inside_their_text():
    table = feature_table([["a", "b", "c"], [], ["b"]], VECTORS, 2, 4)
    texts = np.array([2, 0, 1])
    placement = place(table.table.lengths[texts], 8)
    vectors, windows = table.pack(texts, 1, placement, 8)
    # One row: text 0 (number 2 here) has two windows, text 2 (number 1) one, text 1 none.
    assert sorted(windows[0].tolist()) == [0] * 5 + [1, 2, 2]
    first = int(np.flatnonzero(windows[0] == 2)[0])
    np.testing.assert_array_equal(vectors[0, first : first + 3], VECTORS.vectors)
    only = int(np.flatnonzero(windows[0] == 1)[0])
    np.testing.assert_array_equal(vectors[0, only : only + 2], [[0, 1], [0, 0]])


def drawn(seed=0, config=SAMPLING, collection=COLLECTION, queries=None):
    sampler = Sampler(collection, config)
    queries = np.arange(8) if queries is None else queries
    return sampler, queries, sampler.draw(queries, np.random.default_rng(seed))


def test_slots_hold_what_is_relevant_and_irrelevant():
    sampler, queries, instances = drawn()
    documents, candidates = instances.documents, instances.candidates
    assert len(documents) == len(set(documents.tolist())) == 32
    assert candidates.shape == (8, 3, 4)
    qrels = COLLECTION.splits["train"].qrels
    ids = COLLECTION.documents.ids
    for row, query in enumerate(sampler.queries[queries]):
        judged = qrels[COLLECTION.queries.ids[query]]
        levels = [[judged.get(ids[documents[c]], 0) for c in slot] for slot in candidates[row]]
        present = instances.weights[row] > 0
        assert levels[0] == [2, 0, 0, 0]
        assert present[0].all()
        assert present[1:, 0].sum() == (0 if query % 8 == 7 else 2)
        for slot in (1, 2):
            if present[slot, 0]:
                assert levels[slot] == [1, 0, 0, 0]
            else:
                assert not present[slot].any()
        for slot in np.flatnonzero(present[:, 0]):
            assert len(set(candidates[row, slot, 1:].tolist())) == 3
        expected = [judged.get(ids[document], 0) for document in documents]
        np.testing.assert_array_equal(instances.relevance[row], expected)


def test_irrelevant_ones_are_of_training_and_uniform():
    sampler = Sampler(COLLECTION, SAMPLING)
    # Not those of its topic, nor what the batch's other queries bring.
    irrelevant = [document for document in range(4, 48) if document % 8 != 0]
    counts = np.zeros(64)
    for seed in range(1000):
        instances = sampler.draw(np.arange(4), np.random.default_rng(seed))
        drawn_ones = instances.documents[instances.candidates[0, :, 1:]]
        np.add.at(counts, drawn_ones[instances.weights[0, :, 1:] > 0], 1)
    np.testing.assert_array_equal(np.flatnonzero(counts), irrelevant)
    assert counts[irrelevant].min() > 0.5 * counts[irrelevant].mean()


def test_irrelevant_ones_may_be_of_all_documents():
    of_all = dataclasses.replace(SAMPLING, irrelevant_from="all", documents_per_query=8)
    _, _, instances = drawn(config=of_all)
    assert len(instances.documents) == 64  # all, also those from 48 on, of dev and test alone
    irrelevant = instances.documents[instances.candidates[:, :, 1:]]
    counts = sum(
        np.bincount(of.documents[of.candidates[:, :, 1:]][of.weights[:, :, 1:] > 0], minlength=64)
        for of in (drawn(seed, of_all)[2] for seed in range(40))
    )
    assert (irrelevant >= 48).any() and counts[48:].mean() > 0.8 * counts[:48].mean()


def test_draws_depend_on_the_generator_alone():
    first, second, other = (drawn(seed)[2] for seed in (1, 1, 2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (first.documents != other.documents).any()


def test_missing_irrelevant_documents_have_no_weight():
    qrels = {
        "q0": {"d0": 2, **{f"d{i}": 1 for i in range(1, 30)}},
        "q1": {"d30": 2, "d31": 1, "d32": 1, "d33": 1},
    }
    topics = Topics(tuple(qrels), qrels, {})
    collection = dataclasses.replace(COLLECTION, splits={"train": topics})
    config = SamplingConfig(partly_relevant=1, irrelevant=4, documents_per_query=17)
    sampler, _, instances = drawn(0, config, collection, np.array([0, 1]))
    assert len(sampler.queries) == 2
    # Of the four that are irrelevant to q0, two are there as relevant to q1.
    np.testing.assert_array_equal(instances.weights[0, 0], [1, 1, 1, 0, 0])


def test_queries_without_relevant_documents_are_left_out_and_reported(caplog):
    train = COLLECTION.splits["train"]
    qrels = dict(train.qrels) | {"q3": {}}
    topics = dataclasses.replace(train, qrels=qrels)
    collection = dataclasses.replace(COLLECTION, splits={"train": topics})
    assert len(Sampler(collection, SAMPLING).queries) == 47
    assert "1 queries of training have no relevant document" in caplog.text
    empty = dataclasses.replace(COLLECTION, splits={"train": Topics(("q0",), {}, {})})
    with pytest.raises(InputError, match="no query of training has a relevant document"):
        Sampler(empty, SAMPLING)


def test_more_documents_than_there_are_is_an_error():
    sampler = Sampler(COLLECTION, SAMPLING)
    with pytest.raises(InputError, match="a batch of 80 documents, of the 48 that may"):
        sampler.draw(np.arange(20), np.random.default_rng(0))


def batches(seed=0, data=None):
    data = data or make_data(COLLECTION, toy_vectors(), toy_config())
    source = InstanceSource(Sampler(COLLECTION, SAMPLING), 8, seed)
    return training_batches(data, source, row_multiple=2)


def test_batches_are_a_function_of_seed_and_step():
    iterator = batches()
    first = [next(iterator) for _ in range(3)]
    state = iterator.get_state()
    after = next(iterator)
    again = batches()
    again.set_state(state)
    for name, value in next(again).items():
        np.testing.assert_array_equal(value, after[name])
    other = next(batches(1))
    assert (other["candidates"] != first[0]["candidates"]).any()
    assert set(after) == {"candidates", "weights", "relevance"} | {
        f"{side}_{kind}{suffix}"
        for side in ("query", "document")
        for kind in ("words", "categories")
        for suffix in ("", "_windows")
    }
    assert after["document_words"].shape[0] % 2 == 0
    assert after["document_words"].dtype == np.float32


def test_an_epoch_asks_every_query_once():
    source = InstanceSource(Sampler(COLLECTION, SAMPLING), 8, 0)
    asked = [np.concatenate([source[step][0] for step in range(i, i + 6)]) for i in (0, 6)]
    assert sorted(asked[0].tolist()) == sorted(asked[1].tolist()) == list(range(48))
    assert (asked[0] != asked[1]).any()
    assert len(source) > 1000


def test_texts_without_words_or_categories_are_features_too():
    documents = dataclasses.replace(
        COLLECTION.documents, texts=("", *COLLECTION.documents.texts[1:]), categories=((),) * 64
    )
    collection = dataclasses.replace(COLLECTION, documents=documents)
    data = make_data(collection, toy_vectors(), toy_config())
    features = data.features["document"]
    assert features["words"].table.input_ids[0].sum() == 0
    assert features["categories"].table.input_ids.sum() == 0
