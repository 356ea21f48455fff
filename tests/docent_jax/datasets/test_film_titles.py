"""Titles taken apart, and taken out of text."""

import pytest

from docent_jax.datasets.film_titles import name_remover, parse_title


@pytest.mark.parametrize(
    ("title", "names", "year"),
    [
        ("Matrix, The (1999)", ["The Matrix"], "1999"),
        (
            "Seven Samurai (Shichinin no samurai) (1954)",
            ["Seven Samurai", "Shichinin no samurai"],
            "1954",
        ),
        (
            "Creature Wasn't Nice, The (a.k.a. Naked Space) (a.k.a. Spaceship) (1981)",
            ["The Creature Wasn't Nice", "Naked Space", "Spaceship"],
            "1981",
        ),
        ("Golden Age, The (Âge d'Or, L') (1930)", ["The Golden Age", "L'Âge d'Or"], "1930"),
        (
            "Nightmare on Elm Street 5: The Dream Child, A (1989)",
            ["A Nightmare on Elm Street 5: The Dream Child"],
            "1989",
        ),
        ("Sabrina, the Teenage Witch", ["Sabrina, the Teenage Witch"], ""),
        ("Gandhi, My Father", ["Gandhi, My Father"], ""),
        ("Gamera vs. Viras (1968) ", ["Gamera vs. Viras"], "1968"),
        ("Lust, Caution (Se, jie) (2007)", ["Lust, Caution", "Se, jie"], "2007"),
        ("Bones (2005-)", ["Bones"], "2005"),
        ("(500) Days (2009)", ["(500) Days"], "2009"),
        ("", [], ""),
    ],
)
def test_titles_are_taken_apart(title: str, names: list[str], year: str) -> None:
    parsed = parse_title(title)
    assert (list(parsed.names), parsed.year) == (names, year)


def test_labels() -> None:
    assert parse_title("Matrix, The (1999)").label == "The Matrix (1999)"
    assert parse_title("Matrix, The").label == "The Matrix"
    assert parse_title("").label == ""


@pytest.mark.parametrize(
    ("title", "text", "rest"),
    [
        ("Matrix, The (1999)", "I saw The Matrix (1999) twice.", "I saw twice."),
        ("Matrix, The (1999)", "the MATRIX's look, a matrix.", "look, a matrix."),
        ("Matrix, The (1999)", "Matrixes are matricial.", "Matrixes are matricial."),
        ("Seven Samurai (Shichinin no samurai) (1954)", "Shichinin No Samurai rules.", "rules."),
        ("Kill Bill: Vol. 1 (2003)", "Kill Bill, vol. 1, and kill bill.", "and."),
        ("Ace Ventura: Pet Detective (1994)", "The pet detective Ace Ventura.", "The."),
        (
            "Poltergeist II: The Other Side (1986)",
            "Unlike Poltergeist it fails.",
            "Unlike it fails.",
        ),
        ("Spider-Man (2002)", "Spiderman, spider man and Spider-Man!", "and!"),
        ("To Get Her (2011)", "Stay together to get her.", "Stay together."),
        ("Amélie (2001)", "Sweet Amelie and Amélie.", "Sweet and."),
        ("Lock & Load (1990)", "See Lock and Load.", "See."),
        ("It (1990)", 'It is "It" that IT took.', "It is that took."),
        ("M (1931)", "M is 'M', as I am.", "M is, as I am."),
        ("1408 (2007)", "In 1408 rooms.", "In rooms."),
        ("Project: Kill (1976)", "They kill in Kill.", "They kill in."),
        ("Nothing Here (1990)", "no name at all", "no name at all"),
    ],
)
def test_names_are_removed(title: str, text: str, rest: str) -> None:
    assert name_remover([title]).remove(text)[0] == rest


def test_removals_are_counted() -> None:
    assert name_remover(["Matrix, The (1999)"]).remove("Matrix? The matrix.") == ("?.", 2)
    assert name_remover([""]).remove("Matrix") == ("Matrix", 0)
    assert name_remover([]).remove("Matrix") == ("Matrix", 0)
