"""Labelled pairs of texts."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import content_fingerprint


@dataclasses.dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of texts that are alike (label 1) or not (0).

    Attributes:
        first: a text of each pair.
        second: the other one.
        labels: int32 `[pairs]`, 0 or 1.
        groups: what each pair belongs to (its anchor, its subject). Pairs of a group stay on one
            side of a split, and are no negatives of each other.
        card: how the pairs were made, as counts.

    Raises:
        InputError: no pairs, parts of different lengths, other labels, or a text without words.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    labels: np.ndarray
    groups: tuple[str, ...]
    card: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks what the class promises."""
        sizes = [len(part) for part in (self.first, self.second, self.labels, self.groups)]
        if len(set(sizes)) > 1:
            raise InputError(f"parts of pairs have lengths {sizes}", "Give one of each a pair.")
        if not sizes[0]:
            raise InputError("there are no pairs", "Give one or more.")
        wrong = np.flatnonzero(~np.isin(self.labels, (0, 1)))
        if wrong.size:
            raise InputError(
                f"pair {wrong[0]}: the label is {self.labels[wrong[0]]!r}", "Labels are 0 or 1."
            )
        for name, texts in (("first", self.first), ("second", self.second)):
            blank = next((i for i, text in enumerate(texts) if not text.strip()), None)
            if blank is not None:
                raise InputError(
                    f"pair {blank}: its {name} text is only white space", "Leave the pair out."
                )

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.first)

    @property
    def texts(self) -> tuple[str, ...]:
        """The distinct texts, in the order in which they come up."""
        return tuple(dict.fromkeys((*self.first, *self.second)))

    @property
    def summary(self) -> str:
        """Size in words."""
        return (
            f"{len(self):,} pairs ({int(self.labels.sum()):,} alike) of"
            f" {len(set(self.groups)):,} groups"
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of texts, labels and groups."""
        rows = zip(self.first, self.second, self.labels.tolist(), self.groups, strict=True)
        return content_fingerprint(str(value) for row in rows for value in row)

    def take(self, indices: np.ndarray) -> "Pairs":
        """The pairs of `indices`, integers or a mask; the card stays that of all.

        Raises:
            InputError: none are left.
        """
        kept = np.arange(len(self))[indices].tolist()
        return Pairs(
            tuple(self.first[i] for i in kept),
            tuple(self.second[i] for i in kept),
            self.labels[kept],
            tuple(self.groups[i] for i in kept),
            self.card,
        )

    def require_both_labels(self, what: str) -> "Pairs":
        """These pairs.

        Raises:
            InputError: there is no positive, or no negative; `what` names the pairs.
        """
        for label, kind in ((1, "positive"), (0, "negative")):
            if not (self.labels == label).any():
                raise InputError(
                    f"{what} hold no {kind} pair among {len(self)}",
                    "Give pairs of both labels; with one of them nothing can be learned or told.",
                )
        return self


def join_pairs(parts: Sequence[Pairs]) -> Pairs:
    """Puts pairs one after the other; their cards add up."""
    card: dict[str, int] = {}
    for part in parts:
        for name, count in part.card.items():
            card[name] = card.get(name, 0) + count
    return Pairs(
        tuple(text for part in parts for text in part.first),
        tuple(text for part in parts for text in part.second),
        np.concatenate([part.labels for part in parts]).astype(np.int32),
        tuple(group for part in parts for group in part.groups),
        card,
    )


def with_negatives(
    first: tuple[str, ...], second: tuple[str, ...], groups: tuple[str, ...], seed: int
) -> Pairs:
    """Pairs of one label 1 each, and as many of label 0: each first text with a strange second.

    Args:
        first: texts.
        second: a text that is like each.
        groups: what each pair belongs to; the strange text comes from another group.
        seed: of the choice.

    Raises:
        InputError: pairs of one group only.
    """
    if len(set(groups)) < 2:
        raise InputError(
            f"{len(groups)} pairs of {len(set(groups))} groups have no negatives",
            "Give pairs of two or more groups.",
        )
    rng = np.random.default_rng(seed)
    names = np.asarray(groups, dtype=object)
    partners = rng.permutation(len(names))
    while (same := np.flatnonzero(names[partners] == names)).size:
        partners[same] = rng.integers(0, len(names), same.size)
    strange = tuple(second[i] for i in partners.tolist())
    return Pairs(
        first * 2,
        second + strange,
        np.repeat(np.array([1, 0], np.int32), len(first)),
        groups * 2,
    )
