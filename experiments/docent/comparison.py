"""DocEnt beside the baselines on zero-shot ranking: rankings, measures, significance, results.

Runs of one model that differ in their seed give mean and standard deviation. What is chosen (the
weights of fusions) is chosen on dev.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from rich.table import Table

import docent_jax
from docent_jax.baselines import bag_of_sentences_scores, bm25_scores, tfidf_scores
from docent_jax.config import DataConfig
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.load import load_documents
from docent_jax.evaluation import MEASURES, cosine_scores, evaluate_ranking, rank
from docent_jax.pretraining import PACKAGE
from experiments.fusion import best_weight
from experiments.records import (
    differences,
    make_record,
    mean_and_sd,
    one_family,
    query_values,
    summarise_measures,
    write_record,
)
from retrieval_jax import config as config_lib
from retrieval_jax import plots
from retrieval_jax.errors import InputError
from retrieval_jax.evaluation import Evaluation
from retrieval_jax.logs import result_console
from retrieval_jax.rankings import Ranking, fuse, write_qrels, write_ranking
from retrieval_jax.runs import RunFolder

T = TypeVar("T")

SPLITS = ("dev", "test")
FROZEN = "DocEnt-Dual, encoder frozen"
BM25, TFIDF = "BM25 (Lucene)", "TF-IDF"
LEXICAL = "TF-IDF + BM25"
# What models are fused with: as it stands in the fusion's name -> baseline.
FUSED_WITH = {"BM25": BM25, LEXICAL: LEXICAL}
BAG_MAX, BAG_MEAN = "bag of sentences, maximum", "bag of sentences, mean"
BAGS: dict[str, Literal["mean", "max"]] = {BAG_MEAN: "mean", BAG_MAX: "max"}

# Settings of a model that decide sentence vectors and the table that is fitted to them.
ENCODER_FIELDS = ("encoder", "layers", "pooling")
FIT_FIELDS = ("dtype", "temperature", "fit_epochs", "fit_learning_rate")

# System -> split -> ranking.
Rankings = dict[str, dict[str, Ranking]]


def query_texts(corpus: EntityCorpus, split: str) -> list[str]:
    """Texts of a split's queries."""
    return [query.text for query in corpus.queries[split]]


def lexical_corpus(
    corpus: EntityCorpus, config: DataConfig, lexical: Literal["all", "same"], data_dir: Path
) -> EntityCorpus:
    """What TF-IDF and BM25 read: all of each document, or the sentences that models see."""
    if lexical == "same" or config.sentences_per_entity is None:
        return corpus
    return load_documents(dataclasses.replace(config, sentences_per_entity=None), data_dir)


def what_is_read(corpus: EntityCorpus, lexical: EntityCorpus) -> str:
    """What a description of data adds where TF-IDF and BM25 read more than models see."""
    if len(lexical.sentences) == len(corpus.sentences):
        return ""
    return f"; TF-IDF and BM25 read all {len(lexical.sentences):,} sentences"


def baseline_rankings(
    corpus: EntityCorpus,
    sentence_vectors: np.ndarray,
    query_vectors: Mapping[str, np.ndarray],
    frozen_table: np.ndarray,
    lexical: EntityCorpus | None = None,
) -> Rankings:
    """Rankings of the baselines.

    Args:
        corpus: documents and queries.
        sentence_vectors: `[sentences, dim]` of the untrained encoder.
        query_vectors: split -> `[queries, dim]` of the same.
        frozen_table: `[entities, dim]`, fitted to these sentence vectors.
        lexical: the same entities with all their sentences, for TF-IDF and BM25; None = `corpus`.
    """
    lexical = lexical or corpus
    rankings: Rankings = {TFIDF: {}, BM25: {}}
    for name, reduce in BAGS.items():
        rankings[name] = bag_rankings(corpus, sentence_vectors, query_vectors, reduce)
    rankings[FROZEN] = {}
    for split in SPLITS:
        texts = query_texts(corpus, split)
        rankings[TFIDF][split] = rank(tfidf_scores(lexical, texts), corpus, split)
        rankings[BM25][split] = rank(bm25_scores(lexical, texts), corpus, split)
        scores = cosine_scores(query_vectors[split], frozen_table)
        rankings[FROZEN][split] = rank(scores, corpus, split)
    return rankings


def bag_rankings(
    corpus: EntityCorpus,
    sentence_vectors: np.ndarray,
    query_vectors: Mapping[str, np.ndarray],
    reduce: Literal["mean", "max"],
) -> dict[str, Ranking]:
    """Rankings of a bag of sentences, split -> ranking; arguments as in `baseline_rankings`."""
    owners, entities = corpus.sentence_entities, len(corpus.entities)
    rankings = {}
    for split in SPLITS:
        asked = query_vectors[split]
        scores = bag_of_sentences_scores(asked, sentence_vectors, owners, entities, reduce)
        rankings[split] = rank(scores, corpus, split)
    return rankings


