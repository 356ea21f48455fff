"""Makes labelled pairs of titles of your own table, by the published rule.

COMMAND   python -m experiments.mathsim.make_pairs --titles titles.csv --output data/pairs
TIME      seconds for thousands of titles
HARDWARE  1 CPU core

The table has an id, a title and MSC codes a row, the primary code first. With `--pair-list` the
pairs are those of a list of identifiers, such as the one that the paper's authors publish, and the
table gives the titles; works without codes are left out there too. Writes train, dev and test (80,
10 and 10 %, by --seed) and a card of counts.
"""

import dataclasses
from pathlib import Path

import tyro

from mathsim_jax.datasets.msc_pairs import (
    LIST_COLUMNS,
    SPLIT_SEED,
    TABLE_COLUMNS,
    make_pairs,
    read_pair_list,
    read_titles,
    split_pairs,
    write_pairs,
)
from retrieval_jax.errors import InputError, one_screen_errors


@dataclasses.dataclass(frozen=True)
class Command:
    """Which pairs to make.

    Attributes:
        titles: table of works, .jsonl, .csv or .tsv, also packed.
        output: folder to write.
        columns: names of the columns of id, title and codes.
        pair_list: table of labelled pairs of ids, instead of making pairs.
        list_columns: names of its columns of both ids and the label.
        limit: positives made at most, chosen at random.
        seed: of the choice, of the negatives, and of the split.

    Raises:
        InputError: a `limit` with `pair_list`, or `list_columns` without it.
    """

    titles: Path
    output: Path
    columns: tuple[str, str, str] = TABLE_COLUMNS
    pair_list: Path | None = None
    list_columns: tuple[str, str, str] = LIST_COLUMNS
    limit: int | None = None
    seed: int = SPLIT_SEED

    def __post_init__(self) -> None:
        """Refuses what would have no effect."""
        if self.pair_list is not None and self.limit is not None:
            raise InputError(
                "--limit has no effect with --pair-list",
                "All pairs of the list are taken: leave it out, or shorten the list.",
            )
        if self.pair_list is None and self.list_columns != LIST_COLUMNS:
            raise InputError(
                "--list-columns has no effect without --pair-list",
                "Name the list, or leave it out.",
            )


@one_screen_errors
def main() -> None:
    """Makes pairs as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.mathsim.make_pairs")
    works, counts = read_titles(command.titles, command.columns)
    print(f"{len(works):,} works ({counts})")
    if command.pair_list is None:
        pairs = make_pairs(works, command.limit, command.seed)
    else:
        titles = {key: work.title for key, work in works.items()}
        pairs = read_pair_list(command.pair_list, titles, command.list_columns)
    pairs = pairs.require_both_labels("the pairs")
    splits = split_pairs(pairs, command.seed)
    write_pairs(command.output, splits)
    print(f"{pairs.summary} ({dict(pairs.card)})")
    for name, part in splits.items():
        print(f"{name}: {part.summary}")


if __name__ == "__main__":
    main()
