"""Zero-shot ranking (the paper's table 5) of trained runs beside the baselines.

COMMAND   python -m experiments.docent.zero_shot_ranking --runs runs/docent
TIME      about 5 minutes for all of python_api, most of it the bag of sentences
HARDWARE  2 CPU cores
SCORE     experiments/results/docent_python_api.json

`python_api`: each query is its entity's summary line, held out from training. Films: requests of
people, by source (`--queries reddit_tomt`).
"""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import docent_jax
from docent_jax.config import ModelConfig
from docent_jax.data import EncodedCorpus, tokenize_corpus
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.load import load_documents
from docent_jax.pretraining import PACKAGE, TOKENS, fit_table
from experiments.docent.bags import Bag, bag_names, make_bag
from experiments.docent.comparison import (
    BAG_MAX,
    SPLITS,
    Rankings,
    bag_rankings,
    baseline_rankings,
    check_same_baselines,
    check_same_documents,
    compare,
    lexical_corpus,
    model_name,
    names_kept,
    print_table,
    results_record,
    save,
    what_is_read,
)
from retrieval_jax.config import differences, to_dict
from retrieval_jax.encoding import encode, jit_encoder
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.pipeline import TokenTable
from retrieval_jax.pretrained import PretrainedBert
from retrieval_jax.runs import open_run


@dataclasses.dataclass(frozen=True)
class Command:
    """Zero-shot ranking of trained runs beside the baselines.

    Attributes:
        runs: run folders on the same documents; those of one model differ in their seed only.
        queries: take only queries whose id begins like this.
        lexical: sentences that TF-IDF and BM25 read: all of each document, or the same as the
            models, which may see some of each.
        names_kept: beside each baseline, also the same one on reviews with the films' names
            left in: what their removal costs.
        bags: further encoders (BERT folders, packages or hub names) for the bag of sentences, whole
            and by the mean of their word pieces' vectors, such as google-bert/bert-base-uncased.
        data_dir: where prepared documents are kept.
        results: JSON file to write besides `results.json` in the first run folder.
    """

    runs: tuple[Path, ...]
    queries: str = ""
    lexical: Literal["all", "same"] = "all"
    names_kept: bool = False
    bags: tuple[str, ...] = ()
    data_dir: Path = Path("data")
    results: Path | None = None


@one_screen_errors
def main() -> None:
    """Evaluates as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.docent.zero_shot_ranking")
    quiet_libraries()
    if not command.runs:
        raise InputError("no run folder was given", "Give one or more after --runs.")
    bags = bag_names(command.bags)
    opened = [open_run(path, PACKAGE, docent_jax.Config) for path in command.runs]
    run, config = opened[0]
    corpus = load_documents(config.data, command.data_dir)
    configs: dict[str, docent_jax.Config] = {}
    paths: dict[str, list[Path]] = {}
    for other, its_config in opened:
        check_same_documents(other, its_config, run, config, corpus)
        check_same_baselines(other, its_config, run, config)
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
    own = make_bag(config, corpus, command.data_dir)
    lexical = lexical_corpus(corpus, config.data, command.lexical, command.data_dir)
    table = fit_table(own.sentences, own.data, config)
    baselines = baseline_rankings(corpus, own.sentences, own.queries, table, lexical)
    for name, other in zip(bags, command.bags, strict=True):
        bag = make_bag(config, corpus, command.data_dir, other)
        of_maximum = bag_rankings(corpus, bag.sentences, bag.queries, "max")
        baselines[f"{BAG_MAX} ({name})"] = of_maximum
    if command.names_kept:
        baselines |= _names_kept(command, config, own)
    comparison = compare(corpus, baselines, paths)
    seeds = sorted({its_config.training.seed for _, its_config in opened})
    results = results_record(configs, seeds, corpus, fingerprint, comparison)
    results["queries"] = command.queries or "all"
    results["data"] += what_is_read(corpus, lexical)
    print_table(results, corpus)
    save(run, results, command.results)


def _with_queries(corpus: EntityCorpus, prefix: str) -> EntityCorpus:
    """The corpus with only those queries whose id begins with `prefix`."""
    kept = {
        split: tuple(query for query in queries if query.query_id.startswith(prefix))
        for split, queries in corpus.queries.items()
    }
    return dataclasses.replace(corpus, queries=kept)


def _names_kept(command: Command, config: docent_jax.Config, own: Bag) -> Rankings:
    """Rankings of the baselines on the same reviews with the films' names left in.

    Args:
        command: what was asked for.
        config: of the runs, which were trained without names.
        own: of their encoder and their corpus.
    """
    encoder, removed = own.encoder, own.data.corpus
    if config.data.source == "python_api" or config.data.keep_names:
        raise InputError(
            "--names-kept, and documents from which no names were removed",
            "Leave it out, or give runs on films without their names.",
        )
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, keep_names=True))
    corpus = _with_queries(load_documents(config.data, command.data_dir), command.queries)
    if corpus.entities != removed.entities:
        raise InputError(
            f"with their names left in, reviews are of {len(corpus.entities):,} films, not"
            f" {len(removed.entities):,}",
            "Leave out --names-kept.",
        )
    tokens = command.data_dir / TOKENS
    data = tokenize_corpus(corpus, encoder.tokenizer, config.data, folder=tokens)
    known = dict(zip(removed.sentences, own.sentences, strict=True))
    sentences = encode_unknown(encoder, data, own.model, known)
    table = fit_table(sentences, data, config)
    lexical = lexical_corpus(corpus, config.data, command.lexical, command.data_dir)
    rankings = baseline_rankings(corpus, sentences, own.queries, table, lexical)
    return {names_kept(name): ranking for name, ranking in rankings.items()}


def encode_unknown(
    encoder: PretrainedBert,
    data: EncodedCorpus,
    config: ModelConfig,
    known: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Encodes the sentences that are not known yet, and gives the vectors of all.

    Args:
        encoder: untrained.
        data: whose sentences.
        config: pooling.
        known: sentence -> its vector by the same encoder, float32 `[dim]`.

    Returns:
        float32 `[sentences, dim]`.
    """
    texts = data.corpus.sentences
    unknown = np.array([row for row, text in enumerate(texts) if text not in known], np.int64)
    dim = encoder.config.hidden_size
    vectors = np.empty((len(texts), dim), np.float32)
    if len(unknown):
        params = jax.tree.map(jnp.asarray, encoder.params)
        encode_batch = functools.partial(jit_encoder(encoder.config, config.pooling), params)
        table = TokenTable(data.sentences.input_ids[unknown], data.sentences.lengths[unknown])
        vectors[unknown] = encode(encode_batch, table, progress="encoding sentences with names")
    for row, text in enumerate(texts):
        if text in known:
            vectors[row] = known[text]
    return vectors


if __name__ == "__main__":
    main()
