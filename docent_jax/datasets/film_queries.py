"""Queries for films: requests in plain English, without the films that they give as examples."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from docent_jax.datasets.corpus import Query
from docent_jax.datasets.film_titles import parse_title
from docent_jax.datasets.review_text import plain_paragraphs
from retrieval_jax.fingerprints import stable_hash

_WORD = re.compile(r"\w+")
_YEAR_BEHIND = re.compile(r"\W{0,3}\((?:1[89]|20)\d\d\)")
_SMALL_WORD = re.compile(r"an?|and|at|by|for|from|in|of|on|or|the|to|with", re.IGNORECASE)


class FilmRequest(NamedTuple):
    """A request as its source has it.

    Attributes:
        query_id: begins with the source, as in "reddit_tomt-12".
        text: title and text.
        film_ids: the films that answer it.
    """

    query_id: str
    text: str
    film_ids: tuple[str, ...]


class ExampleRemover:
    """Takes films that are named as examples out of queries.

    A name counts as such where its year follows in brackets, and otherwise where it stands letter
    for letter with at least two capitalised words: "It" and "the ring" can mean anything.
    """

    def __init__(self, titles: Iterable[str]) -> None:
        self._names: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
        for title in titles:
            for name in parse_title(title).names:
                words = tuple(_WORD.findall(name))
                forms = [words, words[1:]] if words[0] in ("The", "A", "An") else [words]
                for form in filter(None, forms):
                    self._names[tuple(word.lower() for word in form)].add(form)
        self._longest = max(map(len, self._names), default=0)

    def remove(self, text: str) -> tuple[str, int]:
        """The text without the examples, and how many there were."""
        words = list(_WORD.finditer(text))
        kept: list[str] = []
        position = i = n_removed = 0
        while i < len(words):
            end = self._name_end(text, words, i)
            if end is None:
                i += 1
                continue
            kept.append(text[position : words[i].start()])
            position = end
            n_removed += 1
            while i < len(words) and words[i].start() < end:
                i += 1
        kept.append(text[position:])
        return (" ".join(" ".join(kept).split()) if n_removed else text), n_removed

    def _name_end(self, text: str, words: list[re.Match[str]], first: int) -> int | None:
        """Where the longest example that begins with this word ends, if one does."""
        for n in range(min(self._longest, len(words) - first), 0, -1):
            form = tuple(word[0] for word in words[first : first + n])
            exact = self._names.get(tuple(word.lower() for word in form))
            if exact is None:
                continue
            end = words[first + n - 1].end()
            year = _YEAR_BEHIND.match(text, end)
            if year:
                return year.end()
            capitalised = [w for w in form if w[0].isupper() and not _SMALL_WORD.fullmatch(w)]
            if form in exact and len(capitalised) > 1:
                return end
        return None


def film_queries(
    requests: Iterable[FilmRequest],
    entity_ids: Mapping[str, int],
    examples: ExampleRemover,
    card: Counter[str],
) -> dict[str, tuple[Query, ...]]:
    """Queries by split: dev where the MD5 of the id is even, else test.

    Args:
        requests: with different ids.
        entity_ids: film id -> index of the entity.
        examples: removes films named in the text.
        card: what is dropped is counted here.
    """
    queries: dict[str, list[Query]] = {"dev": [], "test": []}
    for request in requests:
        answers = sorted({entity_ids[film] for film in request.film_ids if film in entity_ids})
        card["answers of queries absent from the films"] += len(set(request.film_ids)) - len(
            answers
        )
        text, n_examples = examples.remove(" ".join(plain_paragraphs(request.text)))
        if not answers:
            card["queries dropped without a known answer"] += 1
        elif not _WORD.search(text):
            card["queries dropped without text"] += 1
        else:
            card["films named in queries removed"] += n_examples
            split = "test" if stable_hash(request.query_id) % 2 else "dev"
            card[f"{split} queries"] += 1
            queries[split].append(Query(request.query_id, text, tuple(answers)))
    return {split: tuple(of_split) for split, of_split in queries.items()}
