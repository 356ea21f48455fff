"""Systems of tag prediction side by side: fine-tuned on each split, measured, tabulated.

A system gives, for a split, the scores of its dev and test films and tags. Whatever is chosen
(hyper-parameters, steps, the weight of a fusion) is chosen on dev.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from docent_jax.tag_baselines import top_tags_scores
from docent_jax.tag_evaluation import (
    Protocol,
    TagMeasures,
    TagSplit,
    counts,
    limit_films,
    measure_split,
)
from docent_jax.tag_runs import TagRun
from docent_jax.tag_task import TagTuningConfig, fine_tune
from experiments.fusion import best_weight
from experiments.records import differences, mean_and_sd, one_family, summarise_measures
from retrieval_jax.config import to_dict
from retrieval_jax.kept import content_name, keep
from retrieval_jax.logs import result_console

PARTS = ("dev", "test")
BEST = "best.json"
# "dev" and "test" -> scores `[films, tags]`.
Scores = dict[str, np.ndarray]
System = Callable[[TagSplit], Scores]


def fixed(scores: np.ndarray) -> System:
    """A system that is not trained, by its scores `[all films, all tags]`."""
    return lambda split: {part: split.part(part, scores) for part in PARTS}


def top_tags(votes: np.ndarray) -> System:
    """MovieLens top tags, counted on the training films of the split."""

    def system(split: TagSplit) -> Scores:
        scores = top_tags_scores(votes[split.train_films], len(votes))
        return {part: split.part(part, scores) for part in PARTS}

    return system


@dataclasses.dataclass(frozen=True, eq=False)
class FineTuned:
    """A pre-trained run that is fine-tuned on each split.

    What is kept of a fine-tuned model is its scores: optimizer states of all splits and settings
    would be gigabytes.

    Attributes:
        run: where to start.
        folder: for the scores.
        votes: `[all films, all tags]`, trained on.
        truth: `[truths, all films, all tags]`, measured against.
        threshold: T on dev.
        candidates: settings; each split takes the best on its own dev.
        dev_films: measure on so many dev films at most while training.
    """

    run: TagRun
    folder: Path
    votes: np.ndarray
    truth: np.ndarray
    threshold: int
    candidates: Sequence[TagTuningConfig]
    dev_films: int | None = None

    def __call__(self, split: TagSplit) -> Scores:
        """Scores of the fine-tuned model."""
        tuned = self._tuned(split, self.choose(split))
        return {part: np.load(tuned / f"{part}.npy", allow_pickle=False) for part in PARTS}

    def choose(self, split: TagSplit) -> TagTuningConfig:
        """The settings that are best on the split's dev; what was trained before is read."""
        if len(self.candidates) == 1:
            return self.candidates[0]
        bests = [
            json.loads((self._tuned(split, candidate) / BEST).read_text(encoding="utf-8"))
            for candidate in self.candidates
        ]
        return self.candidates[int(np.argmax(bests))]

    def _tuned(self, split: TagSplit, tuning: TagTuningConfig) -> Path:
        """Folder with the scores of a fine-tuned model, and what it reached on dev."""
        fewer = limit_films(split, self.dev_films)

        def dev_measures(scores: np.ndarray) -> dict[str, float]:
            return measure_split(fewer, "dev", scores, self.truth, self.threshold).values

        task = self.run.task(self.votes, fewer, tuning, dev_measures)
        scored = (split.dev_films, split.dev_tags, split.test_films, split.test_tags)
        settings = json.dumps([to_dict(tuning), self.threshold])
        name = content_name([task.fingerprint(), settings, self.truth, *scored])

        def write(folder: Path) -> None:
            rate = tuning.training.optimizer.learning_rate
            print(f"fine-tuning {self.run.path}: {split.name}, learning rate {rate:g}", flush=True)
            params, trained = fine_tune(task, folder / "run")
            best = trained.best[tuning.training.best_measure]
            (folder / BEST).write_text(json.dumps(best), encoding="utf-8")
            task.split = split  # all of its dev films again
            for part in PARTS:
                np.save(folder / f"{part}.npy", task.scores(params, part), allow_pickle=False)
            shutil.rmtree(folder / "run")

        return keep(self.folder, name, write)


def with_rate(tuning: TagTuningConfig, learning_rate: float) -> TagTuningConfig:
    """The same settings at another learning rate."""
    training = tuning.training
    optimizer = dataclasses.replace(training.optimizer, learning_rate=learning_rate)
    return dataclasses.replace(tuning, training=dataclasses.replace(training, optimizer=optimizer))


def fuse(first: Scores, second: Scores, weight: float) -> Scores:
    """Weighted sum of scores, each brought to mean 0 and deviation 1 over all its pairs."""

    def standard(scores: np.ndarray) -> np.ndarray:
        return (scores - scores.mean()) / max(float(scores.std()), 1e-12)

    return {
        part: weight * standard(first[part]) + (1 - weight) * standard(second[part])
        for part in PARTS
    }


