"""The rules of processing, each by a small case, from reviews to films with queries and tags."""

from pathlib import Path

import pytest

from docent_jax.datasets.film_documents import Review, film_documents
from docent_jax.datasets.film_queries import ExampleRemover, FilmRequest
from docent_jax.datasets.films import Film, FilmData, FilmSource
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import stable_hash
from tests.docent_jax.datasets.film_files import film_data, reviews_of

MATRIX, SAMURAI = "tt0133093", "tt0047478"
FILMS = {
    MATRIX: Film("Matrix, The (1999)", 10),
    SAMURAI: Film("Seven Samurai (Shichinin no samurai) (1954)", 20),
    "tt0000030": Film("Unseen (2001)", 30),
}
REVIEWS = [
    *(Review(MATRIX, text) for text in reviews_of("The Matrix")),
    *(Review(SAMURAI, text) for text in reviews_of("Shichinin no Samurai")),
    *(Review("tt0000001", text) for text in reviews_of("a film without a name")),
]


def processed(reviews=REVIEWS, keep_names: bool = False, **parts) -> FilmData:
    return film_data(FilmSource(FILMS, iter(reviews), **parts), keep_names, processes=1)


def test_films_become_entities() -> None:
    films = processed()
    assert films.corpus.entities == (
        "[tt0000001]",
        "Seven Samurai (1954) [tt0047478]",
        "The Matrix (1999) [tt0133093]",
    )
    assert films.corpus.aliases == ((), ("Seven Samurai", "Shichinin no samurai"), ("The Matrix",))
    assert films.film_ids == ("tt0000001", SAMURAI, MATRIX)
    assert films.movielens_ids == (None, 20, 10)
    assert films.corpus.sentence_entities.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert films.corpus.sentences[5] == "The first review of says quite enough."
    assert films.corpus.sentences[10] == "The first review of says quite enough."
    card = films.corpus.card
    assert (card["entities"], card["reviews"], card["sentences"]) == (3, 15, 15)
    assert card["words"] == 5 * 12 + 10 * 7
    assert card["film names removed from reviews"] == 10
    assert card["films without a known name"] == 1
    assert card["listed films without reviews"] == 1
    assert card["films in MovieLens"] == 2


def test_names_are_kept_for_the_ablation() -> None:
    films = processed(keep_names=True)
    assert films.corpus.sentences[10] == "The first review of The Matrix says quite enough."
    assert films.corpus.card["film names removed from reviews"] == 0


def test_duplicates_short_reviews_and_rare_films_go_in_this_order() -> None:
    reviews = [
        *REVIEWS,
        Review(MATRIX, "the FIRST review of<br />The Matrix  says quite enough."),
        Review(MATRIX, "Only four words here."),
        Review(MATRIX, "Only four words here."),
        # The same words about another film stay; four different ones are not enough.
        *(Review("tt0000002", text) for text in reviews_of("another", 4)),
        Review("tt0000002", reviews_of("another", 1)[0]),
    ]
    films = processed(reviews)
    assert len(films.film_ids) == 3
    card = films.corpus.card
    assert card["reviews read"] == 15 + 3 + 5
    assert card["reviews dropped as duplicates"] == 3
    assert card["reviews dropped under 5 words"] == 1
    assert card["films dropped under 5 reviews"] == 1
    assert card["reviews dropped with films under 5 reviews"] == 4
    assert card["reviews"] == 15


def test_order_of_reviews_of_different_films_does_not_matter() -> None:
    by_film = sorted(REVIEWS, key=lambda review: review.film_id, reverse=True)
    assert processed(by_film).corpus.fingerprint == processed().corpus.fingerprint


@pytest.mark.slow
def test_processes_give_what_one_gives(tmp_path: Path) -> None:
    titles = {film_id: (film.title,) for film_id, film in FILMS.items()}
    results = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        folder.mkdir()
        documents = film_documents(REVIEWS, titles, folder, processes=processes)
        results.append((list(documents), documents.film_ids, documents.card))
    assert results[0] == results[1]
    assert [document.film_id for document in results[1][0]] == results[1][1]


