"""What the papers published: the figures of `published.json`, beside which ours stand."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.report.blocks import Block, Table
from retrieval_jax.config import from_dict

PATH = Path(__file__).with_name("published.json")


@dataclasses.dataclass(frozen=True)
class PublishedTable:
    """A published table, as far as it is known.

    Attributes:
        title: with its number in the paper.
        data: what was measured on.
        source: where the figures come from.
        measures: columns.
        rows: system -> figures, as published; blank where unknown.
        not_run: what cannot be run here -> the command that would.
    """

    title: str
    data: str
    source: str
    measures: Sequence[str]
    rows: Mapping[str, Sequence[str]]
    not_run: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        id: prefix of its results files.
        title: its title.
        results: names of results files, in the order of the page; others with the prefix follow.
        tables: published.
    """

    id: str
    title: str
    results: Sequence[str]
    tables: Sequence[PublishedTable]


def read_papers(path: Path = PATH) -> list[Paper]:
    """The papers, in the order of the page."""
    papers = []
    for fields in json.loads(path.read_text(encoding="utf-8"))["papers"]:
        tables = [from_dict(PublishedTable, table, path.name) for table in fields["tables"]]
        papers.append(from_dict(Paper, {**fields, "tables": tables}, path.name))
    return papers


def published_blocks(table: PublishedTable) -> list[Block]:
    """A published table; what cannot be run here has an empty row and its command."""
    blank = [""] * len(table.measures)
    rows = [[f"{name} (published)", *values, ""] for name, values in table.rows.items()]
    rows += [[name, *blank, f"`{command}`"] for name, command in table.not_run.items()]
    caption = f"{table.title}: {table.data}. Source: {table.source}."
    return [Table(["system", *table.measures, "not run here; the command"], rows, caption)]
