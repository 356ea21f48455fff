"""From objects to entities: copies, names, held-out queries, each rule by a small case."""

import pytest

from docent_jax.datasets.documents import MAX_ENTITIES_PER_SENTENCE, entity_corpus
from docent_jax.datasets.public_objects import PublicObject
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import stable_hash

NUMBERS = ("first", "second", "third", "fourth", "fifth", "sixth")


def described(*paths: str, summary: str = "", about: str = "", n: int = 5) -> PublicObject:
    """An object with a summary and n sentences of six words."""
    about = about or paths[0].rpartition(".")[2].upper() + "ish"
    lines = [f"The {number} thing of {about} is." for number in NUMBERS[:n]]
    return PublicObject(paths, "\n\n".join([summary or f"What {about} things are.", *lines]))


FILLER = described("z.filler")


def test_documents_and_queries() -> None:
    corpus = entity_corpus([FILLER, described("a.saw", "a.b.saw"), described("a.axe")], {"seen": 3})
    assert corpus.entities == ("a.axe", "a.saw", "z.filler")
    assert corpus.aliases == ((), ("a.b.saw",), ())
    assert corpus.sentences[:2] == (
        "The first thing of AXEish is.",
        "The second thing of AXEish is.",
    )
    assert corpus.sentence_entities.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    queries = {q.query_id: (q.text, q.entity_ids) for qs in corpus.queries.values() for q in qs}
    assert queries == {
        "a.axe": ("What AXEish things are.", (0,)),
        "a.saw": ("What SAWish things are.", (1,)),
        "z.filler": ("What FILLERish things are.", (2,)),
    }
    assert (corpus.card["seen"], corpus.card["entities"], corpus.card["sentences"]) == (3, 3, 15)
    assert corpus.card["words"] == 15 * 6


def test_queries_are_split_by_the_parity_of_the_name() -> None:
    corpus = entity_corpus(
        [described(f"a.f{i}", about=f"kind{c}") for i, c in enumerate("abcdef")], {}
    )
    for split, parity in (("dev", 0), ("test", 1)):
        for query in corpus.queries[split]:
            assert stable_hash(query.query_id) % 2 == parity
    assert sum(map(len, corpus.queries.values())) == 6


def test_own_names_are_removed_from_sentences_and_query() -> None:
    text = """Make a Saw with saw() from steel.

    Unlike an axe, the tools.saw is thin (saw).

    The seesaw and saw_blade have many uses.

    saw.cut divides planks and beams evenly.

    Saws and sawing are something else.

    A Cutter makes less noise, they say."""
    corpus = entity_corpus([PublicObject(("a.saw", "a.Cutter"), text), FILLER], {})
    assert corpus.sentences[:5] == (
        "Unlike an axe, the is thin.",
        "The seesaw and saw_blade have many uses.",
        "cut divides planks and beams evenly.",
        "Saws and sawing are something else.",
        "A makes less noise, they say.",
    )
    (query,) = [q for qs in corpus.queries.values() for q in qs if q.query_id == "a.saw"]
    assert query.text == "Make a with from steel."


def test_equal_texts_are_one_entity_whatever_their_names() -> None:
    copies = [described("b.saw", about="blades"), described("a.x.cutter", about="blades")]
    corpus = entity_corpus([*copies, FILLER], {})
    assert corpus.entities == ("b.saw", "z.filler")
    assert corpus.aliases[0] == ("a.x.cutter",)
    assert corpus.card["copies of equal text"] == 1


@pytest.mark.parametrize(
    ("other", "is_copy"),
    [
        # 5 and 6 sentences, 5 of them shared.
        (described("a.x.saw", about="blades", n=6), True),
        (described("a.x.axe", about="blades", n=6), False),
        (described("a.x.saw", about="blades", n=6, summary="Another summary line."), False),
    ],
)
def test_like_texts_of_one_name_and_summary_are_one_entity(
    other: PublicObject, is_copy: bool
) -> None:
    corpus = entity_corpus([described("b.saw", about="blades"), other, FILLER], {})
    assert len(corpus.entities) == (2 if is_copy else 3)
    if is_copy:
        # The union of both documents.
        assert corpus.bounds[1] == 6
        assert corpus.card["copies of like text"] == 1


