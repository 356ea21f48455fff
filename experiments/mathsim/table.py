"""What adaptation and fine-tuning are worth: our encoders on the test pairs.

COMMAND   python -m experiments.mathsim.table --results experiments/results/mathsim_zbmath.json
TIME      about 4 minutes for 12 encoders
HARDWARE  2 CPU cores
SCORE     experiments/results/mathsim_zbmath.json

Pairs of zbMATH abstracts of 60 seeds, tested once. German second texts are nearly all negatives, so
language alone tells much; measures without them stand beside. All encoders get the same texts: cut
to as many word pieces, and without prompts, whatever their folders say. The report has
published rows beside ours; they are of other data (title pairs, not public) and of larger encoders:
the order may be compared, the numbers may not.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.table import Table

from experiments.records import make_record, mean_and_sd, summarise_measures, write_record
from experiments.report.tables import BEST_ACCURACY, reading_in_words
from mathsim_jax import SentenceEncoder
from mathsim_jax.adaptation import MAX_LENGTH, PACKAGE
from mathsim_jax.datasets.math_text import data_folder, german_pairs, read_abstract_pairs
from mathsim_jax.datasets.pairs import Pairs
from mathsim_jax.evaluation import (
    PAIR_MEASURES,
    RETRIEVAL_MEASURES,
    bootstrap_groups,
    cosines,
    pair_measures,
    percentile_interval,
    retrieval_measures,
)
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries, result_console
from retrieval_jax.pretrained import DEFAULT_ENCODER, find_encoder
from retrieval_jax.runs import RunFolder

UNTOUCHED, ADAPTED = "untouched", "adapted"
TUNED, BOTH = "fine-tuned", "adapted and fine-tuned"
COMPARED = ((TUNED, UNTOUCHED), (BOTH, UNTOUCHED), (ADAPTED, UNTOUCHED), (BOTH, TUNED))
INTERVALS = ("Spearman", "AP")


@dataclasses.dataclass(frozen=True)
class Command:
    """Which encoders to compare.

    Attributes:
        untouched: the encoder that all start from: folder, package or hub name.
        adapted: folder of the adapted encoder.
        finetuned: folder of experiments.mathsim.finetune from the untouched encoder.
        adapted_finetuned: the same from the adapted one.
        folder: `math_text`; by default in the folder that RETRIEVAL_DATA names.
        results: JSON file to write.
        resamples: of the bootstrap.
        max_length: word pieces at which texts are cut, the same for all encoders.
    """

    untouched: str = DEFAULT_ENCODER
    adapted: Path = Path("runs/mathsim/adapted/encoder")
    finetuned: Path = Path("runs/mathsim/finetuned")
    adapted_finetuned: Path = Path("runs/mathsim/adapted_finetuned")
    folder: Path | None = None
    results: Path | None = None
    resamples: int = 1000
    max_length: int = MAX_LENGTH


def encoder_folders(command: Command) -> dict[str, list[Path]]:
    """System -> folders of its encoders, one a seed.

    Raises:
        InputError: a folder that is not there.
    """

    def seeds(run: Path) -> list[Path]:
        folders = sorted(run.glob("seed_*/encoder"))
        if not folders:
            raise InputError(
                f"{run} holds no seed_0/encoder",
                "Run experiments.mathsim.finetune with that --run.",
            )
        return folders

    if not command.adapted.is_dir():
        raise InputError(f"no such folder: {command.adapted}", "Run experiments.mathsim.adapt.")
    return {
        UNTOUCHED: [find_encoder(command.untouched)],
        ADAPTED: [command.adapted],
        TUNED: seeds(command.finetuned),
        BOTH: seeds(command.adapted_finetuned),
    }


def seeds_of(folders: Mapping[str, list[Path]]) -> list[int]:
    """Random seeds of the fine-tuned encoders, by the names of their run folders."""
    runs = (folder.parent.name for name in (TUNED, BOTH) for folder in folders[name])
    return sorted({int(name.removeprefix("seed_")) for name in runs})


def run_configs(folders: Mapping[str, list[Path]]) -> dict[str, Any]:
    """System -> configuration of the run that made its first encoder, where a run did."""
    runs = {name: RunFolder(of_seeds[0].parent, PACKAGE) for name, of_seeds in folders.items()}
    return {
        name: run.read_json("config.json")["config"]
        for name, run in runs.items()
        if name != UNTOUCHED and (run.path / "config.json").is_file()
    }


def score_all(
    folders: Mapping[str, list[Path]], pairs: Pairs, max_length: int
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
    """Scores pairs by all encoders, which get the same texts whatever their folders say.

    Args:
        folders: system -> folders of its encoders, one a seed.
        pairs: to score.
        max_length: word pieces at which texts are cut.

    Returns:
        System -> cosines `[seeds, pairs]`, and system -> setting -> how its encoders turn a text
        into a vector, apart from their weights.

    Raises:
        InputError: as `SentenceEncoder.from_pretrained`.
    """
    scores, readings = {}, {}
    for name, of_seeds in folders.items():
        rows = []
        for folder in of_seeds:
            encoder = SentenceEncoder.from_pretrained(folder, max_length=max_length)
            rows.append(score(encoder, pairs))
            readings[name] = {
                "max_length": encoder.max_length,
                "prompt": None,
                "lower_case": encoder.modules.lower_case,
                "pooling": encoder.modules.pooling,
            }
        scores[name] = np.stack(rows)
    return scores, readings


def score(encoder: SentenceEncoder, pairs: Pairs) -> np.ndarray:
    """Cosine of each pair without prompts, `[pairs]`; each distinct text is encoded once."""
    texts = pairs.texts
    vectors = encoder.encode(list(texts), prompt="")
    row = dict(zip(texts, vectors, strict=True))
    first, second = (np.stack([row[text] for text in part]) for part in (pairs.first, pairs.second))
    return cosines(first, second)


def compare(
    systems: Mapping[str, np.ndarray], pairs: Pairs, resamples: int = 1000
) -> dict[str, Any]:
    """Measures and intervals of systems on the same pairs.

    Args:
        systems: name -> scores `[seeds, pairs]`.
        pairs: tested.
        resamples: of the bootstrap over groups.

    Returns:
        "systems": name -> measure -> mean and sd over seeds, and the interval of some; and
        "differences" of those in `COMPARED` that are there.
    """
    resampled = bootstrap_groups(systems, pairs.labels, pairs.groups, INTERVALS, resamples)
    summaries = {}
    for name, scores in systems.items():
        runs = [
            pair_measures(row, pairs.labels) | retrieval_measures(pairs, row).mean for row in scores
        ]
        of_system: dict[str, dict[str, Any]] = {**summarise_measures(runs)}
        for measure in INTERVALS:
            interval = percentile_interval(resampled[name][measure])
            of_system[measure]["interval_95"] = interval
        summaries[name] = of_system
    differences = [
        {
            "first": first,
            "second": second,
            "measure": measure,
            "difference": summaries[first][measure]["mean"] - summaries[second][measure]["mean"],
            "interval_95": percentile_interval(
                resampled[first][measure] - resampled[second][measure]
            ),
        }
        for first, second in COMPARED
        if first in systems and second in systems
        for measure in INTERVALS
    ]
    return {"pairs": pairs.summary, "systems": summaries, "differences": differences}


def print_results(results: Mapping[str, Any]) -> None:
    """Prints a table for each set of test pairs, with the differences below."""
    console = result_console()
    console.print(reading_in_words(results["reading"]), highlight=False, soft_wrap=True)
    for name, comparison in results["comparisons"].items():
        table = Table(title=f"{name}: {comparison['pairs']}")
        table.add_column("encoder")
        measures = (*PAIR_MEASURES, *RETRIEVAL_MEASURES)
        for measure in measures:
            table.add_column(measure, justify="right", no_wrap=True)
        for system, row in comparison["systems"].items():
            table.add_row(system, *(mean_and_sd(row[measure]) for measure in measures))
        console.print(table)
        for row in comparison["differences"]:
            low, high = row["interval_95"]
            console.print(
                f"{row['measure']}: {row['first']} - {row['second']} = {row['difference']:+.3f}"
                f" (95 % interval {low:+.3f} to {high:+.3f})",
                highlight=False,
                soft_wrap=True,
            )
    console.print(BEST_ACCURACY, highlight=False, soft_wrap=True)


@one_screen_errors
def main() -> None:
    """Compares as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.mathsim.table")
    quiet_libraries()
    pairs = read_abstract_pairs(data_folder(command.folder), "test")
    folders = encoder_folders(command)
    scores, readings = score_all(folders, pairs, command.max_length)
    kept = ~german_pairs(pairs)
    without = {name: rows[:, kept] for name, rows in scores.items()}
    found = {
        "encoder": command.untouched,
        "encoders": {name: len(of_seeds) for name, of_seeds in folders.items()},
        "reading": readings,
        "comparisons": {
            "all pairs": compare(scores, pairs, command.resamples),
            "without German": compare(without, pairs.take(kept), command.resamples),
        },
    }
    seeds, data = seeds_of(folders), f"zbMATH abstracts, {pairs.summary}"
    configs = run_configs(folders)
    results = make_record("mathsim similarity", data, configs, seeds, pairs.fingerprint, found)
    print_results(results)
    write_record(command.results, results)


if __name__ == "__main__":
    main()
