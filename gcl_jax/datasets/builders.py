"""What the tensorflow-datasets builders of formulas share: parsing, rows, and reading back.

The builders write shard by shard, so that memory does not grow with the data; those of
tensorflow-datasets that shuffle hold everything, and need TensorFlow beyond 1 GB.
"""

import abc
import contextlib
import dataclasses
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import tensorflow_datasets as tfds
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gcl_jax.data import ForestMaker, Formulas, load_formulas, save_formulas
from gcl_jax.datasets.formula_files import Reject, Source
from gcl_jax.datasets.parsing import CHUNK, Columns, Parsed, ParserPool, ParsingOptions
from retrieval_jax.errors import InputError
from retrieval_jax.kept import keep
from retrieval_jax.prepared_rows import prepared_rows

SHARD_ROWS = 20_000
"""Input rows of a shard: tensorflow-datasets holds the examples of one in memory."""

REJECTS = "rejects.jsonl"
"""File beside the shards: a JSON object {row, id, input, reason} a line."""

_SHOWN_INPUT = 10_000
_LINE_EVERY = 20.0


@dataclasses.dataclass(eq=False)
class FormulaConfig(tfds.core.BuilderConfig):
    """What to build from, and how; made by `prepare`, whose name tells the files' contents.

    Attributes:
        path: the file or folder.
        options: how it is parsed.
    """

    path: str = ""
    options: ParsingOptions = ParsingOptions()


Row = Source | Reject | None
"""A formula to parse, what cannot be one, or nothing (an empty line)."""


