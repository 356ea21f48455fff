"""Command line of a trained ranker: `python -m ltr_jax rank --run R "a query" --documents FILE`."""

import dataclasses
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from ltr_jax.inference import load
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries


@dataclasses.dataclass(frozen=True)
class Rank:
    """Rank the documents of a file for a query.

    Attributes:
        query: a text in the language of queries.
        run: run folder of a trained model.
        documents: UTF-8 file, one document a line: its text and, after a tab, its categories,
            separated by commas.
        categories: of the query.
        k: documents to show.
    """

    query: tyro.conf.Positional[str]
    run: Path
    documents: Path
    categories: tuple[str, ...] = ()
    k: int = 10


@dataclasses.dataclass(frozen=True)
class Encode:
    """Encode documents as the vectors that queries meet, float32 `[documents, hidden]` of NumPy.

    Attributes:
        run: run folder of a trained model.
        documents: as for `rank`.
        output: file to write.
    """

    run: Path
    documents: Path
    output: Path


def read_documents(path: Path) -> tuple[list[str], list[list[str]]]:
    """Texts and categories of a file's lines; empty lines are left out.

    Raises:
        InputError: no such file, no UTF-8, or nothing in it.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}", "Give a UTF-8 text file.") from error
    rows = [line.partition("\t") for line in lines if line.strip()]
    if not rows:
        raise InputError(f"{path} has no document", "Give one on each line.")
    names = [[name.strip() for name in of.split(",") if name.strip()] for _, _, of in rows]
    return [text for text, _, _ in rows], names


@one_screen_errors
def main() -> None:
    """Does what the command line says."""
    command: Rank | Encode = tyro.cli(
        Annotated[Rank, tyro.conf.subcommand("rank")]
        | Annotated[Encode, tyro.conf.subcommand("encode")],
        prog="python -m ltr_jax",
        description="Uses a trained ranker.",
    )
    quiet_libraries()
    ranker = load(command.run)
    texts, categories = read_documents(command.documents)
    if isinstance(command, Encode):
        np.save(command.output, ranker.encode("document", texts, categories), allow_pickle=False)
        return
    table = Table(title=command.query, title_justify="left")
    for name in ("rank", "document", "score"):
        table.add_column(name, justify="left" if name == "document" else "right")
    answers = ranker.rank(command.query, texts, command.categories, categories, command.k)
    for rank, answer in enumerate(answers, 1):
        table.add_row(str(rank), texts[answer.position], f"{answer.score:.4f}")
    Console().print(table)


if __name__ == "__main__":
    main()
