"""The corpus type: checks, relevance judgements, subsets."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from docent_jax.datasets.corpus import EntityCorpus, Query
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import stable_hash


def corpus(sizes: tuple[int, ...] = (3, 1, 2), **changes: Any) -> EntityCorpus:
    """Entities e0, e1, ... with that many sentences, and a query for each, for e0 and e1 too."""
    fields = {
        "entities": tuple(f"e{i}" for i in range(len(sizes))),
        "sentences": tuple(f"sentence {j} of e{i}" for i, n in enumerate(sizes) for j in range(n)),
        "sentence_entities": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
        "queries": {
            "dev": tuple(Query(f"q{i}", f"which {i}", (i,)) for i in range(len(sizes))),
            "test": (Query("q01", "which of two", (0, 1)),),
        },
        "aliases": tuple((f"alias{i}",) for i in range(len(sizes))),
        "card": {"seen": 9},
    }
    return EntityCorpus(**{**fields, **changes})


def test_bounds_and_qrels() -> None:
    small = corpus()
    assert small.bounds.tolist() == [0, 3, 4, 6]
    assert small.qrels("dev") == {"q0": {"e0": 1}, "q1": {"e1": 1}, "q2": {"e2": 1}}
    assert small.qrels("test") == {"q01": {"e0": 1, "e1": 1}}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sentences": (), "sentence_entities": np.zeros(0, np.int32)}, "document set is empty"),
        ({"sizes": (2,)}, "1 entity"),
        ({"sentence_entities": np.zeros(5, np.int32)}, r"int32\[5\], not int32\[6\]"),
        ({"sentence_entities": np.array([0, 0, 0, 1, 2, 2])}, "int64"),
        ({"sentence_entities": np.array([0, 0, 0, 1, 2, 3], np.int32)}, "0 to 2 in order"),
        ({"sentence_entities": np.array([-1, 0, 0, 1, 2, 2], np.int32)}, "0 to 2 in order"),
        ({"sentence_entities": np.array([0, 0, 1, 0, 2, 2], np.int32)}, "0 to 2 in order"),
        ({"sentence_entities": np.array([0, 0, 0, 0, 2, 2], np.int32)}, "0 to 2 in order"),
        ({"entities": ("e0", "e1", "e0")}, "3 different names"),
        ({"aliases": (("a",),)}, "aliases"),
        ({"queries": {"dev": (Query("q", "text", (3,)),)}}, "'q'.*3"),
        ({"queries": {"dev": (Query("q", "text", ()),)}}, "'q'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        corpus(**changes)


def test_fingerprint_tells_contents_apart() -> None:
    assert corpus().fingerprint == corpus(card={}).fingerprint
    assert len(corpus().fingerprint) == 64
    changed = [
        corpus(entities=("e0", "e1", "e3")),
        corpus(sentences=(*corpus().sentences[:5], "another")),
        corpus(sentence_entities=np.array([0, 0, 1, 1, 2, 2], np.int32)),
        corpus(queries={"dev": ()}),
    ]
    assert len({c.fingerprint for c in [corpus(), *changed]}) == 5


def test_subset_spreads_sentences_evenly() -> None:
    small = corpus((5, 1)).subset(sentences_per_entity=2)
    assert small.sentences == ("sentence 0 of e0", "sentence 2 of e0", "sentence 0 of e1")
    assert small.sentence_entities.tolist() == [0, 0, 1]
    assert small.sentence_entities.dtype == np.int32


def test_subset_renumbers_entities_and_queries() -> None:
    whole = corpus((1,) * 20)
    small = whole.subset(entities=7)
    by_hash = sorted(whole.entities, key=stable_hash)[:7]
    assert small.entities == tuple(name for name in whole.entities if name in by_hash)
    assert small.sentences == tuple(f"sentence 0 of {name}" for name in small.entities)
    assert small.aliases == tuple((name.replace("e", "alias"),) for name in small.entities)
    assert [(q.query_id, q.entity_ids) for q in small.queries["dev"]] == [
        (name.replace("e", "q"), (i,)) for i, name in enumerate(small.entities)
    ]
    relevant = tuple(small.entities.index(name) for name in ("e0", "e1") if name in by_hash)
    assert [q.entity_ids for q in small.queries["test"]] == ([relevant] if relevant else [])
    assert small.card == {"seen": 9, "entities in the subset": 7, "sentences in the subset": 7}


def test_subsets_are_nested_and_whole_when_large() -> None:
    whole = corpus((1,) * 20)
    assert set(whole.subset(entities=5).entities) < set(whole.subset(entities=9).entities)
    assert whole.subset(100, 100).fingerprint == whole.fingerprint
    assert whole.subset().fingerprint == whole.fingerprint


@pytest.mark.parametrize(("entities", "sentences"), [(1, None), (0, 1), (-3, 1), (None, 0)])
def test_subsets_that_cannot_be_ranked_are_refused(
    entities: int | None, sentences: int | None
) -> None:
    with pytest.raises(InputError, match="cannot be ranked"):
        corpus().subset(entities, sentences)


def test_a_corpus_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        corpus().entities = ()  # pyright: ignore[reportAttributeAccessIssue]
