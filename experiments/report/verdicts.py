"""What our results say to a claim: verdicts, computed from the results files.

Where several data sets or cells speak to a claim: it
*holds* if every one shows it and is significant (p < .05 after Holm, or a 95 % interval without 0),
*does not hold here* if none does, and else *holds partly*. Where nothing speaks to it, it is *not
measured*. Of heat maps, of the patterns of the cross-lingual gains (that they grow, that Japanese
gains least) and of tags only means are compared, without a test: "significant" is left out there,
and the numbers say how many seeds the means are of.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from experiments.records import mean_and_sd
from experiments.report.tables import LEVEL, number_of_seeds, seeds_in_words

Outcome = Literal["holds", "holds partly", "does not hold here", "not measured"]
Records = Mapping[str, Mapping[str, Any]]
Gains = dict[str, dict[int, float]]
"""Pair of languages -> irrelevant documents -> gain."""
RANDOMISATION = "paired randomisation, Holm"
INTERVAL = "95 % bootstrap interval"
NOT_TESTED = "means over seeds, not tested"
NTCIR = "NTCIR-12 formula browsing, 20 topics, 1,198 judged formulas"
GENOME, NO_GENOME = "TagGenome", "needs MovieLens' tag genome, which is not here"
NEARLY = 0.03
NO_HEAT_MAP = "no heat map that has what is compared yet"
LARGEST_SD = 0.009
SMALL_GAIN = 0.02
SUBSTITUTION = ("substitute_variables", "substitute_typed")
"""The paper's Variable Substitution, and that of its code."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What our results say to a claim.

    Attributes:
        outcome: the verdict.
        numbers: that it rests on.
        data: named.
        test: of significance.
    """

    outcome: Outcome
    numbers: Sequence[str] = ()
    data: Sequence[str] = ()
    test: str = ""


Judge = Callable[[Records], Verdict]
"""Results files by name -> what they say to a claim."""


def outcome_of(shown: Iterable[bool]) -> Outcome:
    """The verdict of several cells, each of which shows the claim or does not."""
    shown = list(shown)
    if not shown:
        return "not measured"
    if all(shown):
        return "holds"
    return "holds partly" if any(shown) else "does not hold here"


def not_measured(reason: str) -> Judge:
    """A claim that nothing here can speak to."""
    return lambda _: Verdict("not measured", [reason])


def beats(names: Sequence[str], first: str, second: str) -> Judge:
    """A claim that one system is better than another, in every test of the named results files.

    Args:
        names: of results files with "significance".
        first: how the better system's name begins; a fusion with " + " in it is another system.
        second: the other one's name.
    """

    def judge(records: Records) -> Verdict:
        found = []
        for record in (records[name] for name in names if name in records):
            for row in record["significance"]:
                if _is(row["first"], first) and row["second"] == second:
                    found.append((record["data"], row["first"], row, row["difference"]))
                elif row["first"] == second and _is(row["second"], first):
                    found.append((record["data"], row["second"], row, -row["difference"]))
        if not found:
            return Verdict("not measured", [f"no test of {first} against {second} yet"])
        return Verdict(
            outcome_of(gain > 0 and row["p_holm"] < LEVEL for _, _, row, gain in found),
            [
                f"{short_name(data)}, {name}: {row['measure']} {gain:+.3f}"
                f" (p = {row['p_holm']:.4f})"
                for data, name, row, gain in found
            ],
            list(dict.fromkeys(data for data, *_ in found)),
            RANDOMISATION,
        )

    return judge


def short_name(data: str) -> str:
    """The first word of a description of data."""
    return re.split(r"[ ,]", data, maxsplit=1)[0]


def _is(name: str, start: str) -> bool:
    """Whether a system is one whose name begins so, and no fusion of it with another."""
    return name.startswith(start) and " + " not in name


def similarity(first: str, second: str) -> Judge:
    """A claim that one encoder has a higher Spearman correlation, on all pairs and on ours."""

    def judge(records: Records) -> Verdict:
        record = records.get("mathsim_zbmath")
        if record is None:
            return Verdict("not measured", ["no results yet"])
        rows = [
            (name, row)
            for name, comparison in record["comparisons"].items()
            for row in comparison["differences"]
            if (row["first"], row["second"], row["measure"]) == (first, second, "Spearman")
        ]
        numbers = [
            f"{name}: Spearman {row['difference']:+.3f}"
            f" ({row['interval_95'][0]:+.3f} to {row['interval_95'][1]:+.3f})"
            for name, row in rows
        ]
        shown = outcome_of(row["interval_95"][0] > 0 for _, row in rows)
        return Verdict(shown, numbers, [record["data"]], INTERVAL)

    return judge


def _heat_maps(records: Records) -> Iterable[Mapping[str, Any]]:
    return (record for record in records.values() if "means" in record)


def best_augmentation(layout: str, measure: str, *, at_every_size: bool) -> Judge:
    """A claim that Variable Substitution is the best augmentation of a heat map.

    It is `SUBSTITUTION`; consistent renaming, which is ours, is among the others. Means are
    compared, without a test.

    Args:
        layout: of the heat map.
        measure: "partial" or "full".
        at_every_size: whether it is best at each of several batch sizes; else its best score over
            all sizes is compared with the others' best.
    """

    def judge(records: Records) -> Verdict:
        shown, numbers = [], []
        for record in _heat_maps(records):
            of = record["means"].get(layout, {})
            sizes = _sizes(of)
            too_few = at_every_size and len(sizes) < 2
            if too_few or not 0 < sum(name in SUBSTITUTION for name in of) < len(of):
                continue
            for columns in [[size] for size in sizes] if at_every_size else [sizes]:
                best = {
                    name: max(
                        (cells[size]["all"][measure] for size in columns), key=lambda c: c["mean"]
                    )
                    for name, cells in of.items()
                }
                ranked = sorted(best, key=lambda name: best[name]["mean"], reverse=True)
                ours = next(name for name in ranked if name in SUBSTITUTION)
                other = next(name for name in ranked if name not in SUBSTITUTION)
                shown.append(best[ours]["mean"] > best[other]["mean"])
                numbers.append(
                    f"{'best of ' * (len(columns) > 1)}batch {', '.join(columns)}:"
                    f" {ours} {mean_and_sd(best[ours])}, {other} {mean_and_sd(best[other])}"
                )
            numbers.append(_untested(record))
        if not shown:
            return Verdict("not measured", [NO_HEAT_MAP])
        return Verdict(outcome_of(shown), numbers, [NTCIR], NOT_TESTED)

    return judge


def _sizes(of: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Batch sizes of a heat map's rows, the smallest first."""
    return sorted(next(iter(of.values()), {}), key=int)


