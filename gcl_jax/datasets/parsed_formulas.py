"""tensorflow-datasets builder `parsed_formulas`: the trees of any file of formulas."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from gcl_jax.datasets.builders import (
    FormulaBuilder,
    FormulaConfig,
    Row,
    fingerprint,
    in_shards,
    prepared,
)
from gcl_jax.datasets.formula_files import Format, FormulaFile
from gcl_jax.datasets.parsing import Parse, parser_fingerprint
from gcl_jax.formulas import parse_both


@dataclasses.dataclass(eq=False)
class FileConfig(FormulaConfig):
    """How to read the file; see `FormulaFile`."""

    format: Format | None = None
    column: str | None = None
    id_column: str | None = None


class ParsedFormulas(FormulaBuilder):
    """Formulas of a file: TSV, JSON lines or lines; LaTeX or MathML."""

    def _shards(self, counts: Counter[str]) -> tuple[Sequence[Iterable[Row]], int]:
        config = self._config
        assert isinstance(config, FileConfig)
        file = FormulaFile(Path(config.path), config.format, config.column, config.id_column)
        return in_shards(file.sources(counts), file.num_rows), file.num_rows


def prepare(
    path: Path,
    data_dir: Path,
    format: Format | None = None,  # noqa: A002
    column: str | None = None,
    id_column: str | None = None,
    processes: int | None = None,
    seconds: float = 10.0,
    parse: Parse = parse_both,
    progress: bool = True,
) -> ParsedFormulas:
    """Parses a file of formulas into array_record files below `data_dir`, or finds them there.

    Args:
        path: TSV with a header, JSON lines, or plain lines; plain, gzip or xz.
        data_dir: the folder of tensorflow-datasets.
        format: of the file; None = as its name tells.
        column: which column or field holds the formula; None = a usual name, such as `latex`.
        id_column: which holds the id; None = a usual name, else the line number.
        processes: how many parse; None = one per available core.
        seconds: what a formula may take.
        parse: what parses a formula.
        progress: draw a progress bar, and say what was read.

    Raises:
        InputError: no such file, no such column, or nothing in it could be parsed.
    """
    file = FormulaFile(path, format, column, id_column)
    settings = file.format, column, id_column, seconds, parser_fingerprint(parse)
    config = FileConfig(
        name=f"{file.format}-{fingerprint([path], *settings)}",
        path=str(path),
        processes=processes,
        seconds=seconds,
        parse=parse,
        progress=progress,
        format=format,
        column=column,
        id_column=id_column,
    )
    return prepared(ParsedFormulas, config, data_dir)
