"""Pairs of titles that are alike by their MSC codes: the paper's training set of any table.

Two titles are alike if they share the primary five-character code and at least one secondary code
(model card, fine-tuning); all other pairs are not.
"""

import csv
import dataclasses
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mathsim_jax.datasets.math_text import read_label
from mathsim_jax.datasets.pairs import Pairs
from mathsim_jax.datasets.texts import clean_text
from retrieval_jax.errors import InputError, check_at_least_1
from retrieval_jax.files import write_json
from retrieval_jax.text_files import (
    checked_rows,
    filled_string,
    read_json_lines,
    read_lines,
    read_table,
)

SPLIT_SEED = 1  # (P)
TABLE_COLUMNS = ("id", "title", "msc")
# Of the published list of identifiers.
LIST_COLUMNS = ("an_a", "an_b", "label")
_MAX_DRAWS = 50  # rounds of drawing negatives


@dataclasses.dataclass(frozen=True)
class Title:
    """A work.

    Attributes:
        title: cleaned.
        primary: five-character MSC code.
        secondary: further codes.
    """

    title: str
    primary: str
    secondary: frozenset[str]


def alike(a: Title, b: Title) -> bool:
    """The published rule: the same primary code, and a secondary code in common."""
    return a.primary == b.primary and not a.secondary.isdisjoint(b.secondary)


def read_titles(
    path: Path, columns: Sequence[str] = TABLE_COLUMNS
) -> tuple[dict[str, Title], dict[str, int]]:
    """Reads a table of works.

    Args:
        path: .jsonl, .csv or .tsv with a header, also packed as .gz or .xz. Codes are a JSON list,
            or separated by white space, commas or semicolons; the first is the primary one.
        columns: names of the columns that hold id, title and codes.

    Returns:
        Id -> work, and counts: works whose row comes again, works without title or codes (dropped).

    Raises:
        InputError: no file, no row, an absent column, an id that comes with two titles or two lists
            of codes.
    """
    card: Counter[str] = Counter()
    titles: dict[str, Title] = {}
    lines: dict[str, int] = {}
    for number, row in _rows(path, columns, card):
        key, title = str(row[columns[0]]).strip(), clean_text(str(row[columns[1]] or ""))
        codes = _codes(row[columns[2]])
        if not key or not title or not codes:
            card["works without id, title or codes"] += 1
            continue
        work = Title(title, codes[0], frozenset(codes[1:]))
        if titles.setdefault(key, work) != work:
            raise InputError(
                f"{path}, line {number}: {key!r} has another title or other codes than in line"
                f" {lines[key]}",
                "Remove one of the lines.",
            )
        card["works whose row comes again"] += key in lines
        lines.setdefault(key, number)
    if not titles:
        raise InputError(f"{path} holds no works", "Give a table with a row for each work.")
    card["works"] = len(titles)
    return titles, dict(card)


def make_pairs(titles: dict[str, Title], limit: int | None = None, seed: int = 0) -> Pairs:
    """Makes positives by the published rule, and as many random negatives.

    Args:
        titles: id -> work.
        limit: positives at most, chosen at random; None = all.
        seed: of the choice, and of the negatives.

    Returns:
        Positives and negatives in random order; the group of a pair is the primary code of its
        first title. The card counts what was left out.

    Raises:
        InputError: no two titles are alike, there are not enough pairs that are not, or a limit
            below 1.
    """
    if limit is not None:
        check_at_least_1(limit=limit)
    rng = np.random.default_rng(seed)
    works = list(titles.values())
    card: Counter[str] = Counter()
    positives = _positives(works, limit, rng, card)
    if not positives:
        raise InputError(
            f"no two of {len(works)} titles share a primary and a secondary code",
            "Give more works, with all their codes (the primary one first).",
        )
    titles_of_positives = {_titles(works, pair) for pair in positives}
    negatives = _negatives(works, len(positives), titles_of_positives, rng, card)
    pairs = [*((pair, 1) for pair in positives), *((pair, 0) for pair in negatives)]
    order = rng.permutation(len(pairs))
    card |= Counter({"positives": len(positives), "negatives": len(negatives)})
    chosen = [pairs[i] for i in order]
    return Pairs(
        tuple(works[i].title for (i, _), _ in chosen),
        tuple(works[j].title for (_, j), _ in chosen),
        np.array([label for _, label in chosen], np.int32),
        tuple(works[i].primary for (i, _), _ in chosen),
        dict(card),
    )


