"""Which numbers of two records are not the same, and by how much each kind of number may differ."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from experiments.sweep.cells import flatten

# What says how and not what.
IGNORED = ("provenance", "config", "configs", "seeds", "tuning", "budget")
MACHINE = ("seconds", "_second", "_s", "_ms", "_hours", "_mib", "load_average")
"""How names of times, rates, memory and loads end, which differ from one time to the next."""
Kind = Literal["measure", "spread", "difference", "p value", "weight", "count"]
WEIGHT_STEP = 0.1 + 1e-9
"""The grid of weights (`experiments.fusion`), and what floats make of it."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """A number that is not what it was.

    Attributes:
        name: its path in the record.
        kind: what sort of number it is.
        before: value, None if it is new.
        after: value, None if it is absent.
        allowed: difference that would be within tolerance.
    """

    name: str
    kind: Kind
    before: float | None
    after: float | None
    allowed: float

    @property
    def is_within(self) -> bool:
        """Whether it is within tolerance."""
        if self.before is None or self.after is None:
            return False
        if math.isnan(self.before) and math.isnan(self.after):
            return True
        return abs(self.after - self.before) <= self.allowed


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """What a record's experiment has measured, by path."""
    kept = {name: value for name, value in record.items() if name not in IGNORED}
    return flatten(_without_machine(kept))


def _without_machine(value: Any) -> Any:
    """The same without times, memory and what follows from them, at any level."""
    if isinstance(value, Mapping):
        return {k: _without_machine(of) for k, of in value.items() if not k.endswith(MACHINE)}
    return [_without_machine(of) for of in value] if isinstance(value, list) else value


def kind_of(name: str, *values: float | None) -> Kind:
    """The kind of a number, by its path in the record and its values, of which some may be None."""
    first, *_ = levels = name.split(".")
    parent, last = ["", *levels][-2:]
    if last in ("p", "p_holm"):
        return "p value"
    if last == "sd":
        return "spread"
    if last == "difference" or parent in ("interval_95", "gains"):
        return "difference"
    if "weights" in first:
        return "weight"
    if all(isinstance(value, int | None) for value in values):
        return "count"
    return "measure"


def compare(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    tolerance: float = 0.002,
    deviations: float = 2.0,
) -> list[Difference]:
    """Numbers of two records that are not the same, in the order of the first.

    Args:
        before: a record.
        after: another one.
        tolerance: of a measure, absolute; its mean over seeds may differ by more.
        deviations: by so many standard deviations over seeds.

    Returns:
        The differences. Allowed are: of a measure as said; of a standard deviation `tolerance` and
        half of the larger; of a difference of two measures, and of the ends of an interval, twice
        `tolerance`, a tenth of the interval and `deviations`, if the record has any there; of a p
        value .01 and a quarter of the larger; of a weight a step of its grid; of a count 0.
    """
    old, new = numbers_of(before), numbers_of(after)

    def largest(name: str) -> float:
        return max(of.get(name, 0.0) for of in (old, new))

    def allowed(name: str, kind: Kind) -> float:
        value, row = largest(name), name.rpartition(".")[0]
        if kind == "measure":
            own = largest(f"{row}.sd") if name.endswith(".mean") else 0.0
            return tolerance + deviations * own
        if kind == "spread":
            return tolerance + value / 2
        if kind == "difference":
            row = row if name.endswith(".difference") else row.rpartition(".")[0]
            ends = f"{row}.interval_95.0", f"{row}.interval_95.1"
            width = max(of.get(ends[1], 0.0) - of.get(ends[0], 0.0) for of in (old, new))
            return 2 * tolerance + width / 10 + deviations * largest(f"{row}.sd")
        return {"p value": 0.01 + value / 4, "weight": WEIGHT_STEP, "count": 0.0}[kind]

    differences = []
    for name in dict.fromkeys((*old, *new)):
        values = old.get(name), new.get(name)
        if values[0] != values[1]:
            kind = kind_of(name, *values)
            differences.append(Difference(name, kind, *values, allowed(name, kind)))
    return differences
