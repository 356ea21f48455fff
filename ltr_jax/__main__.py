"""Command line: what uses a trained ranker, and what fetches data.

`python -m ltr_jax rank "a query" --run RUN --documents FILE`
`python -m ltr_jax fetch FOLDER --languages de fr`
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from ltr_jax.datasets.apt_lists import fetch_lists
from ltr_jax.inference import load
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.files import write_array
from retrieval_jax.logs import print_ranked, quiet_libraries
from retrieval_jax.text_files import require_file


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
        output: file to write; `.npy` is put behind another name.
    """

    run: Path
    documents: Path
    output: Path


@dataclasses.dataclass(frozen=True)
class Fetch:
    """Fetch the lists of packages that `debian_clir` is made of; needs apt, but no root.

    Attributes:
        folder: to fill, for `--data.folder`.
        languages: of documents, such as de fr ja.
        sources: apt's list of another release than this machine's, such as a file of the line
            `deb http://deb.debian.org/debian trixie main`.
    """

    folder: tyro.conf.Positional[Path]
    languages: tuple[str, ...]
    sources: Path | None = None


def fetch(command: Fetch) -> str:
    """Fetches; says what for.

    Raises:
        InputError: no language or no such file was given, or what `fetch_lists` refuses.
    """
    if not command.languages:
        raise InputError("no language was given", "Give one or more, such as --languages de fr.")
    options: list[str] = []
    if command.sources is not None:
        path = require_file(command.sources, "Give a file of apt's sources.").resolve()
        for option in (f"Dir::Etc::SourceList={path}", "Dir::Etc::SourceParts=-"):
            options += ["-o", option]
    fetch_lists(command.folder, command.languages, options)
    train = f"train: python -m experiments.ltr.train --data.folder {command.folder}"
    return "\n".join(f"{train} --data.pair en-{language}" for language in command.languages)


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
    command: Rank | Encode | Fetch = tyro.cli(
        Annotated[Rank, tyro.conf.subcommand("rank")]
        | Annotated[Encode, tyro.conf.subcommand("encode")]
        | Annotated[Fetch, tyro.conf.subcommand("fetch")],
        prog="python -m ltr_jax",
        description="Uses a trained ranker, or fetches data to train one on.",
    )
    quiet_libraries()
    if isinstance(command, Fetch):
        print(fetch(command))
        return
    ranker = load(command.run)
    texts, categories = read_documents(command.documents)
    if isinstance(command, Encode):
        write_array(command.output, ranker.encode("document", texts, categories))
        return
    answers = ranker.rank(command.query, texts, command.categories, categories, command.k)
    rows = ((texts[answer.position], answer.score) for answer in answers)
    print_ranked(command.query, ("document", "score"), rows)


if __name__ == "__main__":
    main()
