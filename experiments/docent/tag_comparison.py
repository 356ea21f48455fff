"""Systems of tag prediction side by side: fine-tuned on each split, measured, tabulated.

A system gives, for a split, the scores of its dev and test films and tags. Whatever is chosen
(hyper-parameters, steps, the weight of a fusion) is chosen on dev.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from docent_jax.tag_baselines import top_tags_scores
from docent_jax.tag_evaluation import Protocol, TagMeasures, TagSplit, counts, measure_split
from docent_jax.tag_runs import TagRun
from docent_jax.tag_task import TagTuningConfig, fine_tune
from experiments.records import mean_and_sd, summarise_measures

PARTS = ("dev", "test")
FUSION_WEIGHTS = tuple(round(0.1 * i, 1) for i in range(1, 10))
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

    Attributes:
        run: where to start.
        folder: for the runs of fine-tuning.
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
        task, params, _ = self._tuned(split, self.choose(split))
        task.split = split  # all of its dev films again
        return {part: task.scores(params, part) for part in PARTS}

    def choose(self, split: TagSplit) -> TagTuningConfig:
        """The settings that are best on the split's dev; what is trained already is read."""
        if len(self.candidates) == 1:
            return self.candidates[0]
        bests = [self._tuned(split, candidate)[2] for candidate in self.candidates]
        return self.candidates[int(np.argmax(bests))]

    def _tuned(self, split: TagSplit, tuning: TagTuningConfig):
        # A random part: films are sorted by their number, hence by age.
        shuffled = np.random.default_rng(0).permutation(split.dev_films)
        fewer = dataclasses.replace(split, dev_films=np.sort(shuffled[: self.dev_films]))

        def dev_measures(scores: np.ndarray) -> dict[str, float]:
            return measure_split(fewer, "dev", scores, self.truth, self.threshold).values

        task = self.run.task(self.votes, fewer, tuning, dev_measures)
        rate = tuning.training.optimizer.learning_rate
        name = f"{split.name.replace(', ', '-').replace(' ', '_')}-{rate:g}-{tuning.weights}"
        name += f"-{tuning.negative_share:g}"
        params, trained = fine_tune(task, self.folder / name)
        return task, params, trained.best[tuning.training.best_measure]


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

        def dev_map(weight: float, pair: tuple[str, str] = (first, second)) -> float:
            fused = fuse(scores[pair[0]], scores[pair[1]], weight)["dev"]
            return measure_split(split, "dev", fused, truth, thresholds[0]).values["MAP"]

        weight = max(FUSION_WEIGHTS, key=dev_map)
        scores[f"{first} + {second}"] = fuse(scores[first], scores[second], weight)
    return {
        name: {
            t: {part: measure_split(split, part, of[part], truth, t) for part in PARTS}
            for t in thresholds
        }
        for name, of in scores.items()
    }


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
    Console().print(table)


def print_results(title: str, systems: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Prints the measures of one task, test and dev: system -> "T = 0" -> part -> summary."""
    names = ("MAP", "AUC", "P@10", "NDCG@10")
    for threshold in next(iter(systems.values())):
        table = Table(title=f"{title}, {threshold}")
        table.add_column("system", no_wrap=True)
        for part in ("test", "dev"):
            for name in names:
                table.add_column(f"{part} {name}", justify="right")
        for system, of in systems.items():
            if threshold not in of:
                continue
            cells = [of[threshold][part][name] for part in ("test", "dev") for name in names]
            table.add_row(system, *map(mean_and_sd, cells))
        Console().print(table)