class TreeBuilder(tfds.core.ShardBasedBuilder, skip_registration=True):
    """Base of the builders of formulas with their trees; its docstring describes the data set.

    One row a formula, in the order of the source: its `id`, the `formula` as it was given, and for
    layout tree (`slt`) and operator tree (`opt`) `labels` and `edges`, a line each, and `parents`.
    `info.metadata` counts what was read.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "First version."}

    def _info(self) -> tfds.core.DatasetInfo:
        columns: dict[str, Any] = {"id": tfds.features.Text(), "formula": tfds.features.Text()}
        for layout in ("slt", "opt"):
            columns[f"{layout}_labels"] = tfds.features.Text()
            columns[f"{layout}_parents"] = tfds.features.Tensor(shape=(None,), dtype=np.int32)
            columns[f"{layout}_edges"] = tfds.features.Text()
        return tfds.core.DatasetInfo(
            builder=self,
            description=type(self).__doc__,
            features=tfds.features.FeaturesDict(columns),
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    @property
    def _config(self) -> FormulaConfig:
        if not isinstance(self.builder_config, FormulaConfig):
            raise InputError(
                f"`{self.name}` is not told what to read.",
                "Build it by the function `prepare` of its module.",
            )
        return self.builder_config

    def _add_metadata(self, counts: Mapping[str, int]) -> None:
        assert isinstance(self.info.metadata, dict)
        self.info.metadata.update(counts)


class FormulaBuilder(TreeBuilder, skip_registration=True):
    """Base of those that parse; what could not be parsed is in `REJECTS` beside the shards."""

    @abc.abstractmethod
    def _shards(self, counts: Counter[str]) -> tuple[Sequence[Iterable[Row]], int]:
        """The rows of each shard, which are read one after another, and how many there are.

        Args:
            counts: what was damaged is added while reading.
        """

    def _shard_iterators_per_split(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Sequence[Callable[[], Iterator[Any]]]]:
        del dl_manager
        counts: Counter[str] = Counter()
        shards, total = self._shards(counts)
        if not shards:
            raise InputError(f"{self._config.path} holds no formula.", "Give one that does.")
        examples = self._examples(shards, total, counts)
        groups = itertools.groupby(examples, key=lambda numbered: numbered[0])

        def next_shard() -> Iterator[tuple[int, dict[str, Any]]]:
            for _, row in next(groups)[1]:
                if row is not None:
                    yield row

        return {"train": [next_shard] * len(shards)}

    def _examples(
        self, shards: Sequence[Iterable[Row]], total: int, counts: Counter[str]
    ) -> Iterator[tuple[int, tuple[int, dict[str, Any]] | None]]:
        """The shard and the example of each row, None for a row without one and after a shard."""
        options = self._config.options
        numbered = (
            (number, row)
            for number, shard in enumerate(shards)
            for row in itertools.chain(shard, [None])
        )
        with contextlib.ExitStack() as stack:
            rejects = stack.enter_context(
                Path(self.data_dir, REJECTS).open(
                    # Half a surrogate pair is an escape of JSON too.
                    "w",
                    encoding="utf-8",
                    errors="backslashreplace",
                    newline="\n",
                )
            )
            pool = stack.enter_context(
                ParserPool(options.processes, options.seconds, options.parse)
            )
            progress = stack.enter_context(_ParsingProgress(total, options.progress))
            for_parsing, waiting = itertools.tee(numbered)
            outcomes = pool.parse(row.formula for _, row in for_parsing if isinstance(row, Source))
            for place, (number, row) in enumerate(waiting, 1):
                outcome = next(outcomes) if isinstance(row, Source) else None
                if isinstance(row, Source) and isinstance(outcome, Parsed):
                    counts["formulas"] += 1
                    yield number, (counts["formulas"], example(row, outcome))
                else:
                    if isinstance(row, Source):
                        row = Reject(row.row, row.key, row.formula, str(outcome))
                    if row is not None:
                        counts["rejected"] += 1
                        rejects.write(_reject_line(row))
                    yield number, None
                if place % CHUNK == 0:
                    progress.update(counts["formulas"] + counts["rejected"], counts["rejected"])
            if not counts["formulas"]:
                raise InputError(
                    f"Nothing in {self._config.path} could be parsed: {counts['rejected']} rows"
                    " were rejected.",
                    "Is it a file of formulas, and of the format that was named?",
                )
            self._add_metadata(counts)


class _ParsingProgress:
    """A progress bar on a terminal, else a line now and then; a context manager."""

    def __init__(self, total: int, enabled: bool) -> None:
        self._console = Console(stderr=True, quiet=not enabled)
        self._total, self._said = total, time.monotonic()
        self._bar = Progress(
            TextColumn("parsing"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rejected]} rejected"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not (enabled and self._console.is_terminal),
        )
        self._row = self._bar.add_task("", total=total, rejected=0)

    def update(self, done: int, rejected: int) -> None:
        """Shows how many rows are done."""
        self._bar.update(self._row, completed=done, rejected=rejected)
        if self._bar.disable and time.monotonic() - self._said > _LINE_EVERY:
            self._said = time.monotonic()
            text = f"parsed {done:,} of {self._total:,} rows, {rejected:,} rejected"
            self._console.print(text, highlight=False, soft_wrap=True)

    def __enter__(self) -> "_ParsingProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def example(source: Source, parsed: Parsed) -> dict[str, Any]:
    """The row of a formula and its trees."""
    row: dict[str, Any] = {"id": source.key, "formula": source.shown or source.formula}
    for layout, columns in zip(("slt", "opt"), parsed, strict=True):
        row[f"{layout}_labels"] = columns.labels
        row[f"{layout}_parents"] = np.frombuffer(columns.parents, np.int32)
        row[f"{layout}_edges"] = columns.edges
    return row


def _reject_line(reject: Reject) -> str:
    row = {"row": reject.row, "id": reject.key, "input": reject.formula[:_SHOWN_INPUT]}
    return json.dumps({**row, "reason": reject.reason}, ensure_ascii=False) + "\n"


B = TypeVar("B", bound=TreeBuilder)


def prepared(builder: type[B], config: FormulaConfig, data_dir: Path) -> B:
    """Builds a data set below `data_dir`, or finds it there; says what was read and where it is.

    Raises:
        InputError: the source cannot be read, or nothing in it parsed.
    """
    made = builder(config=config, data_dir=str(data_dir), file_format="array_record")
    is_new = not Path(made.data_dir).exists()
    made.download_and_prepare()
    if config.options.progress:
        print(f"{made.info.full_name}{'' if is_new else ', built before'}: {made.data_dir}")
        for name, count in sorted((made.info.metadata or {}).items()):
            print(f"  {name}: {count:,}")
        if (made.info.metadata or {}).get("rejected"):
            print(f"  rejected rows, with reasons: {Path(made.data_dir, REJECTS)}")
    return made


def in_shards(rows: Iterable[Row], num_rows: int) -> list[Iterable[Row]]:
    """Cuts rows into shards that are read one after another."""
    rows = iter(rows)
    return [itertools.islice(rows, SHARD_ROWS) for _ in range(-(-num_rows // SHARD_ROWS))]


def read_formulas(builder: tfds.core.DatasetBuilder, split: str = "train") -> Formulas:
    """The formulas of a prepared data set, kept beside it as arrays when first read."""
    kept = keep(
        Path(builder.data_dir),
        f"trees-{split}",
        lambda folder: save_formulas(folder, _read(builder, split)),
    )
    return load_formulas(kept)


def read_rows(
    builder: tfds.core.DatasetBuilder, split: str = "train"
) -> Iterator[tuple[str, str, Parsed]]:
    """Id, formula and trees of each row of a prepared data set."""
    for row in prepared_rows(builder, split):
        slt, opt = (_columns(row, layout) for layout in ("slt", "opt"))
        yield row["id"].decode(), row["formula"].decode(), Parsed(slt, opt)


def _columns(row: Mapping[str, Any], layout: str) -> Columns:
    parents = np.asarray(row[f"{layout}_parents"], np.int32).tobytes()
    return Columns(row[f"{layout}_labels"].decode(), parents, row[f"{layout}_edges"].decode())


def _read(builder: tfds.core.DatasetBuilder, split: str) -> Formulas:
    ids: list[str] = []
    slt, opt = ForestMaker("slt"), ForestMaker("opt")
    for key, _, trees in read_rows(builder, split):
        ids.append(key)
        for maker, columns in zip((slt, opt), trees, strict=True):
            parents = np.frombuffer(columns.parents, np.int32).tolist()
            maker.add(columns.labels.split("\n"), parents, columns.edges.split("\n"))
    return Formulas(tuple(ids), slt.forest(), opt.forest())
