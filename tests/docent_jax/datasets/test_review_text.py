"""HTML to paragraphs, paragraphs to passages."""

import time

import pytest

from docent_jax.datasets.review_text import MAX_WORDS, passages, plain_paragraphs


@pytest.mark.parametrize(
    ("html", "paragraphs"),
    [
        ("One.<br /><br />Two<br>three", ["One.", "Two", "three"]),
        ("a &quot;b&quot; &amp; c&#39;d", ['a "b" & c\'d']),
        ("an <i>odd</i>  film\nhere", ["an odd film here"]),
        ("x < y and 3 > 2 <3", ["x < y and 3 > 2 <3"]),
        ("&lt;b&gt; stays", ["<b> stays"]),
        ("a dash\x97here and caf\u00e9", ["a dash—here and café"]),
        ("first\n\nsecond", ["first", "second"]),
        ("<br />", []),
        ("", []),
    ],
)
def test_html_becomes_paragraphs(html: str, paragraphs: list[str]) -> None:
    assert plain_paragraphs(html) == paragraphs


def test_html_that_never_closes_takes_linear_time() -> None:
    start = time.monotonic()
    plain_paragraphs("<a" * 200_000)
    plain_paragraphs("&amp;" * 200_000)
    assert time.monotonic() - start < 10


def test_sentences_and_short_ones_join() -> None:
    text = "This is the first sentence. Loved it. Here comes another whole sentence! Why?"
    assert passages(text) == [
        "This is the first sentence. Loved it.",
        "Here comes another whole sentence! Why?",
    ]
    assert passages("Wow. This one is long enough.") == ["Wow. This one is long enough."]
    assert passages("Short one.") == ["Short one."]
    assert passages("") == []


def test_titles_of_persons_end_no_sentence() -> None:
    text = "It is all about Mr. Smith and his two dogs. They meet Samuel L. Jackson in the park."
    assert passages(text) == [
        "It is all about Mr. Smith and his two dogs.",
        "They meet Samuel L. Jackson in the park.",
    ]


def test_long_sentences_are_cut_at_commas() -> None:
    words = [f"w{i}" for i in range(150)]
    words[69] += ","
    first, second = passages(" ".join(words))
    assert (len(first.split()), len(second.split())) == (70, 80)
    assert first.endswith("w69,")
    (one, two) = passages("word " * (MAX_WORDS + 1))
    assert len(one.split()) == MAX_WORDS
    assert two == "word"
