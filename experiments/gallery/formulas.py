"""Formula search to look at: queries and what is nearest to them in a sample, rendered."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.gcl.search import shown
from experiments.report.blocks import Block, Markup, inline
from gcl_jax.datasets.builders import read_rows
from gcl_jax.datasets.parsed_formulas import prepare
from gcl_jax.formulas.parsing import parse
from gcl_jax.inference import FormulaSearcher
from retrieval_jax.errors import InputError

QUERIES = (
    r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
    r"\int_0^\infty e^{-x^2} dx",
    r"\sum_{n=1}^{\infty} \frac{1}{n^2}",
    r"a^2 + b^2 = c^2",
    r"P(A|B) = \frac{P(B|A) P(A)}{P(B)}",
    r"\nabla \times \mathbf{E} = -\frac{\partial \mathbf{B}}{\partial t}",
)


def sample_formulas(collection: Path, data_dir: Path, number: int, seed: int = 0) -> list[str]:
    """Distinct formulas of a file that parse, drawn at random.

    Args:
        collection: as `python -m gcl_jax parse` reads it.
        data_dir: where parsed formulas are kept.
        number: at most.
        seed: of the draw.

    Raises:
        InputError: what reading refuses.
    """
    texts = list(dict.fromkeys(text for _, text, _ in read_rows(prepare(collection, data_dir))))
    if len(texts) <= number:
        return texts
    rows = np.random.default_rng(seed).choice(len(texts), number, replace=False)
    return [texts[row] for row in sorted(rows)]


def search_blocks(
    searcher: FormulaSearcher,
    queries: Sequence[str],
    texts: Sequence[str],
    documents: np.ndarray,
    k: int = 5,
) -> list[Block]:
    """Cards of queries and their best answers, as MathML.

    Args:
        searcher: a trained encoder.
        queries: LaTeX.
        texts: of the formulas that are searched.
        documents: their vectors `[texts, dim]` (`encode_documents`).
        k: answers.
    """
    scores = searcher.encode(queries) @ documents.T
    cards = []
    for query, of in zip(queries, scores, strict=True):
        best = np.argsort(-of, kind="stable")[:k]
        items = "".join(f"<li>{shown(texts[int(row)])} {of[row]:.3f}</li>" for row in best)
        cards.append(
            f'<article tabindex="0">{shown(query)}<p>{inline(f"`{query}`")}</p>'
            f"<ol>{items}</ol></article>"
        )
    about = f"The best of {len(texts):,} formulas for each query, with their scores."
    return [about, Markup(f'<div class="cards">{"".join(cards)}</div>')]


def root_groups(texts: Sequence[str]) -> list[str]:
    """What colours formulas: the operator at the root of each one's operator tree."""
    groups = []
    for text in texts:
        try:
            groups.append(parse(text, layout="opt").labels[0])
        except InputError:
            groups.append("")
    return groups
