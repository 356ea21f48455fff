"""tensorflow-datasets builder `parsed_formulas`: the trees of any file of formulas."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from gcl_jax.datasets.builders import (
    FormulaBuilder,
    FormulaConfig,
    Row,
    in_shards,
    prepared,
)
from gcl_jax.datasets.formula_files import Format, FormulaFile
from gcl_jax.datasets.parsing import DEFAULT_OPTIONS, ParsingOptions, parser_fingerprint
from retrieval_jax.fingerprints import files_fingerprint


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
    options: ParsingOptions = DEFAULT_OPTIONS,
) -> ParsedFormulas:
    """Parses a file of formulas into array_record files below `data_dir`, or finds them there.

    They are found where the file's name and whole contents and all settings are the same.

    Args:
        path: TSV with a header, JSON lines, or plain lines; plain, gzip or xz.
        data_dir: the folder of tensorflow-datasets.
        format: of the file; None = as its name tells.
        column: which column or field holds the formula; None = a usual name, such as `latex`.
        id_column: which holds the id; None = a usual name, else the line number.
        options: how they are parsed.

    Raises:
        InputError: no such file, a name that tells no format, no such column, or nothing in it
            could be parsed.
    """
    file = FormulaFile(path, format, column, id_column)
    settings = file.format, column, id_column, options.seconds, parser_fingerprint(options.parse)
    config = FileConfig(
        name=f"{file.format}-{files_fingerprint([path], *settings, whole=True)}",
        path=str(path),
        options=options,
        format=format,
        column=column,
        id_column=id_column,
    )
    return prepared(ParsedFormulas, config, data_dir)