def _untested(record: Mapping[str, Any]) -> str:
    return f"{seeds_in_words(record)}, no test"


def is_stable(records: Records) -> Verdict:
    """The claim that standard deviations over seeds are at most .009; of two seeds or more."""
    maps = [record for record in _heat_maps(records) if number_of_seeds(record) > 1]
    spreads = [sd for record in maps for sd in _deviations(record)]
    if not spreads:
        return Verdict("not measured", ["no heat maps of two seeds or more yet"])
    small = [sd <= LARGEST_SD for sd in spreads]
    numbers = [
        f"{sum(small)} of {len(small)} deviations are at most {LARGEST_SD}, the largest is"
        f" {max(spreads):.3f}",
        *map(_untested, maps),
    ]
    return Verdict(outcome_of(small), numbers, [NTCIR], NOT_TESTED)


def gains_little_from_batches(records: Records) -> Verdict:
    """The claim that the largest batch is hardly better than the smallest; means, no test."""
    gains, seeds = [], []
    for record in _heat_maps(records):
        for of_layout in record["means"].values():
            sizes = _sizes(of_layout)
            if len(sizes) > 1:
                ends = ((of[sizes[0]]["all"], of[sizes[-1]]["all"]) for of in of_layout.values())
                gains += [last[m]["mean"] - first[m]["mean"] for first, last in ends for m in last]
        seeds.append(_untested(record))
    if not gains:
        return Verdict("not measured", [NO_HEAT_MAP])
    number = f"from the smallest to the largest batch {min(gains):+.3f} to {max(gains):+.3f}"
    return Verdict(outcome_of(g < SMALL_GAIN for g in gains), [number, *seeds], [NTCIR], NOT_TESTED)


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
            gains.setdefault(pair, {})[int(difficulty)] = row["difference"]
    return gains


