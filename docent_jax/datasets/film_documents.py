"""Documents of films from reviews, by the rules of the paper's section 5, in bounded memory.

Reviews go to spool files by a hash of their film, so that all of a film's are together; processes
then take a spool file each. Sentences come back in the order of film ids.
"""

import contextlib
import hashlib
import heapq
import json
import multiprocessing
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from docent_jax.datasets.film_titles import name_remover
from docent_jax.datasets.review_text import MIN_WORDS, passages, plain_paragraphs
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import stable_hash
from retrieval_jax.processes import available_cores

MIN_REVIEWS = 5
# Of the 4.6 million Amazon reviews, 70,000 fall in one: what a process holds at a time.
SPOOLS = 64
# Fewer reviews are done before another process has started.
_MIN_PER_PROCESS = 10_000


class Review(NamedTuple):
    """A review as its source has it.

    Attributes:
        film_id: of the film that it is about.
        text: in HTML.
    """

    film_id: str
    text: str


class FilmDocument(NamedTuple):
    """The sentences of a film's reviews."""

    film_id: str
    sentences: list[str]


class _Task(NamedTuple):
    spool: Path
    titles: Mapping[str, tuple[str, ...]]
    keep_names: bool


class Documents:
    """Documents of films in a folder of sorted files.

    Attributes:
        film_ids: of the films, in order.
        card: what the rules did, as counts.
    """

    def __init__(self, files: list[Path], film_ids: list[str], card: Counter[str]) -> None:
        self._files = files
        self.film_ids = film_ids
        self.card = card

    def __iter__(self) -> Iterator[FilmDocument]:
        """Reads the documents in order of film ids, one at a time."""
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(path.open(encoding="utf-8")) for path in self._files]
            rows = [(FilmDocument(*json.loads(line)) for line in file) for file in files]
            yield from heapq.merge(*rows, key=lambda document: document.film_id)


def film_documents(
    reviews: Iterable[Review],
    titles: Mapping[str, tuple[str, ...]],
    folder: Path,
    keep_names: bool = False,
    processes: int | None = None,
) -> Documents:
    """Makes documents of reviews.

    In this order: HTML becomes text; of equal reviews of a film one stays; reviews of fewer than 5
    words go, then films of fewer than 5 reviews; a film's names are removed from its reviews; these
    are cut into sentences or short paragraphs.

    Args:
        reviews: in any order; read once.
        titles: of the films where known, each as MovieLens writes it.
        folder: an empty folder for temporary files, as large as the reviews; the documents are read
            from it.
        keep_names: leave the films' names in the text.
        processes: how many to use; None = one per available core, fewer for few reviews.

    Raises:
        InputError: no review, or no film with enough of them.
    """
    spools, n_reviews = _spooled(reviews, folder)
    if not n_reviews:
        raise InputError("There is no review.", "Give a source with reviews of films.")
    by_spool: defaultdict[int, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for film_id, names in titles.items():
        by_spool[stable_hash(film_id) % SPOOLS][film_id] = names
    tasks = [_Task(path, by_spool[number], keep_names) for number, path in spools.items()]
    card = Counter({"reviews read": n_reviews})
    film_ids: list[str] = []
    if processes is None:
        processes = min(available_cores(), 1 + n_reviews // _MIN_PER_PROCESS)
    with _mapper(min(processes, len(tasks))) as ordered_map:
        for kept, counts in ordered_map(_write_documents, tasks):
            film_ids.extend(kept)
            card.update(counts)
    if not film_ids:
        raise InputError(
            f"Of {n_reviews:,} reviews, no film has {MIN_REVIEWS} different ones of at least "
            f"{MIN_WORDS} words.",
            "Give more reviews.",
        )
    files = [_document_file(task.spool) for task in tasks]
    return Documents(files, sorted(film_ids), card)


def _spooled(reviews: Iterable[Review], folder: Path) -> tuple[dict[int, Path], int]:
    """Writes reviews to a file for each range of hashes, and counts them."""
    paths = {number: folder / f"reviews-{number:02}.jsonl" for number in range(SPOOLS)}
    n_reviews = 0
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("w", encoding="utf-8")) for path in paths.values()]
        for review in reviews:
            n_reviews += 1
            file = files[stable_hash(review.film_id) % SPOOLS]
            file.write(json.dumps(review) + "\n")
    return {number: path for number, path in paths.items() if path.stat().st_size}, n_reviews


@contextlib.contextmanager
def _mapper(processes: int) -> Iterator[Callable[..., Iterable[tuple[list[str], Counter[str]]]]]:
    """A map over processes, or in this one where one is enough."""
    if processes <= 1:
        yield map
        return
    # Fresh processes: a fork of one that runs JAX's threads may hang.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield pool.imap


def _document_file(spool: Path) -> Path:
    return spool.with_name(spool.name.replace("reviews", "documents"))


def _write_documents(task: _Task) -> tuple[list[str], Counter[str]]:
    """Turns one spool of reviews into documents; gives their films, sorted, and counts."""
    card: Counter[str] = Counter()
    by_film: defaultdict[str, list[list[str]]] = defaultdict(list)
    seen: set[bytes] = set()
    with task.spool.open(encoding="utf-8") as file:
        for line in file:
            film_id, text = json.loads(line)
            paragraphs = plain_paragraphs(text)
            words = " ".join(paragraphs).casefold().split()
            key = hashlib.md5(" ".join([film_id, *words]).encode(), usedforsecurity=False).digest()
            if key in seen:
                card["reviews dropped as duplicates"] += 1
            elif len(words) < MIN_WORDS:
                card[f"reviews dropped under {MIN_WORDS} words"] += 1
            else:
                by_film[film_id].append(paragraphs)
            seen.add(key)
    task.spool.unlink()
    film_ids = []
    with _document_file(task.spool).open("w", encoding="utf-8") as file:
        for film_id, reviews in sorted(by_film.items()):
            if len(reviews) < MIN_REVIEWS:
                card[f"films dropped under {MIN_REVIEWS} reviews"] += 1
                card[f"reviews dropped with films under {MIN_REVIEWS} reviews"] += len(reviews)
                continue
            sentences = _sentences(reviews, task.titles.get(film_id, ()), task.keep_names, card)
            if not sentences:
                card["films dropped without a sentence"] += 1
                continue
            film_ids.append(film_id)
            card["films without a known name"] += film_id not in task.titles
            card["reviews"] += len(reviews)
            card["sentences"] += len(sentences)
            card["words"] += sum(len(sentence.split()) for sentence in sentences)
            file.write(json.dumps([film_id, sentences]) + "\n")
    card["entities"] = len(film_ids)
    return film_ids, card


def _sentences(
    reviews: Iterable[list[str]], titles: tuple[str, ...], keep_names: bool, card: Counter[str]
) -> list[str]:
    remover = name_remover(() if keep_names else titles)
    sentences = []
    for paragraph in (paragraph for review in reviews for paragraph in review):
        text, n_names = remover.remove(paragraph)
        card["film names removed from reviews"] += n_names
        # What is left of a heading that was the name alone.
        sentences.extend(part for part in passages(text) if any(map(str.isalnum, part)))
    return sentences