def test_namesakes_of_unlike_texts_stay_apart() -> None:
    one = described("b.saw", summary="Cut the wood.", about="blades")
    two = described("a.x.saw", summary="Cut the wood.", about="films")
    corpus = entity_corpus([one, two, FILLER], {})
    assert corpus.entities == ("a.x.saw", "b.saw", "z.filler")
    # Their queries are the same text, so both are right answers to the one query.
    (query,) = [q for qs in corpus.queries.values() for q in qs if q.text == "Cut the wood."]
    assert (query.query_id, query.entity_ids) == ("a.x.saw", (0, 1))
    assert corpus.card["queries with several answers"] == 1


def test_summaries_are_removed_wherever_they_are_repeated() -> None:
    one = PublicObject(("a.saw",), described("a.saw").docstring + "\n\nwhat  AXEish things ARE.")
    corpus = entity_corpus([one, described("a.axe", summary="What AXEish things are.")], {})
    assert len(corpus.sentences) == 10


def test_the_own_summary_is_removed_under_the_names_of_all_copies() -> None:
    summary = "Saw cuts all of the wood."
    repeated = described("a.saw", summary=summary, about="blades").docstring + (
        "\n\ntools.saw cuts all of the wood."
    )
    corpus = entity_corpus([PublicObject(("a.saw",), repeated), FILLER], {})
    assert corpus.bounds.tolist() == [0, 5, 10]
    assert corpus.card["sentences dropped as summary lines"] == 1


def test_short_and_repeated_sentences_and_formulas_go() -> None:
    text = "\n\n".join(
        [
            described("a.saw").docstring,
            "Only four words here.",
            "The FIRST thing of SAWish is.",
            "Then x1 = y + z2 * w3 / f(x) < 3.",
        ]
    )
    corpus = entity_corpus([PublicObject(("a.saw",), text), FILLER], {})
    assert corpus.bounds.tolist() == [0, 5, 10]
    assert corpus.card["sentences dropped as short"] == 2
    assert corpus.card["sentences dropped as repeated"] == 1


def test_entities_of_few_sentences_go() -> None:
    corpus = entity_corpus([described("a.saw", n=4), described("a.axe"), FILLER], {})
    assert corpus.entities == ("a.axe", "z.filler")
    assert corpus.card["objects dropped with few sentences"] == 1


def test_sentences_of_many_entities_go() -> None:
    shared = "\n\nThis very sentence stands everywhere."
    n = MAX_ENTITIES_PER_SENTENCE + 1
    objects = [
        PublicObject((f"a.f{i}",), described(f"a.f{i}", about="x" * (i + 2)).docstring + shared)
        for i in range(n)
    ]
    assert "This very sentence stands everywhere." not in entity_corpus(objects, {}).sentences
    assert "This very sentence stands everywhere." in entity_corpus(objects[1:], {}).sentences


def test_queries_of_few_words_are_left_out() -> None:
    corpus = entity_corpus([described("a.saw", summary="A saw thing."), FILLER], {})
    assert [q.query_id for qs in corpus.queries.values() for q in qs] == ["z.filler"]
    assert corpus.card["entities without a query"] == 1


def test_order_of_objects_does_not_matter() -> None:
    objects = [described("b.saw", about="x"), described("a.x.saw", about="x"), FILLER]
    assert entity_corpus(objects, {}).fingerprint == entity_corpus(objects[::-1], {}).fingerprint


def test_nothing_usable_is_an_empty_document_set() -> None:
    with pytest.raises(InputError, match="document set is empty"):
        entity_corpus([PublicObject(("a.saw",), "Too short.")], {})
    with pytest.raises(InputError, match="1 entity"):
        entity_corpus([FILLER], {})
