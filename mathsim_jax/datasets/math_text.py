"""The sets of mathematical texts in a folder `math_text`: pairs of abstracts, codes, statements.

zbMATH's title pairs, on which the paper trains, are not public; `msc_pairs` makes such pairs of any
table of titles. In this folder are labelled pairs of abstracts (seed, recommendation), with which
the model is fine-tuned and tested, and texts of mathematics for domain adaptation and more pairs.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mathsim_jax.datasets.pairs import Pairs, with_negatives
from mathsim_jax.datasets.texts import clean_text, is_german, is_printed_column
from retrieval_jax import data_folders
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import filled_string, read_json_lines, require_file

Split = Literal["train", "dev", "test"]
Extra = Literal["afp", "msc", "ams"]
UNAVAILABLE = "contents unavailable"  # in place of a text that may not be given on
# Statements of conjectures are texts of Lean files; what comes after the words is code.
_CODE = "-/"
MIN_STATEMENT = 40  # characters
_SEE_ALSO = re.compile(r"[\[{(](?:See|For)\b[^\])}]*[\])}]")


def data_folder(folder: Path | str | None = None) -> Path:
    """The folder that is given, or `math_text` in the one that RETRIEVAL_DATA names.

    Raises:
        InputError: neither, or no folder there.
    """
    return data_folders.present_folder("math_text", folder, "`--folder`", "files of zbMATH")


def read_abstract_pairs(folder: Path, split: Split) -> Pairs:
    """Reads labelled pairs of zbMATH abstracts, cleaned; their groups are the seeds.

    A pair that comes again is counted and dropped; of one that comes with both labels, all.

    Raises:
        InputError: no file, no row, a row without a field, a label other than 0 and 1, a blank
            text.
    """
    path = _file(folder, f"zbmath_abstract_pairs_{split}")
    card: Counter[str] = Counter()
    labels: dict[tuple[str, str, str], set[int]] = {}
    for number, row in read_json_lines(path, card):
        seed, anchor, rec = (
            filled_string(row, name, path, number) for name in ("seed", "anchor", "rec")
        )
        label = read_label(row.get("label"), path, number)
        card["texts cut short where they were printed"] += is_printed_column(anchor)
        card["texts cut short where they were printed"] += is_printed_column(rec)
        key = seed, clean_text(anchor), clean_text(rec)
        card["pairs that come again"] += key in labels
        labels.setdefault(key, set()).add(label)
    kept = {key: min(both) for key, both in labels.items() if len(both) == 1}
    card["pairs with both labels"] = len(labels) - len(kept)
    if not kept:
        raise InputError(f"{path} holds no pairs", "Fetch the file again.")
    return Pairs(
        tuple(anchor for _, anchor, _ in kept),
        tuple(rec for _, _, rec in kept),
        np.array(list(kept.values()), np.int32),
        tuple(seed for seed, _, _ in kept),
        dict(card),
    )


def german_pairs(pairs: Pairs) -> np.ndarray:
    """Bool `[pairs]`, whose second text is German: nearly all are negatives, known by language."""
    return np.array([is_german(text) for text in pairs.second])


@dataclasses.dataclass(frozen=True)
class MscCode:
    """A class of the Mathematics Subject Classification.

    Attributes:
        code: five characters.
        parent: the class above, such as 34Bxx.
        title: what it is about.
    """

    code: str
    parent: str
    title: str


def read_msc_codes(folder: Path) -> list[MscCode]:
    """Reads the five-character codes of MSC2020, titles without their references to other codes.

    Raises:
        InputError: no file, or a row without a field.
    """
    path = _file(folder, "msc2020_codes")
    codes = []
    for number, row in read_json_lines(path, Counter()):
        code, parent, title = (
            filled_string(row, name, path, number) for name in ("code", "parent", "long_title")
        )
        codes.append(MscCode(code, parent, clean_text(_SEE_ALSO.sub("", title)) or title))
    return codes


def read_afp(folder: Path) -> list[dict[str, Any]]:
    """Reads title, abstract and topics of the Archive of Formal Proofs, texts cleaned.

    Raises:
        InputError: no file, a row without a field.
    """
    path = _file(folder, "afp2020_titles")
    return [
        {
            "title": clean_text(filled_string(row, "title", path, number)),
            "abstract": clean_text(filled_string(row, "abstract", path, number)),
            "topics": _strings(row, "topic", path, number),
        }
        for number, row in read_json_lines(path, Counter())
    ]


def read_statements(folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Reads distinct statements of conjectures with their two-digit AMS classes.

    Only the words before the code of their Lean files are taken.

    Raises:
        InputError: no file, a row without a field.
    """
    path = _file(folder, "formal_conjectures_ams")
    statements: dict[str, tuple[str, ...]] = {}
    for number, row in read_json_lines(path, Counter()):
        words = clean_text(filled_string(row, "text", path, number).split(_CODE)[0])
        if len(words) >= MIN_STATEMENT:
            statements.setdefault(words, tuple(_strings(row, "ams", path, number)))
    return list(statements.items())


