"""Rankers of several features, pairs and seeds beside the baselines: what the paper's tables hold.

Rankings of trained runs are kept in their folders, so a table that was stopped goes on where it
was. What is chosen (weights of fusions) is chosen on dev.
"""

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

import ltr_jax
from ltr_jax.baselines import popularity_ranking, tfidf_ranking
from ltr_jax.config import Features
from ltr_jax.datasets.collection import DIFFICULTIES, Collection, Topics
from ltr_jax.datasets.load import load_collection
from ltr_jax.evaluation import (
    MEASURE,
    at_difficulty,
    compare_cells,
    qrels_of,
    without_relevant,
)
from ltr_jax.training import PACKAGE
from retrieval_jax.config import to_dict
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation, evaluate
from retrieval_jax.rankings import Ranking, fuse, read_ranking, write_ranking
from retrieval_jax.runs import provenance_record
from retrieval_jax.significance import bootstrap_interval

Split = Literal["dev", "test"]
SPLITS: tuple[Split, ...] = ("dev", "test")
TFIDF, POPULARITY = "tf-idf", "popularity"
TEXT, META, BOTH = "text", "meta", "text+meta"
ENSEMBLE, FUSION = "ensemble of text and meta", "text+meta with tf-idf"
WEIGHTS = tuple(round(0.1 * i, 1) for i in range(1, 10))
# (better, worse), as expected: each is tested in every cell, and Holm-corrected over the cells.
TESTED = (
    (BOTH, TEXT),
    (TEXT, TFIDF),
    (BOTH, TFIDF),
    (ENSEMBLE, TEXT),
    (FUSION, BOTH),
    (FUSION, TFIDF),
)
SECONDS = "seconds.json"

Levels = dict[int, Ranking]
"""Difficulty -> ranking of that level's candidates."""


@dataclasses.dataclass(frozen=True)
class Command:
    """All pairs, features and seeds of a table.

    Attributes:
        config: of every run, but for pair, features and seed.
        pairs: languages of queries and documents.
        features: which models; the ensemble needs text and meta, the gain text and text+meta.
        seeds: of the runs.
        difficulties: irrelevant documents of a query.
        split: what is evaluated; dev while something is still to be chosen.
        runs: folder of all run folders; finished ones are not trained again.
        data_dir: where prepared collections and vectors are kept.
        results: JSON file to write.
    """

    config: ltr_jax.Config
    pairs: tuple[str, ...]
    features: tuple[Features, ...] = (TEXT, META, BOTH)
    seeds: tuple[int, ...] = (0, 1, 2)
    difficulties: tuple[int, ...] = DIFFICULTIES
    split: Split = "test"
    runs: Path = Path("runs/ltr/table")
    data_dir: Path = Path("data")
    results: Path | None = None


def to_levels(ranking: Ranking, topics: Topics, difficulties: Sequence[int]) -> Levels:
    """Cuts a ranking of all candidates into levels; those that the split lacks are left out."""
    levels = sorted({min(difficulty, topics.hardest) for difficulty in difficulties})
    return {difficulty: at_difficulty(ranking, topics, difficulty) for difficulty in levels}


def evaluate_levels(levels: Levels, topics: Topics) -> dict[int, Evaluation]:
    """NDCG of each level."""
    qrels = qrels_of(topics)
    return {level: evaluate(qrels, ranking, (MEASURE,)) for level, ranking in levels.items()}


def fuse_on_dev(
    first: Mapping[str, Levels], second: Mapping[str, Levels], dev: Topics, split: Split
) -> tuple[Levels, float]:
    """Fuses two systems by a weighted sum of scores, normalised within each query.

    Args:
        first: split -> levels.
        second: the same of another system.
        dev: judges the weights, by the mean of NDCG over levels.
        split: of the result.

    Returns:
        Levels of the split, and the weight of `first`, the best one on dev.
    """

    def at(weight: float, of: Split) -> Levels:
        return {
            level: fuse([ranking, second[of][level]], [weight, 1 - weight])
            for level, ranking in first[of].items()
        }

    def on_dev(weight: float) -> float:
        values = evaluate_levels(at(weight, "dev"), dev).values()
        return statistics.fmean(value.mean[MEASURE] for value in values)

    best = max(WEIGHTS, key=on_dev)
    return at(best, split), best


def report_lacking(collection: Collection, split: Split) -> None:
    """Says how many queries of a split count 0 whatever the system."""
    lacking = without_relevant(collection.splits[split])
    if lacking:
        print(f"{len(lacking)} {split} queries have no relevant document: each counts 0")


