"""What our results say to a claim: verdicts, computed from the results files.

Where several data sets or cells speak to a claim: it *holds* if every one shows it, *does not hold
here* if none does, and else *holds partly*. Where nothing speaks to it, it is *not measured*. Only
a significant difference shows a claim: p < .05 after Holm, or a 95 % interval without 0. Where the
results allow no test, means decide alone, and the verdict says why there is none.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from experiments.records import mean_and_sd
from experiments.report.tables import LEVEL, seeds_in_words

Outcome = Literal["holds", "holds partly", "does not hold here", "not measured"]
Records = Mapping[str, Mapping[str, Any]]
RANDOMISATION = "paired randomisation, Holm"
INTERVAL = "95 % bootstrap interval"
GENOME, NO_GENOME = "TagGenome", "needs MovieLens' tag genome, which is not here"
NEARLY = 0.03


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What our results say to a claim.

    Attributes:
        outcome: the verdict.
        numbers: that it rests on.
        data: named.
        test: how many of the differences are significant, by which test; or why there is none.
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


def significance_of(gains: Sequence[float], significant: Sequence[bool], test: str) -> str:
    """Says how many gains, and how many losses, are significant by which test."""
    better = sum(gain > 0 for gain, is_ in zip(gains, significant, strict=True) if is_)
    worse = sum(significant) - better
    if worse:
        return f"{better} of {len(gains)} significantly better, {worse} significantly worse: {test}"
    if better in (0, len(gains)):
        return f"{'' if better else 'not '}significant: {test}"
    return f"{better} of {len(gains)} significant: {test}"


def not_tested(record: Mapping[str, Any], reason: str) -> str:
    """Says why there is no test, and of how many seeds the means are."""
    return f"not tested: {reason}; {seeds_in_words(record)}"


def not_measured(reason: str) -> Judge:
    """A claim that nothing here can speak to."""
    return lambda _: Verdict("not measured", [reason])


def beats(names: Sequence[str], first: str | tuple[str, ...], second: str) -> Judge:
    """A claim that one system is better than another, in every test of the named results files.

    Args:
        names: of results files with "significance".
        first: how the better system's name begins, or how those of several do.
        second: the other one's name.
    """

    def judge(records: Records) -> Verdict:
        found = []
        known = [name for name in names if name in records]
        for file in known:
            for row in records[file]["significance"]:
                if _is(row["first"], first) and row["second"] == second:
                    found.append((file, row["first"], row, row["difference"]))
                elif row["first"] == second and _is(row["second"], first):
                    found.append((file, row["second"], row, -row["difference"]))
        if not found:
            tested = first if isinstance(first, str) else " or ".join(first)
            return Verdict("not measured", [f"no test of {tested} against {second} yet"])
        return Verdict(
            outcome_of(gain > 0 and row["p_holm"] < LEVEL for _, _, row, gain in found),
            [
                f"{of_data(file)}, {name}: {row['measure']} {gain:+.3f} (p = {row['p_holm']:.4f})"
                for file, name, row, gain in found
            ],
            list(dict.fromkeys(records[file]["data"] for file, *_ in found)),
            significance_of(
                [gain for *_, gain in found],
                [row["p_holm"] < LEVEL for _, _, row, _ in found],
                RANDOMISATION,
            ),
        )

    return judge


def of_data(file: str) -> str:
    """The data in the name of a results file, which begins with the paper."""
    return file.partition("_")[2]


def _is(name: str, start: str | tuple[str, ...]) -> bool:
    """Whether a system's name begins so, and it is no fusion ("A + B") or variant ("A, frozen")."""
    return name.startswith(start) and " + " not in name and ", " not in name


def similarity(first: str, second: str) -> Judge:
    """A claim that one encoder has a higher Spearman correlation, on each set of test pairs."""

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
        intervals = [row["interval_95"] for _, row in rows]
        shown = outcome_of(low > 0 for low, _ in intervals)
        significant = [low > 0 or high < 0 for low, high in intervals]
        gains = [row["difference"] for _, row in rows]
        tested = significance_of(gains, significant, INTERVAL)
        return Verdict(shown, numbers, [record["data"]], tested)

    return judge


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
    if not values:
        return Verdict("not measured", ["neither Full nor Hybrid is among the results"])
    numbers = [f"{name}: MAP {mean_and_sd(value)}" for name, value in values.items()]
    numbers.append(f"{GENOME}: MAP {mean_and_sd(genome)}")
    tests = {
        row["first"]: row
        for row in record.get("significance", [])
        if row["second"] == GENOME and row["measure"] == f"MAP, closed, {threshold}"
    }
    if not values.keys() <= tests.keys():
        test = not_tested(record, f"the results hold no test against the {GENOME}")
        shown = [value["mean"] > genome["mean"] for value in values.values()]
        return Verdict(outcome_of(shown), numbers, [record["data"]], test)
    rows = [tests[name] for name in values]
    numbers += [f"{r['first']}: {r['difference']:+.3f} (p = {r['p_holm']:.4f})" for r in rows]
    gains = [row["difference"] for row in rows]
    significant = [row["p_holm"] < LEVEL for row in rows]
    shown = outcome_of(gain > 0 and is_ for gain, is_ in zip(gains, significant, strict=True))
    test = significance_of(gains, significant, f"{RANDOMISATION}, over films")
    return Verdict(shown, numbers, [record["data"]], test)


def needs_few_tags(records: Records) -> Verdict:
    """The claim that models come within .03 AUC of those of all training tags, with any part."""
    record = _tags(records)
    parts = sorted(int(key) for key in (record or {}).get("open", {}) if key != "all")
    if record is None or not parts:
        return Verdict("not measured", ["no results of tag prediction yet"])
    shown, numbers = [], []
    for name in (name for name in record["configs"] if name in record["open"]["all"]):
        threshold = next(iter(record["open"]["all"][name]))
        whole, *fewer = (
            record["open"][key][name][threshold]["test"]["AUC"]["mean"]
            for key in ("all", *map(str, parts))
        )
        shown += [whole - auc < NEARLY for auc in fewer]
        of_parts = ", ".join(f"{a:.3f} of {n}" for n, a in zip(parts, fewer, strict=True))
        numbers.append(f"{name}: AUC {of_parts} tags, {whole:.3f} of all")
    test = not_tested(record, "the results are of one split of the tags")
    return Verdict(outcome_of(shown), numbers, [record["data"]], test)
