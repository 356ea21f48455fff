r"""Texts are mended: escapes, misread letters, printed columns; German is told from the rest."""

import pytest

from mathsim_jax.datasets.texts import clean_text, is_german, is_printed_column


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (r"Let \\(C\\) be\n\n\na \\textit{curve}.", r"Let \(C\) be a \textit{curve}."),
        (r"Let \(\nu\) be" + "\n\n" + r"a \neq b", r"Let \(\nu\) be a \neq b"),
        (r"\(a\\ b\) and \alpha", r"\(a\\ b\) and \alpha"),  # a line break of LaTeX stays
        (r"No formula\n\nhere", "No formula here"),
        (r"Hilbert\'s \\(x\\)", r"Hilbert's \(x\)"),
        ("JÃ³zefiak, AstÃ©risque, an â€œopen quote", "Józefiak, Astérisque, an “open quote"),
        ("Über Ångström, naïve Ã", "Über Ångström, naïve Ã"),
        ("o\u0308", "ö"),
        ("  a\tb  ", "a b"),
        ("", ""),
    ],
)
def test_texts_are_mended(raw, clean):
    assert clean_text(raw) == clean
    assert clean_text(clean) == clean


def test_a_printed_column_is_the_text_in_it():
    row = r"1597921    Summary: Let \\(G\\) be a finite group of auto..."
    printed = f"zbMATH_ID\n{row}\n{row}\nName: text, dtype: object"
    assert is_printed_column(printed)
    assert clean_text(printed) == r"Summary: Let \(G\) be a finite group of auto"
    assert not is_printed_column("A dtype: object is no column.")


@pytest.mark.parametrize(
    ("text", "german"),
    [
        ("Der Zusammenhang zwischen Diffusion und Wärmeleitung wird theoretisch untersucht.", True),
        ("Verf. zeigt, daß die Entwicklung von \\(f(x)\\) nicht eindeutig ist.", True),
        ("The author proves that the series is so small in die-casting an am.", False),
        ("Das Problem of von Mises, mit which we begin." + " It has a long proof." * 5, False),
        ("L'auteur étudie les équations de la chaleur dans un espace.", False),
        ("\\(x\\)", False),
        ("", False),
    ],
)
def test_german_is_told_by_its_function_words(text, german):
    assert is_german(text) == german


def test_line_breaks_of_latex_stay():
    for text in (r"x \neq 0 \\ y \neq 0", r"a \\ b"):
        assert clean_text(text) == text


def test_surrogates_become_text_that_can_be_encoded():
    assert clean_text("a \ud835 b") == "a \ufffd b"
    assert clean_text("\ud835\udc00") == "\U0001d400"