def run_config(config: ltr_jax.Config, pair: str, features: Features, seed: int) -> ltr_jax.Config:
    """The configuration of one run of a table."""
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, pair=pair),
        model=dataclasses.replace(config.model, features=features),
        training=dataclasses.replace(config.training, seed=seed),
    )


def trained_rankings(
    config: ltr_jax.Config, collection: Collection, path: Path, vectors: Path
) -> tuple[dict[str, Ranking], dict[str, float | None]]:
    """Trains a run unless its rankings are there already.

    Args:
        config: of the run.
        collection: trained and evaluated on.
        path: run folder.
        vectors: folder of kept vectors.

    Returns:
        Split -> ranking of all candidates; seconds of training of vectors and ranker, the latter
        None if it was interrupted.
    """
    files = {split: path / f"{split}.trec" for split in SPLITS}
    is_new = not (path / "config.json").is_file()
    prepared = ltr_jax.prepare_vectors(config, collection, vectors)
    started = time.perf_counter()
    run, _ = ltr_jax.train_ranker(config, collection, lambda: prepared.vectors, path)
    if not (path / SECONDS).is_file():
        seconds = time.perf_counter() - started if is_new else None
        run.write_json(SECONDS, prepared.seconds | {"ranker": seconds})
    if not all(file.is_file() for file in files.values()):
        ranker = ltr_jax.load(path)
        for split, file in files.items():
            ranking = ranker.rank_candidates(
                collection.queries, collection.documents, collection.splits[split].candidates
            )
            partial = file.with_suffix(".partial")
            write_ranking(partial, ranking, PACKAGE)
            partial.replace(file)
    return {split: read_ranking(file) for split, file in files.items()}, run.read_json(SECONDS)


@dataclasses.dataclass
class _Pair:
    """What one pair of languages gives.

    Attributes:
        evaluations: system -> of each seed, difficulty -> evaluation.
        weights: fusion -> weight of its first system, of each seed.
        seconds: features -> of each seed, what training took.
    """

    evaluations: dict[str, list[dict[int, Evaluation]]]
    weights: dict[str, list[float]]
    seconds: dict[str, list[dict[str, float | None]]]


def evaluate_pair(command: Command, pair: str, collection: Collection) -> _Pair:
    """Trains and evaluates all models of one pair, and the baselines."""
    topics = {split: collection.splits[split] for split in SPLITS}

    def levels(rankings: Mapping[str, Ranking]) -> dict[str, Levels]:
        return {s: to_levels(rankings[s], topics[s], command.difficulties) for s in SPLITS}

    def baseline(rank: Callable[..., Ranking]) -> dict[str, Levels]:
        return levels({s: rank(collection, topics[s].candidates) for s in SPLITS})

    chosen = topics[command.split]
    tfidf, popularity = baseline(tfidf_ranking), baseline(popularity_ranking)
    result = _Pair({}, {}, {})
    for name, system in ((POPULARITY, popularity), (TFIDF, tfidf)):
        # As often as there are runs: tests pair a system's runs with them.
        of_seed = evaluate_levels(system[command.split], chosen)
        result.evaluations[name] = [of_seed] * len(command.seeds)
    for seed in command.seeds:
        systems: dict[str, dict[str, Levels]] = {}
        for features in command.features:
            config = run_config(command.config, pair, features, seed)
            path = command.runs / config.data.source / pair / features / f"seed{seed}"
            rankings, seconds = trained_rankings(
                config, collection, path, command.data_dir / "vectors"
            )
            systems[features] = levels(rankings)
            result.seconds.setdefault(features, []).append(seconds)
        fusions = {ENSEMBLE: (TEXT, META), FUSION: (BOTH, TFIDF)}
        fused: dict[str, Levels] = {}
        for name, parts in fusions.items():
            first, second = (({TFIDF: tfidf} | systems).get(part) for part in parts)
            if first is not None and second is not None:
                fused[name], weight = fuse_on_dev(first, second, topics["dev"], command.split)
                result.weights.setdefault(name, []).append(weight)
        ready = {name: system[command.split] for name, system in systems.items()} | fused
        for name, system in ready.items():
            of_seed = evaluate_levels(system, chosen)
            result.evaluations.setdefault(name, []).append(of_seed)
    return result


