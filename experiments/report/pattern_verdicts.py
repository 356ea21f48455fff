"""Verdicts on patterns: of heat maps, and of the cross-lingual gains by difficulty and language."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import NormalDist, fmean
from typing import Any, NamedTuple

from experiments.report.tables import LEVEL, number_of_seeds, readable, seeds_in_words
from experiments.report.verdicts import (
    RANDOMISATION,
    Judge,
    Records,
    Verdict,
    not_tested,
    outcome_of,
    significance_of,
)
from retrieval_jax.significance import holm

NTCIR = "NTCIR-12 formula browsing, 20 topics, 1,198 judged formulas"
NO_HEAT_MAP = "no heat map that has what is compared yet"
LARGEST_SD = 0.009
SMALL_GAIN = 0.02
OVER_QUERIES = "normal test of 95 % bootstrap intervals over queries, taken as independent, Holm"
Z_95 = NormalDist().inv_cdf(0.975)


class Gain(NamedTuple):
    """What categories gain: the mean over queries, and its standard error."""

    mean: float
    error: float


Gains = dict[str, dict[int, Gain]]
"""Pair of languages -> irrelevant documents -> gain."""


def _heat_maps(records: Records) -> Iterable[Mapping[str, Any]]:
    return (record for record in records.values() if "means" in record)


def best_augmentation(layout: str, measure: str, *, at_every_size: bool) -> Judge:
    """A claim that Variable Substitution is the best augmentation of a heat map.

    It is shown by every other augmentation that is significantly worse. Consistent renaming, which
    is ours, is among the others.

    Args:
        layout: of the heat map.
        measure: "partial" or "full".
        at_every_size: whether it is best at each of several batch sizes; else all augmentations are
            compared at the batch size that is best for each on the odd topics.
    """

    def judge(records: Records) -> Verdict:
        numbers, shown, gains, significant, topics = [], [], [], [], set()
        for record in _heat_maps(records):
            tests = [
                row
                for row in record.get("significance", [])
                if (row["layout"], row["measure"]) == (layout, measure)
            ]
            sizes = _sizes(record["means"].get(layout, {}))
            if at_every_size and len(sizes) < 2:
                continue
            for at in sizes if at_every_size else ["best"]:
                rows = [row for row in tests if row["at"] == at]
                better = [row["difference"] > 0 and row["p_holm"] < LEVEL for row in rows]
                shown += better
                gains += [row["difference"] for row in rows]
                significant += [row["p_holm"] < LEVEL for row in rows]
                topics |= {_topics_of(row) for row in rows}
                if rows:
                    nearest = min(rows, key=lambda row: row["difference"])
                    numbers.append(
                        f"{readable(nearest['first'])}: significantly better than {sum(better)} of"
                        f" {len(rows)} others; against {readable(nearest['second'])}"
                        f" {nearest['difference']:+.3f} (p = {nearest['p_holm']:.4f})"
                    )
            if tests:
                numbers.append(seeds_in_words(record))
        if not shown:
            return Verdict("not measured", [NO_HEAT_MAP])
        over = " and ".join(sorted(topics))
        how = f"{RANDOMISATION}, over {over}, means over seeds"
        test = significance_of(gains, significant, how)
        return Verdict(outcome_of(shown), numbers, [NTCIR], test)

    return judge


def _topics_of(row: Mapping[str, Any]) -> str:
    """Over which topics a row was tested, in words."""
    part = "" if row["topics"] == "all" else f"{row['topics']} "
    return f"{row['queries']} {part}topics"


def _sizes(of: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Batch sizes of a heat map's rows, the smallest first."""
    return sorted(next(iter(of.values()), {}), key=int)


def is_stable(records: Records) -> Verdict:
    """The claim that standard deviations over seeds are at most .009; of two seeds or more."""
    maps = [record for record in _heat_maps(records) if number_of_seeds(record) > 1]
    spreads = [sd for record in maps for sd in _deviations(record)]
    if not spreads:
        return Verdict("not measured", ["no heat maps of two seeds or more yet"])
    small = [sd <= LARGEST_SD for sd in spreads]
    number = (
        f"{sum(small)} of {len(small)} deviations are at most {LARGEST_SD}, the largest is"
        f" {max(spreads):.3f}"
    )
    test = "; ".join(not_tested(of, "deviations are described, not compared") for of in maps)
    return Verdict(outcome_of(small), [number], [NTCIR], test)