def _of_ltr(records: Records, show: Callable[[Gains], list[bool]]) -> Verdict:
    record = records.get("ltr_debian_clir")
    if record is None:
        return Verdict("not measured", ["no results yet"])
    gains = ltr_gains(record)
    numbers = [
        f"{pair}: " + ", ".join(f"{gain:+.3f} of {level}" for level, gain in sorted(of.items()))
        for pair, of in gains.items()
    ]
    numbers.append(_untested(record))
    return Verdict(outcome_of(show(gains)), numbers, [record["data"]], NOT_TESTED)


def gain_grows(records: Records) -> Verdict:
    """The claim that categories gain more where there are more irrelevant documents."""

    def show(gains: Gains) -> list[bool]:
        return [of[max(of)] > of[min(of)] for of in gains.values() if len(of) > 1]

    return _of_ltr(records, show)


def gain_is_smallest_for_japanese(records: Records) -> Verdict:
    """The claim that categories gain least for Japanese, by the mean over difficulties."""

    def show(gains: Gains) -> list[bool]:
        means = {pair: sum(of.values()) / len(of) for pair, of in gains.items()}
        japanese = means.pop("en-ja", None)
        return [] if japanese is None else [japanese < other for other in means.values()]

    return _of_ltr(records, show)


def _tags(records: Records) -> Mapping[str, Any] | None:
    return next((record for record in records.values() if "open_training_tags" in record), None)


def beats_genome(records: Records) -> Verdict:
    """The claim that fine-tuned Full and Hybrid predict tags better than the TagGenome, by MAP.

    The results name a system by its run, whose configuration says which model it is.
    """
    record = _tags(records)
    if record is None or GENOME not in record["closed"]:
        return Verdict("not measured", [NO_GENOME])
    threshold = next(iter(record["closed"][GENOME]))
    kinds = {name: config["model"]["kind"] for name, config in record["configs"].items()}
    values = {
        name: of[threshold]["test"]["MAP"]
        for name, of in record["closed"].items()
        if threshold in of and (name == GENOME or kinds.get(name) in ("full", "hybrid"))
    }
    genome = values.pop(GENOME)
    shown = outcome_of(value["mean"] > genome["mean"] for value in values.values())
    numbers = [f"{name}: MAP {mean_and_sd(value)}" for name, value in values.items()]
    numbers += [f"{GENOME}: MAP {mean_and_sd(genome)}", _untested(record)]
    return Verdict(shown, numbers, [record["data"]], NOT_TESTED)


def needs_few_tags(records: Records) -> Verdict:
    """The claim that models trained on the fewest tags come within .03 AUC of those of all."""
    record = _tags(records)
    numbers_of_tags = sorted(int(key) for key in (record or {}).get("open", {}) if key != "all")
    if record is None or not numbers_of_tags:
        return Verdict("not measured", ["no results of tag prediction yet"])
    few, shown, numbers = str(numbers_of_tags[0]), [], []
    for name, of in record["open"][few].items():
        threshold = next(iter(of))
        auc, whole = (
            tags[threshold]["test"]["AUC"]["mean"] for tags in (of, record["open"]["all"][name])
        )
        shown.append(whole - auc < NEARLY)
        numbers.append(f"{name}: AUC {auc:.3f} with {few} tags, {whole:.3f} with all")
    numbers.append(_untested(record))
    return Verdict(outcome_of(shown), numbers, [record["data"]], NOT_TESTED)
