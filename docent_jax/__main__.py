"""Command line of DocEnt: `python -m docent_jax rank --run R "a question"`, and its data."""

import dataclasses
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import tyro

from docent_jax.datasets.downloads import GLOVE_6B, fetch
from docent_jax.inference import load, print_answers
from docent_jax.word_vectors import write_word2vec
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.files import whole_file, write_array
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.store import EmbeddingStore
from retrieval_jax.text_files import read_lines, require_file


@dataclasses.dataclass(frozen=True)
class Rank:
    """Rank entities for questions in plain text.

    Attributes:
        queries: the questions; read from standard input, one a line, if there is none.
        run: run folder of a trained model.
        k: entities to show for each.
    """

    queries: tyro.conf.Positional[tuple[str, ...]]
    run: Path
    k: int = 10


@dataclasses.dataclass(frozen=True)
class Encode:
    """Encode texts into vectors, saved as a NumPy file of float32 `[texts, dim]`.

    Attributes:
        run: run folder of a trained model.
        input: UTF-8 file, plain, gzip or xz, one text a line.
        output: file to write; `.npy` is put behind another name.
    """

    run: Path
    input: Path
    output: Path


@dataclasses.dataclass(frozen=True)
class Entities:
    """Save the entity vectors with their names.

    Attributes:
        run: run folder of a trained model.
        output: file to write; for a store a folder, or a URL of object storage.
        format: a NumPy file of float32 `[entities, dim]`, `.npy` put behind another name, with the
            entities' names beside it as `.txt`, one a line; word2vec's text format, names and
            vectors in one file; or an embedding store, new or of the same run, with the names as
            ids, but for DocEnt-Full, whose score is no cosine.
    """

    run: Path
    output: str
    format: Literal["npy", "word2vec", "store"] = "npy"


@dataclasses.dataclass(frozen=True)
class Export:
    """Write the trained sentence encoder as a BERT folder of the Hugging Face format.

    Attributes:
        run: run folder of a trained model.
        output: folder to make.
    """

    run: Path
    output: Path


@dataclasses.dataclass(frozen=True)
class Fetch:
    """Fetch published files: of films, or GloVe's word vectors, for the bag of words of tags.

    What is there already stays. Of `amazon_movielens` only MovieLens has a stable address; what
    else to put into the folder is said.

    Attributes:
        source: which.
        folder: where they are put.
    """

    source: tyro.conf.Positional[Literal["imdb_movielens", "amazon_movielens", "glove"]]
    folder: Path


@one_screen_errors
def main() -> None:
    """Does what the command line says."""
    command: Rank | Encode | Entities | Export | Fetch = tyro.cli(
        Annotated[Rank, tyro.conf.subcommand("rank")]
        | Annotated[Encode, tyro.conf.subcommand("encode")]
        | Annotated[Entities, tyro.conf.subcommand("entities")]
        | Annotated[Export, tyro.conf.subcommand("export")]
        | Annotated[Fetch, tyro.conf.subcommand("fetch")],
        prog="python -m docent_jax",
        description="Uses a trained DocEnt model, or fetches data.",
    )
    quiet_libraries()
    if isinstance(command, Fetch):
        print(*_fetched(command), sep="\n")
        return
    ranker = load(command.run)
    match command:
        case Rank():
            queries = list(command.queries) or [line.strip() for line in sys.stdin if line.strip()]
            print_answers(queries, ranker.rank(queries, command.k))
        case Encode():
            path = require_file(command.input, "Give a text file, one text a line.")
            texts = [text.removesuffix("\r") for _, text in read_lines(path, Counter())]
            write_array(command.output, ranker.encode(texts))
        case Entities(format="word2vec"):
            write_word2vec(Path(command.output), ranker.entities, ranker.entity_vectors)
        case Entities(format="store"):
            if ranker.config.model.kind == "full":
                raise InputError(
                    f"{command.run} is of DocEnt-Full, whose score is no cosine as a store's",
                    "Take --format npy; python -m docent_jax rank searches it.",
                )
            dim = ranker.entity_vectors.shape[1]
            store = EmbeddingStore.create(command.output, dim, ranker.fingerprint, exist_ok=True)
            store.add(ranker.entities, ranker.entity_vectors)
        case Entities():
            vectors = write_array(command.output, ranker.entity_vectors)
            names = "".join(f"{name}\n" for name in ranker.entities)
            with whole_file(vectors.with_suffix(".txt")) as partial:
                partial.write_text(names, encoding="utf-8")
        case Export():
            ranker.export_encoder(command.output)


def _fetched(command: Fetch) -> list[Path]:
    """The files of a source, those that were missing fetched."""
    if command.source == "glove":
        return [fetch(GLOVE_6B, command.folder)]
    # Only here: tensorflow-datasets takes seconds to import.
    from docent_jax.datasets.load import FILM_BUILDERS

    return FILM_BUILDERS[command.source].source_files(command.folder, download=True)


if __name__ == "__main__":
    main()