def gains_little_from_batches(records: Records) -> Verdict:
    """The claim that the largest batch is hardly better than the smallest: by less than .02.

    It is shown by an augmentation whose 95 % interval of the gain ends below that.
    """
    rows = [
        row
        for record in _heat_maps(records)
        for row in record.get("significance", [])
        if row["at"] == "batch sizes"
    ]
    if not rows:
        return Verdict("not measured", [NO_HEAT_MAP])
    gains, ends = [row["difference"] for row in rows], [row["interval_95"][1] for row in rows]
    numbers = [
        f"from the smallest to the largest batch {min(gains):+.3f} to {max(gains):+.3f}",
        f"the intervals of the gains end at {min(ends):+.3f} to {max(ends):+.3f}",
        *map(seeds_in_words, _heat_maps(records)),
    ]
    below = [end < SMALL_GAIN for end in ends]
    test = f"{sum(below)} of {len(below)} bootstrap intervals over topics end below {SMALL_GAIN}"
    return Verdict(outcome_of(below), numbers, [NTCIR], test)


def _deviations(record: Mapping[str, Any]) -> Iterable[float]:
    for of_layout in record["means"].values():
        for of in of_layout.values():
            for topics in of.values():
                yield from (cell["sd"] for cell in topics["all"].values())


def ltr_gains(record: Mapping[str, Any]) -> Gains:
    """Pair of languages -> irrelevant documents -> gain of text+meta over text."""
    gains: Gains = {}
    for row in record["significance"]:
        if (row["first"], row["second"]) == ("text+meta", "text"):
            pair, difficulty = row["measure"].split()
            low, high = row["interval_95"]
            gain = Gain(row["difference"], (high - low) / (2 * Z_95))
            gains.setdefault(pair, {})[int(difficulty)] = gain
    return gains


def difference_of_gains(first: Gain, second: Gain) -> tuple[float, float]:
    """First - second, and its p-value if the two are independent.

    Gains that share their queries mostly go together; for these it is cautious.
    """
    difference = first.mean - second.mean
    error = math.hypot(first.error, second.error)
    z = abs(difference) / error if error else (math.inf if difference else 0.0)
    return difference, 2 * (1 - NormalDist().cdf(z))


def _of_ltr(
    records: Records, compare: Callable[[Gains], Mapping[str, tuple[Gain, Gain]]]
) -> Verdict:
    """A claim that some gains are larger than others: name -> the larger, the smaller."""
    record = records.get("ltr_debian_clir")
    if record is None:
        return Verdict("not measured", ["no results yet"])
    gains = ltr_gains(record)
    numbers = [
        f"{pair}: " + ", ".join(f"{of[level].mean:+.3f} of {level}" for level in sorted(of))
        for pair, of in gains.items()
    ]
    tests = {name: difference_of_gains(*of) for name, of in compare(gains).items()}
    adjusted = holm([p for _, p in tests.values()])
    significant = [p < LEVEL for p in adjusted]
    shown = []
    for (name, (difference, _)), p in zip(tests.items(), adjusted, strict=True):
        shown.append(difference > 0 and p < LEVEL)
        numbers.append(f"{name} {difference:+.3f} (p = {p:.4f})")
    if not shown:
        return Verdict("not measured", numbers)
    test = significance_of([gain for gain, _ in tests.values()], significant, OVER_QUERIES)
    return Verdict(outcome_of(shown), numbers, [record["data"]], test)


def gain_grows(records: Records) -> Verdict:
    """The claim that categories gain more where there are more irrelevant documents."""

    def compare(gains: Gains) -> dict[str, tuple[Gain, Gain]]:
        return {
            f"{pair}, {max(of)} - {min(of)}:": (of[max(of)], of[min(of)])
            for pair, of in gains.items()
            if len(of) > 1
        }

    return _of_ltr(records, compare)


def gain_is_smallest_for_japanese(records: Records) -> Verdict:
    """The claim that categories gain least for Japanese, by the mean over difficulties."""

    def compare(gains: Gains) -> dict[str, tuple[Gain, Gain]]:
        means = {pair: mean_gain(list(of.values())) for pair, of in gains.items()}
        japanese = means.pop("en-ja", None)
        if japanese is None:
            return {}
        return {f"mean of {pair} - mean of en-ja": (of, japanese) for pair, of in means.items()}

    return _of_ltr(records, compare)


def mean_gain(gains: Sequence[Gain]) -> Gain:
    """The mean of gains of the same queries, its error as if they moved together: the largest."""
    return Gain(fmean(gain.mean for gain in gains), fmean(gain.error for gain in gains))