def model_name(config: docent_jax.Config) -> str:
    """The paper's name of the model that a configuration trains."""
    return f"DocEnt-{config.model.kind.capitalize()}"


def model_rankings(path: Path, corpus: EntityCorpus) -> dict[str, Ranking]:
    """Rankings of a trained run, split -> ranking; test's also go into its folder, with qrels."""
    ranker = docent_jax.load(path)
    rankings = {}
    for split in SPLITS:
        rankings[split] = rank(ranker.score(query_texts(corpus, split)), corpus, split)
    write_ranking(path / "ranking.trec", without_spaces(rankings["test"]), PACKAGE)
    write_qrels(path / "qrels.trec", without_spaces(corpus.qrels("test")))
    return rankings


def without_spaces(table: Mapping[str, Mapping[str, T]]) -> dict[str, dict[str, T]]:
    """A ranking or qrels for a TREC file, whose fields end at white space: `_` for it in titles."""
    return {
        query: {"_".join(entity.split()): value for entity, value in values.items()}
        for query, values in table.items()
    }


def fuse_on_dev(
    first: Mapping[str, Ranking], second: Mapping[str, Ranking], corpus: EntityCorpus
) -> tuple[dict[str, Ranking], float]:
    """Fuses two systems by a weighted sum of normalised scores.

    Returns:
        Split -> ranking, and the weight of `first`, the best one on dev by the first measure.
    """

    def at(weight: float, split: str) -> Ranking:
        return fuse([first[split], second[split]], [weight, 1 - weight])

    def on_dev(weight: float) -> float:
        return evaluate_ranking(at(weight, "dev"), corpus, "dev").mean[MEASURES[0]]

    best = best_weight(on_dev)
    return {split: at(best, split) for split in SPLITS}, best


def compare(
    corpus: EntityCorpus, baselines: Rankings, runs: Mapping[str, Sequence[Path]]
) -> dict[str, Any]:
    """Evaluates everything on dev and test.

    Args:
        corpus: documents and queries.
        baselines: as `baseline_rankings` gives.
        runs: model -> run folders that differ in their seed only.

    Returns:
        What `results.json` holds under "systems", "fusion_weights" and "significance".
    """

    def evaluated(system: Mapping[str, Ranking]) -> dict[str, Evaluation]:
        return {split: evaluate_ranking(system[split], corpus, split) for split in SPLITS}

    lexical, weight = fuse_on_dev(baselines[TFIDF], baselines[BM25], corpus)
    baselines = {**baselines, LEXICAL: lexical}
    weights: dict[str, list[float]] = {LEXICAL: [weight]}
    seeds = {name: [evaluated(system)] for name, system in baselines.items()}
    for model, paths in runs.items():
        seeds[model] = []
        for path in paths:
            rankings = model_rankings(path, corpus)
            seeds[model].append(evaluated(rankings))
            for name, other in FUSED_WITH.items():
                fused, weight = fuse_on_dev(rankings, baselines[other], corpus)
                seeds.setdefault(f"{model} + {name}", []).append(evaluated(fused))
                weights.setdefault(f"{model} + {name}", []).append(weight)
    return {
        "systems": {
            name: {
                split: summarise_measures([run[split].mean for run in of_seeds], MEASURES)
                for split in SPLITS
            }
            for name, of_seeds in seeds.items()
        },
        "fusion_weights": weights,
        "significance": [
            row
            for pairs in (_pairs(tuple(runs)), _pairs_of_names(tuple(baselines)))
            for row in _significance(seeds, pairs)
        ],
    }


def names_kept(baseline: str) -> str:
    """Name of a baseline on reviews with the films' names left in."""
    return f"{baseline}, names kept"


def _pairs(models: Sequence[str]) -> list[tuple[str, str]]:
    """Which systems are tested against each other."""
    pairs = []
    for model in models:
        pairs += [(model, baseline) for baseline in (BAG_MAX, FROZEN, TFIDF, BM25)]
        for name, other in FUSED_WITH.items():
            pairs += [(f"{model} + {name}", other), (f"{model} + {name}", model)]
    return pairs + list(itertools.combinations(models, 2))


def _pairs_of_names(baselines: Sequence[str]) -> list[tuple[str, str]]:
    """Baselines on reviews with and without names: another question, so a family of its own."""
    return [(names_kept(name), name) for name in baselines if names_kept(name) in baselines]