def read_pair_list(
    path: Path, titles: dict[str, str], columns: Sequence[str] = LIST_COLUMNS
) -> Pairs:
    """Reads labelled pairs of identifiers, such as the published list, and gives them titles.

    Pairs of which a title is unknown or both are the same, pairs that come again, and pairs that
    come with both labels are counted and dropped.

    Args:
        path: .jsonl, .csv or .tsv, also packed.
        titles: id -> title.
        columns: names of the columns of both ids and the label.

    Raises:
        InputError: no file, an absent column, a label other than 0 and 1, no pair left.
    """
    card: Counter[str] = Counter()
    labels: dict[tuple[str, str], set[int]] = {}
    for number, row in _rows(path, columns, card):
        a, b = sorted(str(row[name]).strip() for name in columns[:2])
        label = read_label(row[columns[2]], path, number)
        card["pairs that come again"] += label in labels.get((a, b), ())
        labels.setdefault((a, b), set()).add(label)
    kept: dict[tuple[str, str], int] = {}
    for (a, b), both in labels.items():
        if len(both) > 1:
            card["pairs with both labels"] += 1
        elif not titles.get(a) or not titles.get(b):
            card["pairs without titles"] += 1
        elif titles[a] == titles[b]:
            card["pairs of one title"] += 1
        else:
            kept[a, b] = min(both)
    if not kept:
        raise InputError(
            f"{path} holds no pair with titles ({dict(card)})",
            "Give the titles of its identifiers in the second table.",
        )
    return Pairs(
        tuple(titles[a] for a, _ in kept),
        tuple(titles[b] for _, b in kept),
        np.array(list(kept.values()), np.int32),
        tuple(a for a, _ in kept),
        dict(card),
    )


def split_pairs(pairs: Pairs, seed: int = SPLIT_SEED) -> dict[str, Pairs]:
    """Splits at random into train, dev and test of 80, 10 and 10 %.

    Dev and test hold a tenth each, rounded up, as the published counts have it: of 439,342 pairs
    351,472, 43,935 and 43,935. A title may be in pairs of several splits, as published.

    Raises:
        InputError: fewer than three pairs.
    """
    held_out = math.ceil(len(pairs) / 10)
    if len(pairs) < 3:
        raise InputError(f"{len(pairs)} pairs cannot be split in three", "Give more pairs.")
    order = np.random.default_rng(seed).permutation(len(pairs))
    bounds = np.cumsum([held_out, held_out])
    test, dev, train = np.split(order, bounds)
    return {"train": pairs.take(train), "dev": pairs.take(dev), "test": pairs.take(test)}


