"""Docstrings to plain sentences: each rule on a small text."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docent_jax.datasets.docstrings import clean_docstring, split_sentences, strip_markup

NUMPYDOC = """
    total(a, axis=None)
    --

    Sum the array. Nothing is copied.

    It goes on, e.g. over
    two lines.

    .. math:: \\sum_i a_i

    .. note::
        Sums of floats are not exact.

    .. versionadded:: 1.2
        Not before.

    Parameters
    ----------
    a : array_like
        The numbers to sum.
    axis : {0, 1}, optional
        One of these:

        - ``0``: down the
          columns.
        - ``1``: along the rows.

    Returns
    -------
    float
        The sum.

    See Also
    --------
    mean : Takes the mean.

    Notes
    -----
    Adds in pairs [1]_ like this::

        a + b

    ==== ====
    x    y
    ==== ====
    here none
    ==== ====

    References
    ----------
    .. [1] Somebody, "Sums".

    Examples
    --------
    Sum two numbers:

    >>> total([1,
    ...        2])
    3

    That is all.
    """


def test_numpydoc_leaves_the_prose() -> None:
    cleaned = clean_docstring(NUMPYDOC)
    assert cleaned.summary == "Sum the array."
    assert cleaned.sentences == (
        "Nothing is copied.",
        "It goes on, e.g. over two lines.",
        "Sums of floats are not exact.",
        "The numbers to sum.",
        "One of these:",
        "0: down the columns.",
        "1: along the rows.",
        "The sum.",
        "Adds in pairs like this",
        "Sum two numbers:",
        "That is all.",
    )


def test_numpydoc_counts_what_it_drops() -> None:
    assert clean_docstring(NUMPYDOC).dropped == {
        "signature lines": 1,
        "directive lines": 4,
        "definition headers": 3,
        "section lines": 1,
        "code lines": 1,
        "table lines": 5,
        "doctest lines": 3,
    }


def test_google_style_leaves_the_prose() -> None:
    cleaned = clean_docstring(
        """Sum the array

        JAX's way.

        Args:
          a: the numbers to sum,
            of any type. Not strings.
          axis (int): the axis.

        Returns:
          The sum.

        See also:
          - :func:`mean`: the mean.

        Example::

          total([1, 2])

        After the code.

        ```python
        total([1, 2])
        ```
        The end.
        """
    )
    assert cleaned.summary == "Sum the array"
    assert cleaned.sentences == (
        "JAX's way.",
        "the numbers to sum, of any type.",
        "Not strings.",
        "the axis.",
        "The sum.",
        "Example",
        "After the code.",
        "The end.",
    )


def test_field_lists_leave_the_descriptions() -> None:
    cleaned = clean_docstring("Sum.\n\n:param a: the numbers\n  to sum\n:returns: the total")
    assert cleaned.sentences == ("the numbers to sum", "the total")


def test_a_docstring_that_begins_with_a_section_has_no_summary() -> None:
    cleaned = clean_docstring("Notes\n-----\nAll is said here.")
    assert cleaned.summary == ""
    assert cleaned.sentences == ("All is said here.",)


@pytest.mark.parametrize(
    "signature",
    ["f(x, /)", "y, info = f(a, [b])", "f(x: int) -> float", "f(x,\n  y=None)", "a.f(x)\n\nf(z)"],
)
def test_signatures_are_no_summary(signature: str) -> None:
    assert clean_docstring(f"{signature}\n\nDo it. Now.").summary == "Do it."


def test_a_summary_with_brackets_is_no_signature() -> None:
    assert clean_docstring("Apply f(x) to all.").summary == "Apply f(x) to all."


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("See :func:`~numpy.linalg.norm`.", "See norm."),
        ("See :py:meth:`numpy.sum` or `numpy.mean`.", "See numpy.sum or numpy.mean."),
        ("The :class:`Ref`\\s of :ref:`this page <page>`", "The Refs of this page"),
        ("A `link <https://x.org/a>`_, one more `here`_.", "A link, one more here."),
        ("``*args`` and **bold**, *soft* words", "*args and bold, soft words"),
        ("a * b * c and *args, **kwargs", "a * b * c and *args, **kwargs"),
        ("As shown in [1]_ and [Knu97]_, at https://x.org now", "As shown in and, at now"),
        ("For :math:`x > 0` and :math:`\\frac{1}{2}` .", "For x > 0 and."),
        ("Not ~`a` but `~a.b` and `!c`", "Not ~a but b and c"),
    ],
)
def test_strip_markup(text: str, plain: str) -> None:
    assert strip_markup(text) == plain


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? four", ["One.", "Two!", "Three?", "four"]),
        (
            "Use e.g. this vs. Fig. 2 (cf. that). `x` is",
            ["Use e.g. this vs. Fig. 2 (cf. that).", "`x` is"],
        ),
        ('Say "so." Then (stop.) Go', ['Say "so."', "Then (stop.)", "Go"]),
        ("For 1, 2, ... n and 1.5 s n! is", ["For 1, 2, ... n and 1.5 s n! is"]),
        ("", []),
    ],
)
def test_split_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@given(st.text(alphabet="ab .!?:`*_\\\n->()[]=+|~", max_size=80))
def test_any_text_is_cleaned_to_single_spaced_sentences(text: str) -> None:
    cleaned = clean_docstring(text)
    for sentence in (cleaned.summary, *cleaned.sentences):
        assert sentence == " ".join(sentence.split())
    assert all(cleaned.sentences)


@given(st.lists(st.sampled_from(["One is here.", "And e.g. two.", "Three!"]), max_size=5))
def test_sentences_joined_split_again(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


def test_indentation_by_tabs_counts_as_spaces() -> None:
    text = dedent("""\
        Sum.

        Parameters
        ----------
        a : int
        \tThe number of rows.""")
    assert clean_docstring(text).sentences == ("The number of rows.",)
