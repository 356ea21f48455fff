"""Reranking what tf-idf finds (section 3.2, third experiment).

COMMAND   python -m experiments.ltr.rerank --runs runs/ltr/... --translations FILE
          and, where nobody has translated the queries, --learn or --dictionary FILE
TIME      about a minute of one core a run
HARDWARE  a CPU core
SCORE     experiments/results/ltr_rerank_debian_clir.json (en-de, text+meta, --learn)

For each query the n irrelevant documents with the highest tf-idf score, and all relevant ones, are
ranked by tf-idf, by the model (plain reranking), and by a linear combination of both whose weight
is chosen on dev (weighted reranking). tf-idf compares documents with the queries' translations:
those of a file (the paper's are Google's), or word by word by a dictionary. Without either it
compares Latin tokens that both languages share. Systems have the way of translation in their names,
for it decides what they rank.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tyro

import ltr_jax
from experiments.ltr.comparison import (
    LEARNED,
    SPLITS,
    TFIDF,
    Split,
    fuse_levels,
    rank_splits,
    report_lacking,
    run_config,
    weight_on_dev,
)
from experiments.ltr.tables import means_and_tests, print_table, to_cells
from experiments.records import make_record, write_record
from ltr_jax.baselines import hardest_irrelevant, tfidf_ranking
from ltr_jax.datasets.collection import DIFFICULTIES, Collection
from ltr_jax.datasets.load import load_collection
from ltr_jax.evaluation import Levels, evaluate_levels, to_levels
from ltr_jax.tokenizers import latin_words, tokenizer
from ltr_jax.training import PACKAGE
from ltr_jax.translation import (
    learn_dictionary,
    read_dictionary,
    read_translations,
    translate_queries,
)
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.evaluation import Evaluation
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.runs import open_run

PLAIN, WEIGHTED = "plain reranking", "weighted reranking"
TESTED = ((PLAIN, TFIDF), (WEIGHTED, TFIDF), (WEIGHTED, PLAIN))
# Ways of translation, beside `LEARNED`.
UNTRANSLATED, BY_FILE, BY_DICTIONARY = "none", "given translations", "given dictionary"


@dataclasses.dataclass(frozen=True)
class Command:
    """Reranks the documents that tf-idf finds.

    Attributes:
        runs: run folders of one pair, which differ in their seed.
        n: irrelevant documents that tf-idf selects.
        translations: file of translated queries, lines of `id TAB text`.
        dictionary: file of lines `word TAB translation`; queries are translated word by word.
        learn: learn the dictionary from the training queries and their documents.
        split: what is evaluated.
        data_dir: where prepared collections are kept.
        results: JSON file to write.
    """

    runs: tuple[Path, ...]
    n: tuple[int, ...] = DIFFICULTIES
    translations: Path | None = None
    dictionary: Path | None = None
    learn: bool = False
    split: Split = "test"
    data_dir: Path = Path("data")
    results: Path | None = None


def translation(command: Command) -> str:
    """How queries are translated: `UNTRANSLATED`, `BY_FILE`, `BY_DICTIONARY` or `LEARNED`.

    Raises:
        InputError: more than one way was given.
    """
    ways = {
        BY_FILE: command.translations is not None,
        BY_DICTIONARY: command.dictionary is not None,
        LEARNED: command.learn,
    }
    given = [way for way, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise InputError(
            "more than one of --translations, --dictionary and --learn was given", "Give one."
        )
    return given[0] if given else UNTRANSLATED


def named(system: str, way: str) -> str:
    """A system's name with the way of translation; as it is where there is none."""
    return system if way == UNTRANSLATED else f"{system}, {way}"


def translated_queries(command: Command, collection: Collection) -> dict[str, str] | None:
    """Dev and test queries in the documents' language, as the command says; None = as they are.

    Raises:
        InputError: as `translation`, or files that cannot be read.
    """
    if translation(command) == UNTRANSLATED:
        return None
    asked = [query for split in SPLITS for query in collection.splits[split].query_ids]
    if command.translations is not None:
        return read_translations(command.translations, asked)
    if command.dictionary is not None:
        dictionary: Mapping[str, Sequence[str]] = read_dictionary(command.dictionary)
    else:
        dictionary = learn_dictionary(collection)
    return translate_queries(collection, asked, dictionary)


def rerank(command: Command, collection: Collection) -> dict[str, Any]:
    """Selects, reranks and evaluates.

    Args:
        command: what.
        collection: of all runs.

    Returns:
        Systems, tests and weights, as in `comparison.run_table`.
    """
    texts = translated_queries(command, collection)
    language = collection.documents.language
    words = latin_words if texts is None else tokenizer(language)
    topics = {
        split: hardest_irrelevant(
            collection, collection.splits[split], max(command.n), words, texts
        )
        for split in SPLITS
    }

    def levels(rankings: Mapping[str, Any]) -> dict[str, Levels]:
        return {split: to_levels(rankings[split], topics[split], command.n) for split in SPLITS}

    tfidf = levels(
        {s: tfidf_ranking(collection, topics[s].candidates, words, texts) for s in SPLITS}
    )
    judged = topics[command.split]
    of_tfidf = evaluate_levels(tfidf[command.split], judged)
    evaluations: dict[str, list[dict[int, Evaluation]]] = {
        TFIDF: [of_tfidf] * len(command.runs),
        PLAIN: [],
        WEIGHTED: [],
    }
    weights = []
    for path in command.runs:
        model = levels(rank_splits(ltr_jax.load(path), collection, topics))
        weight = weight_on_dev(model["dev"], tfidf["dev"], topics["dev"])
        fused = fuse_levels(model[command.split], tfidf[command.split], weight)
        evaluations[PLAIN].append(evaluate_levels(model[command.split], judged))
        evaluations[WEIGHTED].append(evaluate_levels(fused, judged))
        weights.append(weight)
    pair = f"{collection.queries.language}-{language}"
    way = translation(command)
    cells = to_cells({pair: {named(system, way): of for system, of in evaluations.items()}})
    tested = [(named(first, way), named(second, way)) for first, second in TESTED]
    return means_and_tests(cells, command.split, tested) | {"model_weights": weights}


@one_screen_errors
def main() -> None:
    """Reranks as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.ltr.rerank")
    quiet_libraries()
    if not command.runs or not command.n:
        raise InputError("no run folder, or no n, was given", "Give one or more of each.")
    opened = [open_run(path, PACKAGE, ltr_jax.Config) for path in command.runs]
    config = opened[0][1]
    collection = load_collection(config.data, command.data_dir)
    for run, its_config in opened:
        trained_on = run.read_json("provenance.json")["data_fingerprint"]
        if run_config(its_config, config.data.pair, its_config.model.features, 0) != run_config(
            config, config.data.pair, config.model.features, 0
        ):
            raise InputError(
                f"{run.path} differs from {opened[0][0].path} in more than its seed",
                "Give runs of one configuration.",
            )
        if its_config.data != config.data or trained_on != collection.fingerprint:
            raise InputError(
                f"{run.path} was trained on another collection than {collection.name} at hand",
                "Give runs on one collection, and the files that they were trained on.",
            )
    report_lacking(collection, command.split)
    record = make_record(
        f"ltr rerank {config.data.source}",
        collection.summary,
        {
            "ranker": config,
            "reranking": {"translation": translation(command), "n": list(command.n)},
        },
        [its_config.training.seed for _, its_config in opened],
        collection.fingerprint,
        {"split": command.split, **rerank(command, collection)},
    )
    print_table(record, f"Reranking tf-idf's documents ({collection.name})")
    write_record(command.results, record)


if __name__ == "__main__":
    main()
