"""Command line of formulas and trees: `python -m gcl_jax parse --input FILE --output FOLDER`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gcl_jax.datasets.parsing import ParsingOptions
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries


@dataclasses.dataclass(frozen=True)
class Parse:
    """Parse the formulas of a file into trees, written as array_record files.

    The folder holds a data set of tensorflow-datasets, `parsed_formulas`, and beside its shards
    `rejects.jsonl`: rows that gave no trees, and why. Parsed once: the same file and options are
    found again.

    Attributes:
        input: TSV with a header, JSON lines, or plain lines; plain, gzip or xz.
        output: folder for data sets.
        format: of the input; by default what its name tells.
        column: column or field that holds the formula; by default a usual name, such as latex.
        id_column: column or field that holds the id; by default a usual name, else the line's
            number.
        processes: how many to parse with; None = one per available core.
        seconds: what one formula may take.
    """

    input: Path
    output: Path
    format: Literal["tsv", "jsonl", "lines"] | None = None
    column: str | None = None
    id_column: str | None = None
    processes: int | None = None
    seconds: float = 10.0


@dataclasses.dataclass(frozen=True)
class Build:
    """Build a collection of formulas as array_record files.

    Attributes:
        collection: Wikipedia's list, NTCIR-12's corpus, or its judged formulas.
        path: file or folder to read; one that is not there is an error that says what to fetch.
        output: folder for data sets.
        processes: how many to parse with; None = one per available core.
    """

    collection: tyro.conf.Positional[Literal["wikipedia_formulas", "ntcir12", "ntcir12_judged"]]
    path: Path
    output: Path = Path("data")
    processes: int | None = None


@one_screen_errors
def main() -> None:
    """Does what the command line says."""
    command: Parse | Build = tyro.cli(
        Annotated[Parse, tyro.conf.subcommand("parse")]
        | Annotated[Build, tyro.conf.subcommand("build")],
        prog="python -m gcl_jax",
        description="Formulas as trees.",
    )
    quiet_libraries()
    # Imported here: workers, which import this file, need not load the libraries of builders.
    match command:
        case Parse():
            from gcl_jax.datasets import parsed_formulas

            parsed_formulas.prepare(
                command.input,
                command.output,
                command.format,
                command.column,
                command.id_column,
                ParsingOptions(command.processes, command.seconds),
            )
        case Build(collection="wikipedia_formulas"):
            from gcl_jax.datasets import wikipedia_formulas

            wikipedia_formulas.prepare(
                command.path, command.output, ParsingOptions(command.processes)
            )
        case Build(collection="ntcir12"):
            from gcl_jax.datasets import ntcir12_builders

            ntcir12_builders.prepare(
                command.path, command.output, ParsingOptions(command.processes)
            )
        case Build():
            from gcl_jax.datasets import ntcir12_builders

            ntcir12_builders.prepare_judged(command.path, command.output)


if __name__ == "__main__":
    main()