def fuse_on_dev(
    first: Scores, second: Scores, split: TagSplit, truth: np.ndarray, threshold: int
) -> Scores:
    """The fusion of two systems at the weight that is best on the split's dev, by MAP."""

    def dev_map(weight: float) -> float:
        fused = fuse(first, second, weight)["dev"]
        return measure_split(split, "dev", fused, truth, threshold).values["MAP"]

    return fuse(first, second, best_weight(dev_map))


def evaluate_split(
    systems: Mapping[str, System],
    fusions: Sequence[tuple[str, str]],
    split: TagSplit,
    truth: np.ndarray,
    thresholds: Sequence[int],
) -> dict[str, dict[int, dict[str, TagMeasures]]]:
    """Measures of systems, and of fusions of two of them, on one split.

    Returns:
        System -> T -> part -> measures.
    """
    scores = {name: system(split) for name, system in systems.items()}
    for first, second in fusions:
        both = scores[first], scores[second]
        scores[f"{first} + {second}"] = fuse_on_dev(*both, split, truth, thresholds[0])
    return {
        name: {
            t: {part: measure_split(split, part, of[part], truth, t) for part in PARTS}
            for t in thresholds
        }
        for name, of in scores.items()
    }


# System -> T -> part -> measures of each split.
Measured = dict[str, dict[int, dict[str, list[TagMeasures]]]]


def evaluate(
    systems: Mapping[str, System],
    fusions: Sequence[tuple[str, str]],
    splits: Sequence[TagSplit],
    truth: np.ndarray,
    thresholds: Sequence[int],
) -> Measured:
    """Measures on several splits; arguments as of `evaluate_split`."""
    rows = [evaluate_split(systems, fusions, split, truth, thresholds) for split in splits]
    return {
        name: {
            t: {part: [row[name][t][part] for row in rows] for part in PARTS} for t in thresholds
        }
        for name in rows[0]
    }


def summaries(measured: Measured) -> dict[str, Any]:
    """System -> "T = 0" -> part -> `summary`, for JSON."""
    return {
        name: {
            f"T = {t}": {part: summary(of_splits) for part, of_splits in parts.items()}
            for t, parts in of.items()
        }
        for name, of in measured.items()
    }


def significance(
    tasks: Mapping[str, Measured], pairs: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Paired randomisation tests of average precisions of test films.

    One family for Holm: all pairs on all tasks and T, but those with a single film.

    Args:
        tasks: name -> what was measured.
        pairs: (first, second) of systems.
    """
    rows = []
    for task, measured in tasks.items():
        for t in next(iter(measured.values())):
            values = {name: _film_precisions(of[t]["test"]) for name, of in measured.items()}
            if len(next(iter(values.values()))) > 1:
                rows += differences(values, pairs, f"MAP, {task}, T = {t}")
    return one_family(rows)


def _film_precisions(measures: Sequence[TagMeasures]) -> np.ndarray:
    """Average precisions of the films of all splits that have a positive."""
    values = np.concatenate([m.film_precisions for m in measures])
    return values[np.isfinite(values)]


def summary(measures: Sequence[TagMeasures]) -> dict[str, Any]:
    """Mean and standard deviation over splits, and mean curves, for JSON."""
    return {
        **summarise_measures([m.values for m in measures]),
        "precision_at_k": np.mean([m.precision for m in measures], axis=0).tolist(),
        "ndcg_at_k": np.mean([m.ndcg for m in measures], axis=0).tolist(),
    }


def all_counts(protocol: Protocol, votes: np.ndarray) -> list[dict[str, Any]]:
    """What each part of each split holds, by T."""
    return [
        {"split": split.name, "part": part, "T": threshold, **counts(split, part, votes, threshold)}
        for split in (*protocol.closed, protocol.open)
        for part in ("train", *PARTS)
        for threshold in protocol.thresholds
    ]


def print_counts(rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints the counts of all splits."""
    table = Table(title="What the splits hold")
    for name in rows[0]:
        table.add_column(name, justify="left" if name in ("split", "part") else "right")
    for row in rows:
        table.add_row(*(f"{v:,}" if isinstance(v, int) else v for v in row.values()))
    result_console().print(table)


def print_results(title: str, systems: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Prints the measures of one task, test and dev: system -> "T = 0" -> part -> summary."""
    names = ("MAP", "AUC", "P@10", "NDCG@10")
    for threshold in next(iter(systems.values())):
        table = Table(title=f"{title}, {threshold}")
        table.add_column("system")
        for part in ("test", "dev"):
            for name in names:
                table.add_column(f"{part}\n{name}", justify="right", no_wrap=True)
        for system, of in systems.items():
            if threshold not in of:
                continue
            cells = [of[threshold][part][name] for part in ("test", "dev") for name in names]
            table.add_row(system, *map(mean_and_sd, cells))
        result_console().print(table)
