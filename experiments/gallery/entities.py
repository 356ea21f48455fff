"""DocEnt to look at: answers to real requests (the paper's table 2), and nearest entities."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from docent_jax.inference import EntityRanker
from experiments.gallery.maps import evenly_spaced
from experiments.report.blocks import Block, Markup, Table, inline
from retrieval_jax.encoding import unit_length

WORDS = 60
"""Of a request that are shown."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """A request with its answers.

    Attributes:
        text: of the request.
        best: names of the best entities, best first.
        meant: name of each entity that its author meant -> its rank, from 1.
    """

    text: str
    best: Sequence[str]
    meant: dict[str, int]


def answer(
    ranker: EntityRanker, asked: Sequence[tuple[str, frozenset[str]]], k: int = 5
) -> list[Answer]:
    """Answers requests.

    Args:
        ranker: a trained model.
        asked: text and the names of the entities that are meant.
        k: answers to show.
    """
    scores = ranker.score([text for text, _ in asked])
    row_of = {name: row for row, name in enumerate(ranker.entities)}
    answers = []
    for (text, meant), of in zip(asked, scores, strict=True):
        best = np.argsort(-of, kind="stable")[:k]
        # Ties count against the model.
        ranks = {name: int((of >= of[row_of[name]]).sum()) for name in sorted(meant)}
        answers.append(Answer(text, [ranker.entities[row] for row in best], ranks))
    return answers


def answer_blocks(answers: Sequence[Answer], number: str) -> list[Block]:
    """Cards of requests and answers; `number` says which requests these are."""
    cards = "".join(_card(of) for of in answers)
    ranks = [rank for of in answers for rank in of.meant.values()]
    found = sum(rank <= 5 for rank in ranks)
    meant = f", none chosen by its answers; {found} of {len(ranks)} that were meant are among"
    about = f"{number}{meant} the best five." if ranks else f"{number}."
    return [about, Markup(f'<div class="cards">{cards}</div>')]


def _card(of: Answer) -> str:
    words = of.text.split()
    text = " ".join(words[:WORDS]) + (" ..." if len(words) > WORDS else "")
    items = "".join(f"<li{_meant(name in of.meant)}>{inline(name)}</li>" for name in of.best)
    lower = {name: rank for name, rank in of.meant.items() if rank > len(of.best)}
    missed = [f"{name} is at rank {rank:,}" for name, rank in lower.items()]
    note = f"<p>Meant: {inline('; '.join(missed))}.</p>" if missed else ""
    return f"<article><p>{inline(text)}</p><ol>{items}</ol>{note}</article>"


def _meant(is_meant: bool) -> str:
    return ' class="meant"' if is_meant else ""


def chosen_entities(ranker: EntityRanker, words: Sequence[str], number: int) -> list[str]:
    """Entities whose name has one of the words, the first of each; without words evenly spaced."""
    if words:
        found = (next((e for e in ranker.entities if w.lower() in e.lower()), None) for w in words)
        return list(dict.fromkeys(name for name in found if name is not None))
    return [ranker.entities[row] for row in evenly_spaced(len(ranker.entities), number)]


def nearest_table(ranker: EntityRanker, names: Sequence[str], k: int = 5) -> Table:
    """The entities whose vectors are nearest to those of the named ones, with the cosine."""
    unit = unit_length(ranker.entity_vectors)
    rows = []
    for name in names:
        row = ranker.entities.index(name)
        cosines = unit @ unit[row]
        nearest = [i for i in np.argsort(-cosines, kind="stable") if i != row][:k]
        rows.append([name, "; ".join(f"{ranker.entities[i]} ({cosines[i]:.2f})" for i in nearest)])
    return Table(["entity", "nearest"], rows, "Entities whose learned vectors are nearest")
