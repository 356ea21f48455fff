"""Zero-shot ranking (the paper's table 5) of trained runs beside the baselines.

COMMAND   python -m experiments.docent.zero_shot_ranking --runs runs/docent
TIME      about 5 minutes for all of python_api, most of it the bag of sentences
HARDWARE  2 CPU cores
SCORE     experiments/results/docent_python_api.json

`python_api`: each query is its entity's summary line, held out from training. Films: requests of
people, by source (`--queries reddit_tomt`).
"""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

import docent_jax
from docent_jax.data import tokenize_corpus
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.load import load_documents
from docent_jax.pretraining import (
    PACKAGE,
    TOKENS,
    VECTORS,
    encode_frozen,
    fit_table,
    load_encoder,
)
from experiments.docent.comparison import (
    SPLITS,
    baseline_rankings,
    check_same_documents,
    check_same_encoder,
    compare,
    model_name,
    print_table,
    results_record,
    save,
)
from retrieval_jax.config import differences, to_dict
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.runs import open_run


@dataclasses.dataclass(frozen=True)
class Command:
    """Zero-shot ranking of trained runs beside the baselines.

    Attributes:
        runs: run folders on the same documents; those of one model differ in their seed only.
        queries: take only queries whose id begins like this.
        lexical: sentences that TF-IDF and BM25 read: all of each document, or the same as the
            models, which may see some of each.
        data_dir: where prepared documents are kept.
        results: JSON file to write besides `results.json` in the first run folder.
    """

    runs: tuple[Path, ...]
    queries: str = ""
    lexical: Literal["all", "same"] = "all"
    data_dir: Path = Path("data")
    results: Path | None = None


@one_screen_errors
def main() -> None:
    """Evaluates as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.docent.zero_shot_ranking")
    quiet_libraries()
    if not command.runs:
        raise InputError("no run folder was given", "Give one or more after --runs.")
    opened = [open_run(path, PACKAGE, docent_jax.Config) for path in command.runs]
    run, config = opened[0]
    corpus = load_documents(config.data, command.data_dir)
    configs: dict[str, docent_jax.Config] = {}
    paths: dict[str, list[Path]] = {}
    for other, its_config in opened:
        check_same_documents(other, its_config, run, config, corpus)
        check_same_encoder(other, its_config, run, config)
        model = model_name(its_config)
        paths.setdefault(model, []).append(other.path)
        changed = differences(to_dict(configs.setdefault(model, its_config)), to_dict(its_config))
        if any(not line.startswith("training.seed:") for line in changed):
            raise InputError(
                f"{other.path} differs from another run of {model} in {'; '.join(changed)}",
                "Give runs of one configuration, with different seeds, or compare them apart.",
            )
    fingerprint = corpus.fingerprint
    corpus = _with_queries(corpus, command.queries)
    if not all(corpus.queries[split] for split in SPLITS):
        asked = f" whose id begins with {command.queries!r}" if command.queries else ""
        raise InputError(
            f"no queries{asked} for both dev and test: {corpus.summary}",
            "Give another --queries, or run on data with queries.",
        )
    encoder = load_encoder(config.model)
    tokens = command.data_dir / TOKENS
    data = tokenize_corpus(corpus, encoder.tokenizer, config.data, folder=tokens)
    sentences, queries = encode_frozen(encoder, data, config.model, command.data_dir / VECTORS)
    lexical = corpus
    if command.lexical == "all":
        whole = dataclasses.replace(config.data, sentences_per_entity=None)
        lexical = load_documents(whole, command.data_dir)
    table = fit_table(sentences, data, config)
    baselines = baseline_rankings(corpus, sentences, queries, table, lexical)
    comparison = compare(corpus, baselines, paths)
    seeds = sorted({its_config.training.seed for _, its_config in opened})
    results = results_record(configs, seeds, corpus, fingerprint, comparison)
    results["queries"] = command.queries or "all"
    if len(lexical.sentences) > len(corpus.sentences):
        results["data"] += f"; TF-IDF and BM25 read all {len(lexical.sentences):,} sentences"
    print_table(results, corpus)
    save(run, results, command.results)


def _with_queries(corpus: EntityCorpus, prefix: str) -> EntityCorpus:
    """The corpus with only those queries whose id begins with `prefix`."""
    kept = {
        split: tuple(query for query in queries if query.query_id.startswith(prefix))
        for split, queries in corpus.queries.items()
    }
    return dataclasses.replace(corpus, queries=kept)


if __name__ == "__main__":
    main()