def test_queries_are_split_and_those_without_an_answer_dropped() -> None:
    requests = [
        FilmRequest("reddit_tomt-1", "A film about swords &amp; rain", (SAMURAI, "tt7777777")),
        FilmRequest("redial-2", "Did you see Unseen (2001)? Or something like that?", (MATRIX,)),
        FilmRequest("redial-3", "Absent one", ("tt7777777",)),
        FilmRequest("redial-4", " ? ", (MATRIX,)),
        FilmRequest("redial-5", "Both of them", (MATRIX, SAMURAI)),
    ]
    films = processed(requests=requests)
    queries = {q.query_id: q for of_split in films.corpus.queries.values() for q in of_split}
    assert {query_id: (q.text, q.entity_ids) for query_id, q in queries.items()} == {
        "reddit_tomt-1": ("A film about swords & rain", (1,)),
        "redial-2": ("Did you see ? Or something like that?", (2,)),
        "redial-5": ("Both of them", (1, 2)),
    }
    for split, parity in (("dev", 0), ("test", 1)):
        assert all(stable_hash(q.query_id) % 2 == parity for q in films.corpus.queries[split])
    card = films.corpus.card
    assert card["queries dropped without a known answer"] == 1
    assert card["queries dropped without text"] == 1
    assert card["answers of queries absent from the films"] == 2
    assert card["films named in queries removed"] == 1


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Like Seven Samurai or the matrix (1999) but new", "Like or but new"),
        ("Shichinin no samurai, seven samurai", "Shichinin no samurai, seven samurai"),
        ("Seen It (1990), it is It", "Seen , it is It"),
        ("The Matrix and Matrix (1999).", "The Matrix and ."),
        ("Movies like The Dead Zone: The Matrix.", "Movies like : The Matrix."),
        ("Nothing named here.  Two  spaces", "Nothing named here.  Two  spaces"),
    ],
)
def test_example_films_are_removed(text: str, rest: str) -> None:
    titles = [*(film.title for film in FILMS.values()), "It (1990)", "Dead Zone, The (1983)"]
    assert ExampleRemover(titles).remove(text)[0] == rest


def test_tags_are_those_of_films_with_reviews() -> None:
    tags = [
        (MATRIX, "Space", "a"),
        (MATRIX, "noir", "a"),
        (SAMURAI, "space", "b"),
        ("tt0000030", "space", "b"),
        (MATRIX, " ", "b"),
    ]
    films = processed(tags=tags, vocabulary=("Western", "space"))
    assert films.vocabulary == ("western", "space")
    assert films.tags.tags == ("western", "space", "noir")
    assert films.tags.votes(3).tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 1]]
    card = films.corpus.card
    assert card["tag applications"] == 3
    assert card["tag applications of the closed vocabulary"] == 2
    assert card["films with tags"] == 2
    assert card["tag applications to films without reviews"] == 1
    assert card["empty tags"] == 1


def test_a_subset_takes_its_tags_along() -> None:
    films = processed(tags=[(MATRIX, "space", "a"), (SAMURAI, "noir", "b")])
    subset = films.subset(entities=2, sentences_per_entity=1)
    assert len(subset.film_ids) == len(subset.movielens_ids) == 2
    votes = subset.tags.votes(2)
    for entity, film_id in enumerate(subset.film_ids):
        assert film_id in subset.corpus.entities[entity]
        expected = {MATRIX: [0, 1], SAMURAI: [1, 0]}.get(film_id, [0, 0])
        assert votes[entity].tolist() == expected


def test_nothing_usable_is_said() -> None:
    with pytest.raises(InputError, match="There is no review"):
        processed([])
    with pytest.raises(InputError, match="Of 4 reviews, no film has 5"):
        processed(REVIEWS[:4])
