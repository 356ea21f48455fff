"""tensorflow-datasets builders of NTCIR-12: `ntcir12` (the corpus) and `ntcir12_judged`."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from gcl_jax.data import Formulas
from gcl_jax.datasets.builders import (
    FormulaBuilder,
    FormulaConfig,
    Row,
    TreeBuilder,
    example,
    in_shards,
    prepared,
)
from gcl_jax.datasets.formula_files import Source
from gcl_jax.datasets.ntcir12 import CODES, GRAPHS, QRELS, QUERIES, read_judged
from gcl_jax.datasets.ntcir12_articles import (
    REMEDY,
    corpus_files,
    formulas_of,
    read_articles,
)
from gcl_jax.datasets.parsing import (
    DEFAULT_OPTIONS,
    Parsed,
    ParsingOptions,
    columns_of,
    parser_fingerprint,
)
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import files_fingerprint
from retrieval_jax.text_files import require_file


class Ntcir12(FormulaBuilder):
    """The formulas of NTCIR-12's Wikipedia corpus (MathML); `formula` is their LaTeX."""

    def _shards(self, counts: Counter[str]) -> tuple[Sequence[Iterable[Row]], int]:
        files = corpus_files(Path(self._config.path))
        num_rows = sum(1 for _ in _rows(files, Counter()))
        return in_shards(_rows(files, counts), num_rows), num_rows


class Ntcir12Judged(TreeBuilder):
    """The judged formulas of NTCIR-12's 20 topics without wildcards, and the topics (`queries`).

    Decoded from published graphs; `formula` is empty.
    """

    def _shard_iterators_per_split(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Sequence[Callable[[], Iterator[Any]]]]:
        del dl_manager
        judged = read_judged(Path(self._config.path))
        self._add_metadata({**judged.counts, "formulas": len(judged.formulas)})
        return {
            "train": [lambda: _decoded(judged.formulas)],
            "queries": [lambda: _decoded(judged.queries)],
        }


def prepare(
    path: Path,
    data_dir: Path,
    options: ParsingOptions = DEFAULT_OPTIONS,
) -> Ntcir12:
    """Parses NTCIR-12's corpus into array_record files below `data_dir`, or finds them there.

    Args:
        path: folder or archive; see `gcl_jax.datasets.ntcir12_articles`.
        data_dir: the folder of tensorflow-datasets.
        options: how they are parsed.

    Raises:
        InputError: no article there, or no formula in them; says what to fetch.
    """
    if not path.exists():
        raise InputError(f"There is no {path}.", REMEDY)
    config = FormulaConfig(
        name=f"corpus-{files_fingerprint(corpus_files(path), parser_fingerprint(options.parse))}",
        path=str(path),
        options=options,
    )
    return prepared(Ntcir12, config, data_dir)


def prepare_judged(folder: Path, data_dir: Path, progress: bool = True) -> Ntcir12Judged:
    """Decodes the judged formulas of a folder into array_record files, or finds them there.

    Raises:
        InputError: as `read_judged`.
    """
    names = (GRAPHS, QUERIES, CODES, QRELS)
    files = [require_file(folder / name, f"It must hold {', '.join(names)}.") for name in names]
    config = FormulaConfig(
        name=f"judged-{files_fingerprint(files)}",
        path=str(folder),
        options=ParsingOptions(progress=progress),
    )
    return prepared(Ntcir12Judged, config, data_dir)


def _rows(files: list[Path], counts: Counter[str]) -> Iterator[Row]:
    numbers = itertools.count(1)
    for article, text in read_articles(files, counts):
        for row in formulas_of(article, text, counts):
            yield row._replace(row=next(numbers))


def _decoded(formulas: Formulas) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, name in enumerate(formulas.ids):
        trees = Parsed(
            *(columns_of(forest.tree(number)) for forest in (formulas.slt, formulas.opt))
        )
        yield number, example(Source(number, name, ""), trees)