def run_table(command: Command, experiment: str, title: str) -> dict[str, Any]:
    """Trains and evaluates everything, prints the table and writes the results.

    Args:
        command: what.
        experiment: its name in the results.
        title: of the table.

    Returns:
        The record that is written to `command.results`.

    Raises:
        InputError: nothing to do, or what loading and training refuse.
    """
    if not (command.pairs and command.features and command.seeds and command.difficulties):
        raise InputError(
            "no pair, features, seed or difficulty was given", "Give one or more of each."
        )
    pairs: dict[str, _Pair] = {}
    summaries, fingerprints = [], []
    for pair in command.pairs:
        data = dataclasses.replace(command.config.data, pair=pair)
        collection = load_collection(data, command.data_dir)
        print(collection.summary)
        report_lacking(collection, command.split)
        summaries.append(collection.summary)
        fingerprints.append(collection.fingerprint)
        pairs[pair] = evaluate_pair(command, pair, collection)
    cells = cell_evaluations({pair: of_pair.evaluations for pair, of_pair in pairs.items()})
    record = {
        "experiment": experiment,
        "data": "; ".join(summaries),
        "split": command.split,
        "config": to_dict(command.config),
        "seeds": list(command.seeds),
        "provenance": provenance_record(" ".join(fingerprints)),
        **summarise(cells, command.split, TESTED),
        "fusion_weights": {pair: of_pair.weights for pair, of_pair in pairs.items()},
        "seconds": {pair: of_pair.seconds for pair, of_pair in pairs.items()},
    }
    print_table(record, title)
    write_results(record, command.results)
    return record


Cells = dict[str, dict[str, list[Evaluation]]]
"""System -> "pair difficulty" -> evaluation of each seed."""


def cell_evaluations(pairs: Mapping[str, Mapping[str, Sequence[dict[int, Evaluation]]]]) -> Cells:
    """Brings pair -> system -> seeds -> difficulty into the order of a table."""
    cells: Cells = {}
    for pair, systems in pairs.items():
        for name, seeds in systems.items():
            for level in seeds[0]:
                of_cell = [of_seed[level] for of_seed in seeds]
                cells.setdefault(name, {})[f"{pair} {level}"] = of_cell
    return cells


def summarise(cells: Cells, split: str, tested: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Means and tests of a table.

    Args:
        cells: evaluations.
        split: what they were evaluated on.
        tested: (better, worse) as expected; those that are not there are left out.

    Returns:
        "systems": name -> split -> cell -> mean and standard deviation over seeds; "significance":
        a row for each tested pair and cell, Holm-corrected over the cells of the pair.
    """
    systems = {
        name: {split: {cell: _mean_and_sd(runs) for cell, runs in of_system.items()}}
        for name, of_system in cells.items()
    }
    rows = []
    for first, second in tested:
        if first not in cells or second not in cells:
            continue
        both = {cell: (runs, cells[first][cell]) for cell, runs in cells[second].items()}
        for cell, comparison in compare_cells(both).items():
            difference = _per_query(cells[first][cell]) - _per_query(cells[second][cell])
            rows.append(
                {
                    "first": first,
                    "second": second,
                    "measure": cell,
                    "difference": comparison.gain,
                    "gains": list(comparison.gains),
                    "interval_95": bootstrap_interval(difference),
                    "p": comparison.p_value,
                    "p_holm": comparison.adjusted,
                }
            )
    return {"systems": systems, "significance": rows}


def _mean_and_sd(runs: Sequence[Evaluation]) -> dict[str, float]:
    values = [run.mean[MEASURE] for run in runs]
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def _per_query(runs: Sequence[Evaluation]) -> np.ndarray:
    return np.mean([[row[MEASURE] for row in run.per_query.values()] for run in runs], axis=0)


def print_table(record: Mapping[str, Any], title: str) -> None:
    """Prints means, and the tests below."""
    split = record["split"]
    cells = list(next(iter(record["systems"].values()))[split])
    table = Table(title=f"{title}: {MEASURE} on {split}")
    table.add_column("system", no_wrap=True)
    for cell in cells:
        table.add_column(cell, justify="right")
    for name, system in record["systems"].items():
        table.add_row(name, *(f"{system[split][cell]['mean']:.3f}" for cell in cells))
    console = Console()
    console.print(table)
    for row in record["significance"]:
        console.print(
            f"{row['measure']}: {row['first']} - {row['second']} = {row['difference']:+.3f}"
            f" (Holm-corrected p = {row['p_holm']:.4f})",
            highlight=False,
            soft_wrap=True,
        )


def write_results(record: Mapping[str, Any], path: Path | None) -> None:
    """Writes a record as JSON; nothing without a path."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