def write_pairs(folder: Path, splits: dict[str, Pairs]) -> None:
    """Writes each split as JSON lines (first, second, label, group), and `card.json` of counts."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        rows = zip(pairs.first, pairs.second, pairs.labels.tolist(), pairs.groups, strict=True)
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for row in rows:
                named = dict(zip(("first", "second", "label", "group"), row, strict=True))
                file.write(json.dumps(named, ensure_ascii=False) + "\n")
    some = next(iter(splits.values()))
    card = {
        "rule": "1: same primary MSC code and a secondary one in common; else 0",
        "made": dict(some.card),
        "splits": {
            name: {"pairs": len(pairs), "positives": int(pairs.labels.sum())}
            for name, pairs in splits.items()
        },
        "fingerprints": {name: pairs.fingerprint for name, pairs in splits.items()},
    }
    write_json(folder / "card.json", card)


def read_pairs(path: Path) -> Pairs:
    """Reads labelled pairs of texts: columns first, second, label, and group if there are any.

    Raises:
        InputError: no file, no row, an absent column, a label other than 0 and 1, a blank text.
    """
    first, second, labels, groups = [], [], [], []
    for number, row in _rows(path, ("first", "second", "label"), Counter()):
        first.append(clean_text(filled_string(row, "first", path, number)))
        second.append(clean_text(filled_string(row, "second", path, number)))
        labels.append(read_label(row["label"], path, number))
        groups.append(str(row.get("group") or row["first"]))
    if not first:
        raise InputError(f"{path} holds no pairs", "Give a row for each pair.")
    return Pairs(tuple(first), tuple(second), np.array(labels, np.int32), tuple(groups))


def _positives(
    works: Sequence[Title], limit: int | None, rng: np.random.Generator, card: Counter[str]
) -> list[tuple[int, int]]:
    """Pairs of works that are alike and differ in their titles, by bucket of the codes shared."""
    buckets: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, work in enumerate(works):
        for code in sorted(work.secondary):  # a set's own order is another in each process
            buckets[work.primary, code].append(index)
    members = [bucket for bucket in buckets.values() if len(bucket) > 1]
    sizes = np.array([math.comb(len(bucket), 2) for bucket in members], np.int64)
    ends, total = np.cumsum(sizes), int(sizes.sum())
    # One after the other or, where not all are wanted, at random: a pair has one number in each
    # of its buckets.
    numbers: Iterator[int] | list[int] = iter(range(total))
    if limit is not None:
        numbers = rng.permutation(total).tolist() if total < 4 * limit else _distinct(total, rng)
    found: dict[tuple[int, int], None] = {}
    of_one_title: set[tuple[int, int]] = set()
    for number in numbers:
        if limit is not None and len(found) >= limit:
            break
        place = int(np.searchsorted(ends, number, side="right"))
        i, j = _unrank(number - int(ends[place] - sizes[place]))
        pair = members[place][j], members[place][i]
        if works[pair[0]].title == works[pair[1]].title:
            of_one_title.add(pair)
        else:
            found[pair] = None
    card["pairs of one title"] = len(of_one_title)
    return list(found)


def _distinct(total: int, rng: np.random.Generator) -> Iterator[int]:
    """Endless distinct random numbers below `total`, until there are none."""
    seen: set[int] = set()
    while len(seen) < total:
        number = int(rng.integers(total))
        if number not in seen:
            seen.add(number)
            yield number


def _unrank(number: int) -> tuple[int, int]:
    """The pair i > j >= 0 of that number in the order (1, 0), (2, 0), (2, 1), (3, 0), ..."""
    i = (1 + math.isqrt(1 + 8 * number)) // 2
    return i, number - math.comb(i, 2)


def _titles(works: Sequence[Title], pair: tuple[int, int]) -> frozenset[str]:
    return frozenset(works[i].title for i in pair)


def _negatives(
    works: Sequence[Title],
    count: int,
    taken: set[frozenset[str]],
    rng: np.random.Generator,
    card: Counter[str],
) -> list[tuple[int, int]]:
    """Distinct random pairs that are not alike; pairs of titles in `taken` have their label."""
    found: dict[tuple[int, int], None] = {}
    for _ in range(_MAX_DRAWS):
        for a, b in np.sort(rng.integers(0, len(works), (2 * count, 2)), axis=1).tolist():
            if len(found) == count:
                return list(found)
            if works[a].title == works[b].title:
                continue
            if alike(works[a], works[b]):
                card["random pairs that are alike, drawn again"] += 1
            elif _titles(works, (a, b)) in taken:
                card["random pairs of a positive's titles, drawn again"] += 1
            else:
                found[a, b] = None
    if len(found) == count:
        return list(found)
    raise InputError(
        f"{len(works)} titles give {count} positives, but only {len(found)} negatives",
        "Lower the limit of positives, or give works of more classes.",
    )


def _codes(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(code).strip() for code in value if str(code).strip()]
    return str(value or "").replace(",", " ").replace(";", " ").split()


def _rows(
    path: Path, columns: Sequence[str], card: Counter[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and rows of a table in one of the known formats, with all of `columns`."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.", "Check the path.")
    suffix = next((s for s in reversed(path.suffixes) if s not in (".gz", ".xz")), "")
    if suffix in (".jsonl", ".json"):
        for number, row in read_json_lines(path, card):
            absent = [name for name in columns if name not in row]
            if absent:
                raise InputError(
                    f"{path}, line {number}: no field {', '.join(absent)}",
                    f"Each line needs {', '.join(columns)}; other names can be given.",
                )
            yield number, row
    elif suffix == ".csv":
        reader = csv.reader(f"{line}\n" for _, line in read_lines(path, card))
        yield from checked_rows(reader, path, columns)
    elif suffix == ".tsv":
        yield from read_table(path, columns, card)
    else:
        raise InputError(
            f"{path} is no known kind of table", "Give .jsonl, .csv or .tsv, packed as .gz or .xz."
        )
