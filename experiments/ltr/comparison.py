"""Rankers of several features, pairs and seeds beside the baselines: what the paper's tables hold.

Rankings of trained runs are kept in their folders, so a table that was stopped goes on where it
was. What is chosen (weights of fusions) is chosen on dev.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import ltr_jax
from experiments.fusion import best_weight
from experiments.ltr.tables import means_and_tests, print_table, to_cells
from experiments.records import make_record, write_record
from ltr_jax.baselines import (
    association_ranking,
    popularity_ranking,
    tfidf_ranking,
    vector_ranking,
)
from ltr_jax.config import Features
from ltr_jax.datasets.collection import DIFFICULTIES, Collection, Topics
from ltr_jax.datasets.load import load_collection
from ltr_jax.evaluation import MEASURE, Levels, evaluate_levels, to_levels, without_relevant
from ltr_jax.tokenizers import latin_compounds, tokenizer
from ltr_jax.training import PACKAGE, PreparedVectors
from ltr_jax.translation import learn_dictionary, translate_queries
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation
from retrieval_jax.rankings import Ranking, fuse, read_ranking, write_ranking

Split = Literal["dev", "test"]
SPLITS: tuple[Split, ...] = ("dev", "test")
POPULARITY, ASSOCIATION = "popularity", "association of categories"
COMPOUNDS, TFIDF = "tf-idf, hyphenated words whole", "tf-idf"
LEARNED, MEANS = "learned dictionary", "mean word vectors"
TRANSLATED = f"{TFIDF}, {LEARNED}"
TEXT, META, BOTH = "text", "meta", "text+meta"
ENSEMBLE, FUSION = "ensemble of text and meta", f"{BOTH} with {TRANSLATED}"
# (better, worse), as expected: each is tested in every cell, and Holm-corrected over the cells.
TESTED = (
    (BOTH, TEXT),
    (TEXT, COMPOUNDS),
    (TEXT, TFIDF),
    (TEXT, TRANSLATED),
    (TEXT, MEANS),
    (ENSEMBLE, TEXT),
    (FUSION, BOTH),
    (FUSION, TRANSLATED),
)
SECONDS = "seconds.json"


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


Combine = Callable[[Sequence[Ranking], Sequence[float]], Ranking]
"""Rankings and their weights -> one ranking."""


def fuse_levels(first: Levels, second: Levels, weight: float, combine: Combine = fuse) -> Levels:
    """Two systems as one, by a weighted sum of scores.

    Args:
        first: one system.
        second: another, at the same levels.
        weight: of `first`; that of `second` is what lacks to 1.
        combine: by default scores are normalised within each query.
    """
    return {
        level: combine([ranking, second[level]], [weight, 1 - weight])
        for level, ranking in first.items()
    }


def weight_on_dev(first: Levels, second: Levels, dev: Topics, combine: Combine = fuse) -> float:
    """The weight of `first` at which `fuse_levels` is best by the mean of NDCG over its levels."""

    def on_dev(weight: float) -> float:
        values = evaluate_levels(fuse_levels(first, second, weight, combine), dev).values()
        return statistics.fmean(value.mean[MEASURE] for value in values)

    return best_weight(on_dev)


def sum_scores(rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
    """Adds scores up as they are, of rankings of the same documents.

    Rankers that were trained by one loss have one scale. Normalised within each query, one that
    hardly tells its documents apart would weigh as much there as anywhere else.
    """
    return {
        query: {
            document: sum(
                weight * ranking[query][document]
                for ranking, weight in zip(rankings, weights, strict=True)
            )
            for document in documents
        }
        for query, documents in rankings[0].items()
    }


FUSED = {ENSEMBLE: (TEXT, META, sum_scores), FUSION: (BOTH, TRANSLATED, fuse)}
"""Fusion -> its two systems, and how their scores are combined."""


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


def rank_splits(
    ranker: ltr_jax.DocumentRanker, collection: Collection, topics: Mapping[str, Topics]
) -> dict[str, Ranking]:
    """Ranks the candidates of several splits, every text encoded once.

    Args:
        ranker: trained.
        collection: of all splits.
        topics: split -> its queries, which no other split has.
    """
    candidates = {q: c for of_split in topics.values() for q, c in of_split.candidates.items()}
    ranking = ranker.rank_candidates(collection.queries, collection.documents, candidates)
    return {s: {q: ranking[q] for q in of_split.query_ids} for s, of_split in topics.items()}


def trained_rankings(
    config: ltr_jax.Config, collection: Collection, prepared: PreparedVectors, path: Path
) -> tuple[dict[str, Ranking], dict[str, float | None]]:
    """Trains a run unless its rankings are there already.

    Args:
        config: of the run.
        collection: trained and evaluated on.
        prepared: vectors.
        path: run folder.

    Returns:
        Split -> ranking of all candidates; seconds of training of vectors and ranker, the latter
        None if it was interrupted.
    """
    files = {split: path / f"{split}.trec" for split in SPLITS}
    is_new = not (path / "config.json").is_file()
    started = time.perf_counter()
    run, _ = ltr_jax.train_ranker(config, collection, lambda: prepared.vectors, path)
    if not (path / SECONDS).is_file():
        seconds = time.perf_counter() - started if is_new else None
        run.write_json(SECONDS, prepared.seconds | {"ranker": seconds})
    if not all(file.is_file() for file in files.values()):
        topics = {split: collection.splits[split] for split in SPLITS}
        for split, ranking in rank_splits(ltr_jax.load(path), collection, topics).items():
            write_ranking(files[split], ranking, PACKAGE)
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


class _SystemLevels(NamedTuple):
    """Levels of one system.

    Attributes:
        choosing: of dev, on which weights of fusions are chosen.
        shown: of the split asked for.
    """

    choosing: Levels
    shown: Levels


def _baselines(
    command: Command, collection: Collection, prepared: Mapping[str, PreparedVectors]
) -> dict[str, dict[str, Ranking]]:
    """Name -> split -> ranking: of the split asked for, of that of fusions also of dev."""
    candidates = collection.splits[command.split].candidates
    rankings = {POPULARITY: popularity_ranking(collection, candidates)}
    if META in command.features:
        rankings[ASSOCIATION] = association_ranking(collection, candidates)
    rankings[COMPOUNDS] = tfidf_ranking(collection, candidates, latin_compounds)
    rankings[TFIDF] = tfidf_ranking(collection, candidates)
    of_split = {name: {command.split: ranking} for name, ranking in rankings.items()}

    used = {split: collection.splits[split] for split in ("dev", command.split)}
    everything = {q: c for topics in used.values() for q, c in topics.candidates.items()}
    texts = translate_queries(collection, everything, learn_dictionary(collection))
    words = tokenizer(collection.documents.language)
    translated = tfidf_ranking(collection, everything, words, texts)
    of_split[TRANSLATED] = {
        split: {query: translated[query] for query in topics.query_ids}
        for split, topics in used.items()
    }
    if TEXT in prepared and command.config.word_vectors.method == "pairs":
        vectors = prepared[TEXT].vectors
        means = vector_ranking(collection, candidates, vectors.query, vectors.document)
        of_split[MEANS] = {command.split: means}
    return of_split


def evaluate_pair(command: Command, pair: str, collection: Collection) -> _Pair:
    """Trains and evaluates all models of one pair, and the baselines."""
    judged, dev = collection.splits[command.split], collection.splits["dev"]

    def levels(rankings: Mapping[str, Ranking]) -> _SystemLevels:
        # Weights are chosen where the parameters were, whatever split is shown.
        return _SystemLevels(
            to_levels(rankings["dev"], dev, (command.config.dev_difficulty,)),
            to_levels(rankings[command.split], judged, command.difficulties),
        )

    prepared = {
        features: ltr_jax.prepare_vectors(
            run_config(command.config, pair, features, 0), collection, command.data_dir / "vectors"
        )
        for features in command.features
    }
    baselines = _baselines(command, collection, prepared)
    result = _Pair({}, {}, {})
    for name, rankings in baselines.items():
        # As often as there are runs: tests pair a system's runs with them.
        of_seed = to_levels(rankings[command.split], judged, command.difficulties)
        result.evaluations[name] = [evaluate_levels(of_seed, judged)] * len(command.seeds)
    tfidf = levels(baselines[TRANSLATED])
    for seed in command.seeds:
        systems = {TRANSLATED: tfidf}
        for features in command.features:
            config = run_config(command.config, pair, features, seed)
            path = command.runs / config.data.source / pair / features / f"seed{seed}"
            rankings, seconds = trained_rankings(config, collection, prepared[features], path)
            systems[features] = levels(rankings)
            result.seconds.setdefault(features, []).append(seconds)
        shown = {features: systems[features].shown for features in command.features}
        for name, (first, second, combine) in FUSED.items():
            if first in systems and second in systems:
                one, other = systems[first], systems[second]
                weight = weight_on_dev(one.choosing, other.choosing, dev, combine)
                shown[name] = fuse_levels(one.shown, other.shown, weight, combine)
                result.weights.setdefault(name, []).append(weight)
        for name, of_seed in shown.items():
            result.evaluations.setdefault(name, []).append(evaluate_levels(of_seed, judged))
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
    command.config.refuse_idle_steps()
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
    evaluations = {pair: of_pair.evaluations for pair, of_pair in pairs.items()}
    record = make_record(
        experiment,
        "; ".join(summaries),
        command.config,
        command.seeds,
        " ".join(fingerprints),
        {
            "split": command.split,
            **means_and_tests(to_cells(evaluations), command.split, TESTED),
            "fusion_weights": {pair: of_pair.weights for pair, of_pair in pairs.items()},
            "seconds": {pair: of_pair.seconds for pair, of_pair in pairs.items()},
        },
    )
    print_table(record, title)
    write_record(command.results, record)
    return record