def _significance(
    seeds: Mapping[str, Sequence[Mapping[str, Evaluation]]], pairs: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Paired randomisation tests on test queries, mean over seeds per query.

    One family for Holm: all these pairs on all measures.
    """

    runs = {name: [run["test"].per_query for run in of_seeds] for name, of_seeds in seeds.items()}
    rows = [
        row
        for measure in MEASURES
        for row in differences(query_values(runs, measure), pairs, measure)
    ]
    return one_family(rows)


def print_table(results: Mapping, corpus: EntityCorpus) -> None:
    """Prints the comparison."""
    table = Table(title=f"Zero-shot ranking: {corpus.summary}")
    table.add_column("system")
    for split in SPLITS:
        for measure in MEASURES:
            table.add_column(f"{split}\n{measure}", justify="right", no_wrap=True)
    for name, system in results["systems"].items():
        cells = [system[split][measure] for split in SPLITS for measure in MEASURES]
        table.add_row(name, *map(mean_and_sd, cells))
    console = result_console()
    console.print(table)
    console.print(_tests_table(results["significance"]))


def _tests_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A row a pair of systems: difference, 95 % interval and corrected p of each measure."""
    pairs: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        low, high = row["interval_95"]
        cell = f"{row['difference']:+.3f} ({low:+.3f} to {high:+.3f}), p {row['p_holm']:.4f}"
        pairs.setdefault((row["first"], row["second"]), {})[row["measure"]] = cell
    table = Table(title="Differences on test: 95 % interval, p by randomisation after Holm")
    table.add_column("systems")
    for measure in MEASURES:
        table.add_column(measure, justify="right")
    for (first, second), cells in pairs.items():
        table.add_row(f"{first} - {second}", *(cells[measure] for measure in MEASURES))
    return table


def save(run: RunFolder, results: Mapping, also: Path | None = None) -> None:
    """Writes `results.json` and the plot of a comparison."""
    run.write_json("results.json", results)
    rows = {
        name: {m: system["test"][m]["mean"] for m in MEASURES}
        for name, system in results["systems"].items()
    }
    plots.comparison(rows, MEASURES, run.plots / "comparison.png", "Zero-shot ranking, test")
    write_record(also, results)


def results_record(
    configs: Mapping[str, docent_jax.Config],
    seeds: Sequence[int],
    corpus: EntityCorpus,
    fingerprint: str,
    comparison: Mapping[str, Any],
) -> dict[str, Any]:
    """All that `results.json` holds: the comparison and what it was made with.

    Args:
        configs: model -> configuration, but for the seed; the baselines are of the first.
        seeds: of the runs.
        corpus: documents, and the queries that were asked.
        fingerprint: of the corpus that was trained on.
        comparison: as `compare` gives.
    """
    first = next(iter(configs.values()))
    data = f"{source_in_words(first)}, {corpus.summary}"
    found = {"encoder_frozen": frozen_settings(first), **comparison}
    return make_record("docent zero-shot ranking", data, configs, seeds, fingerprint, found)


def check_same_documents(
    other: RunFolder,
    its_config: docent_jax.Config,
    run: RunFolder,
    config: docent_jax.Config,
    corpus: EntityCorpus,
) -> None:
    """Refuses a run whose documents are not those of the first one, or not at hand."""
    changed = config_lib.differences(
        config_lib.to_dict(config.data), config_lib.to_dict(its_config.data)
    )
    if changed:
        raise InputError(
            f"{other.path} differs from {run.path} in its data: {'; '.join(changed)}",
            "Give runs on the same documents.",
        )
    trained_on = other.read_json("provenance.json")["data_fingerprint"]
    if trained_on != corpus.fingerprint:
        raise InputError(
            f"{other.path} was trained on documents {trained_on[:12]}; those at hand are"
            f" {corpus.fingerprint[:12]}",
            "Install the versions that its provenance.json names, give the same files, or train"
            " again.",
        )


def check_same_baselines(
    other: RunFolder, its_config: docent_jax.Config, run: RunFolder, config: docent_jax.Config
) -> None:
    """Refuses a run from whose settings other baselines would come than from the first one's.

    These are the bags of sentences and the frozen encoder with its fitted table.

    Raises:
        InputError: the field, and the value of each run.
    """
    for field in (*ENCODER_FIELDS, *FIT_FIELDS):
        values = getattr(config.model, field), getattr(its_config.model, field)
        if values[0] != values[1]:
            raise InputError(
                f"{other.path} has model.{field} {values[1]!r}, {run.path} has {values[0]!r}",
                "Compare them in two calls: baselines are one encoder's vectors, and a table fitted"
                " to them once.",
            )


def frozen_settings(config: docent_jax.Config) -> dict[str, Any]:
    """What the table of the frozen encoder was fitted with, for the record."""
    fit = {name: getattr(config.model, name) for name in FIT_FIELDS}
    return fit | {"seed": config.training.seed}


def source_in_words(config: docent_jax.Config) -> str:
    """The source of a configuration, for descriptions of data."""
    if config.data.source == "python_api":
        return f"python_api ({', '.join(config.data.packages)})"
    return f"{config.data.source} (names {'kept' if config.data.keep_names else 'removed'})"