def read_open_records(folder: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Reads zbMATH Open records: `de` (the id), `title`, `msc` (primary first), `text`.

    Returns:
        The records, their texts cleaned and "" where the publisher withholds them, and counts.

    Raises:
        InputError: no file, a row without a field.
    """
    path = _file(folder, "zbmath_open_200_records")
    card: Counter[str] = Counter()
    records = []
    for number, row in read_json_lines(path, card):
        text = str(row.get("text") or "")
        card["texts withheld"] += UNAVAILABLE in text
        card["records without text"] += not text.strip()
        records.append(
            {
                "de": filled_string(row, "de", path, number),
                "title": clean_text(filled_string(row, "title", path, number)),
                "msc": _strings(row, "msc", path, number),
                "text": "" if UNAVAILABLE in text else clean_text(text),
            }
        )
    return records, dict(card)


def adaptation_texts(folder: Path) -> list[str]:
    """All distinct texts of the folder for domain adaptation, but those of the test pairs.

    Abstracts of the train and dev pairs and of the open records, AFP's abstracts, statements of
    conjectures, titles of MSC codes.

    Raises:
        InputError: as the readers.
    """
    texts: list[str] = []
    for split in ("train", "dev"):
        texts += read_abstract_pairs(folder, split).texts
    texts += [record["text"] for record in read_open_records(folder)[0] if record["text"]]
    texts += [entry["abstract"] for entry in read_afp(folder)]
    texts += [statement for statement, _ in read_statements(folder)]
    texts += [code.title for code in read_msc_codes(folder)]
    tested = set(read_abstract_pairs(folder, "test").texts)
    return [text for text in dict.fromkeys(texts) if text not in tested]


def extra_pairs(folder: Path, source: Extra, limit: int | None, seed: int) -> Pairs:
    """Further pairs for training, balanced.

    - `afp`: title and abstract of an entry of the Archive of Formal Proofs. A short and a long text
      on one matter, without any label of people: what contrastive training lives on.
    - `msc`: titles of two MSC codes below one parent. The hierarchy by which the paper labels.
    - `ams`: two statements of conjectures of the same AMS classes. Coarse, mostly number theory.

    Args:
        folder: of the data.
        source: which.
        limit: positives at most, chosen at random; None = all.
        seed: of all choices.

    Raises:
        InputError: as the readers.
    """
    rng = np.random.default_rng(seed)
    if source == "afp":
        entries = read_afp(folder)
        rows = [(entry["title"], entry["abstract"], entry["title"]) for entry in entries]
    elif source == "msc":
        codes = read_msc_codes(folder)
        rows = list(_partners({code.title: code.parent for code in codes}, rng))
    else:
        rows = list(_partners({s: " ".join(c) for s, c in read_statements(folder) if c}, rng))
    chosen = rng.permutation(len(rows))[:limit]
    columns = zip(*(rows[i] for i in chosen), strict=True)
    first, second, groups = (tuple(column) for column in columns)
    return with_negatives(first, second, tuple(f"{source} {group}" for group in groups), seed)


def _partners(
    group_of: Mapping[str, str], rng: np.random.Generator
) -> Iterator[tuple[str, str, str]]:
    """Each text once with a random other one of its group, where there is one."""
    members: dict[str, list[str]] = {}
    for text, group in group_of.items():
        members.setdefault(group, []).append(text)
    for group, texts in members.items():
        order = rng.permutation(len(texts))
        for left, right in zip(order[::2], order[1::2], strict=False):
            yield texts[left], texts[right], group


def read_label(value: Any, source: object, number: int) -> int:
    """A label 0 or 1 as a number, a truth value or a word.

    Raises:
        InputError: anything else, named by file and line.
    """
    known = {"0": 0, "1": 1, "false": 0, "true": 1}
    label = known.get(str(value).strip().lower())
    if label is None:
        raise InputError(f"{source}, line {number}: the label is {value!r}", "Labels are 0 or 1.")
    return label


def _file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.jsonl"
    packed = folder / f"{name}.jsonl.xz"
    remedy = "It is part of the folder math_text; check --folder."
    return path if path.is_file() else require_file(packed, remedy)


def _strings(row: Mapping[str, Any], field: str, path: Path, number: int) -> list[str]:
    value = row.get(field)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InputError(
            f"{path}, line {number}: {field} is {value!r}, no list of texts",
            "Mend the line, or leave it out.",
        )
    return value
