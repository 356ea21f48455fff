"""Tag prediction (the paper's table 4 and figure 2) of trained runs beside the baselines.

COMMAND   python -m experiments.docent.tag_prediction --runs runs/hybrid runs/dual
TIME      some 3 minutes for each of 8 splits and each fine-tuned system; DocEnt-Full, which encodes
          each pair of film and tag, takes several times that, and --films 50 is for it
HARDWARE  2 CPU cores
SCORE     tags.json in the first run folder, and where --results says

Closed vocabulary: films held out. Open vocabulary: tags held out.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

import docent_jax
from docent_jax.baselines import mean_vectors
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.films import FilmData
from docent_jax.datasets.load import load_films
from docent_jax.datasets.movielens import MovieLens
from docent_jax.pretraining import PACKAGE
from docent_jax.tag_baselines import (
    bag_of_sentences_tag_scores,
    bag_of_words_tag_scores,
    bm25_tag_scores,
    tag_genome_scores,
    tfidf_tag_scores,
)
from docent_jax.tag_evaluation import (
    Protocol,
    TagSplit,
    human_measures,
    limit_films,
    limit_tags,
    published_protocol,
    small_protocol,
    truths,
    user_fold_votes,
)
from docent_jax.tag_runs import TagRun, load_tag_run
from docent_jax.tag_task import TagTuningConfig
from docent_jax.word_vectors import (
    WordVectors,
    read_word_vectors,
    split_words,
    train_word2vec,
    write_word2vec,
)
from experiments.docent.bags import bag_names, make_bag
from experiments.docent.comparison import (
    check_same_documents,
    lexical_corpus,
    model_name,
    source_in_words,
    what_is_read,
)
from experiments.docent.tag_comparison import (
    PARTS,
    FineTuned,
    System,
    all_counts,
    evaluate,
    fixed,
    print_counts,
    print_results,
    significance,
    summaries,
    summary,
    top_tags,
    with_rate,
)
from experiments.records import make_record, write_record
from retrieval_jax.config import to_dict
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.pipeline import tokenize
from retrieval_jax.runs import RunFolder, open_run

TOP_TAGS, TFIDF, BM25, GENOME, HUMAN = "top tags", "TF-IDF", "BM25", "TagGenome", "Human"
BAG, TUNED_BAG, WORDS = "bag of sentences", "bag of sentences, tags fine-tuned", "bag of words"

# What two CPU cores do in three minutes a split; accelerators have time for more.
_TRAINING = dataclasses.replace(TagTuningConfig().training, steps=120, evaluate_every=40)
TUNING = TagTuningConfig(training=_TRAINING)
FULL_TUNING = TagTuningConfig(
    negative_share=0.01,
    training=dataclasses.replace(_TRAINING, batch_size=16, evaluate_every=60),
)


@dataclasses.dataclass(frozen=True)
class Command:
    """Tag prediction of trained runs beside the baselines.

    Attributes:
        runs: run folders of one data set; the first one's encoder makes the bag of sentences.
        lexical: sentences that TF-IDF and BM25 read: all of each document, or the same as the
            models, which may see some of each.
        data_dir: where prepared documents are kept.
        protocol: the paper's, or the small one for few votes.
        films: dev films and test films of each split, at most, for time; None = all.
        tuning: how Dual, Hybrid and the bag of sentences are fine-tuned, but for what is chosen.
        full_tuning: how DocEnt-Full is: it encodes a text for each pair of film and tag, so its
            batches are small and its negatives few.
        learning_rates: chosen from, for each split on its own dev.
        weights: chosen from likewise.
        negative_shares: chosen from likewise, but for Full.
        full_dev_films: dev films on which DocEnt-Full is measured while training.
        open_tags: numbers of training tags of the open task, beside all (figure 2c).
        word_vectors: a GloVe file or GloVe's zip; None trains word2vec on the sentences.
        bags: further encoders (BERT folders, packages or hub names) for the bag of sentences, whole
            and by the mean of their word pieces' vectors.
        movielens: MovieLens' zip with the tag genome, for TagGenome.
        results: JSON file to write besides `tags.json` in the first run folder.
    """

    runs: tuple[Path, ...]
    lexical: Literal["all", "same"] = "all"
    data_dir: Path = Path("data")
    protocol: Literal["small", "published"] = "small"
    films: int | None = None
    tuning: TagTuningConfig = TUNING
    full_tuning: TagTuningConfig = FULL_TUNING
    learning_rates: tuple[float, ...] = (5e-5,)
    weights: tuple[Literal["votes", "log_votes"], ...] = ("log_votes",)
    negative_shares: tuple[float, ...] = (0.1,)
    full_dev_films: int = 10
    open_tags: tuple[int, ...] = (100, 300)
    word_vectors: Path | None = None
    bags: tuple[str, ...] = ()
    movielens: Path | None = None
    results: Path | None = None


@one_screen_errors
def main() -> None:
    """Evaluates as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.docent.tag_prediction")
    quiet_libraries()
    if not command.runs:
        raise InputError("no run folder was given", "Give one or more after --runs.")
    run, config = open_run(command.runs[0], PACKAGE, docent_jax.Config)
    films = load_films(config.data, command.data_dir)
    if not films.vocabulary:
        raise InputError(
            "these films have no closed vocabulary of tags", "Give data with genome tags."
        )
    tag_votes = films.tags.restrict(films.vocabulary)
    names = films.corpus.entities
    votes = tag_votes.votes(len(names))
    make_protocol = small_protocol if command.protocol == "small" else published_protocol
    protocol = make_protocol(votes, names, films.vocabulary, films.movielens_ids)
    protocol = limited(protocol, command.films)
    counted = all_counts(protocol, votes)
    print_counts(counted)
    protocol = measurable(protocol, counted)
    truth = votes[None]
    if protocol.user_folds > 1:
        truth = truths(user_fold_votes(tag_votes, len(names), protocol.user_folds))

    lexical = lexical_corpus(films.corpus, config.data, command.lexical, command.data_dir)
    systems = untrained(command, run, films, lexical)
    systems |= encoders(command, films, votes, truth, protocol)
    found = {
        "protocol": protocol.name,
        "counts": counted,
        **evaluate_all(command, systems, votes, truth, protocol),
        "tuning": {
            name: {s.name: to_dict(system.choose(s)) for s in (*protocol.closed, protocol.open)}
            for name, system in systems.items()
            if isinstance(system, FineTuned)
        },
    }
    fold_votes = user_fold_votes(tag_votes, len(names))
    found["closed"][HUMAN] = human_rows(protocol.closed, protocol, fold_votes)
    found["open"]["all"][HUMAN] = human_rows([protocol.open], protocol, fold_votes)
    configs = named_configs(command.runs)
    seeds = sorted({of_run.training.seed for of_run in configs.values()})
    corpus = films.corpus
    data = f"{source_in_words(config)}, {corpus.summary}{what_is_read(corpus, lexical)}"
    results = make_record("docent tag prediction", data, configs, seeds, corpus.fingerprint, found)
    print_results("Closed vocabulary", results["closed"])
    print_results("Open vocabulary, all training tags", results["open"]["all"])
    print(f"{HUMAN}: a third of the users, against the votes of the others alone.")
    run.write_json("tags.json", results)
    write_record(command.results, results)


def named_configs(runs: Sequence[Path]) -> dict[str, docent_jax.Config]:
    """Configurations by the names of their models, with the folder where a model has several runs.

    Raises:
        InputError: a folder that is no run, or two of one model whose names are equal.
    """
    configs = [open_run(path, PACKAGE, docent_jax.Config)[1] for path in runs]
    models = [model_name(config) for config in configs]
    named = {
        model if models.count(model) == 1 else f"{model} ({path.resolve().name})": config
        for path, model, config in zip(runs, models, configs, strict=True)
    }
    if len(named) < len(runs):
        raise InputError(
            f"--runs names a folder twice: {', '.join(map(str, runs))}",
            "Give each once, and runs of one model folders with different names.",
        )
    return named


def limited(protocol: Protocol, films: int | None) -> Protocol:
    """The protocol with so many dev films and test films in each split, at most."""
    if films is None:
        return protocol
    return dataclasses.replace(
        protocol,
        name=f"{protocol.name}, at most {films} films of a part",
        closed=tuple(limit_films(split, films) for split in protocol.closed),
        open=limit_films(protocol.open, films),
    )


def measurable(protocol: Protocol, counted: Sequence[Mapping[str, Any]]) -> Protocol:
    """The protocol without the T at which the dev or test of some split has no positive pair.

    Raises:
        InputError: none is left.
    """
    empty = {row["T"] for row in counted if row["part"] in PARTS and not row["positive pairs"]}
    if empty:
        print(f"left out, for a split without any positive pair: T = {sorted(empty)}")
    kept = tuple(t for t in protocol.thresholds if t not in empty)
    if not kept:
        raise InputError("too few tags to measure on every split", "Take more films.")
    return dataclasses.replace(protocol, thresholds=kept)


def untrained(
    command: Command, run: RunFolder, films: FilmData, lexical: EntityCorpus
) -> dict[str, System]:
    """Baselines that are trained on nothing but the reviews; TF-IDF and BM25 read `lexical`."""
    tags = films.vocabulary
    of_words = word_vectors(command, run, films)  # first: it may lack its package
    systems = {
        TFIDF: fixed(tfidf_tag_scores(lexical, tags)),
        BM25: fixed(bm25_tag_scores(lexical, tags)),
        WORDS: fixed(bag_of_words_tag_scores(films.corpus, tags, of_words)),
    }
    if command.movielens is not None:
        genome = tag_genome_scores(MovieLens(command.movielens), films.movielens_ids, tags)
        systems[GENOME] = fixed(genome)
    return systems


def encoders(
    command: Command,
    films: FilmData,
    votes: np.ndarray,
    truth: np.ndarray,
    protocol: Protocol,
) -> dict[str, System]:
    """Bags of sentences and runs, each as it is and fine-tuned on tags.

    Raises:
        InputError: runs of other documents than the first one's.
    """
    run, config = open_run(command.runs[0], PACKAGE, docent_jax.Config)
    systems: dict[str, System] = {}
    tuned_bags = {}
    others = [f" ({name})" for name in bag_names(command.bags)]
    for other, of in zip((None, *command.bags), ("", *others), strict=True):
        bag, systems[f"{BAG}{of}"] = bag_of_sentences(command, run, config, films, other)
        tuned_bags[f"{TUNED_BAG}{of}"] = tuned(command, bag, votes, truth, protocol)
    for path, name in zip(command.runs, named_configs(command.runs), strict=True):
        check_same_documents(*open_run(path, PACKAGE, docent_jax.Config), run, config, films.corpus)
        tag_run = load_tag_run(path, films.corpus.entities, films.vocabulary)
        systems[f"{name}, zero-shot"] = fixed(docent_jax.load(path).tag_scores(films.vocabulary))
        systems[name] = tuned(command, tag_run, votes, truth, protocol)
    return systems | tuned_bags


def bag_of_sentences(
    command: Command,
    run: RunFolder,
    config: docent_jax.Config,
    films: FilmData,
    other: str | None = None,
) -> tuple[TagRun, System]:
    """The bag of sentences of the runs' encoder, or another: to be fine-tuned, and as it is.

    Only the encoder of tags is then fine-tuned; means of sentences stay those of the untrained one,
    where the paper's BoS-BERT is fine-tuned on both sides.
    """
    corpus = films.corpus
    bag = make_bag(config, corpus, command.data_dir, other)
    tag_run = TagRun(
        run.path / "bag_of_sentences",
        dataclasses.replace(config, model=bag.model),
        bag.encoder.config,
        bag.encoder.params,
        mean_vectors(bag.sentences, corpus.sentence_entities, len(corpus.entities)),
        tokenize(films.vocabulary, bag.encoder.tokenizer, config.data.max_length),
    )
    tags = tag_run.model().encode_tags()
    return tag_run, fixed(bag_of_sentences_tag_scores(tags, bag.sentences, corpus))


def word_vectors(command: Command, run: RunFolder, films: FilmData) -> WordVectors:
    """GloVe as given, else word2vec, trained once for a run folder."""
    if command.word_vectors is not None:
        texts = itertools.chain(films.corpus.sentences, films.vocabulary)
        words = frozenset(itertools.chain.from_iterable(map(split_words, texts)))
        return read_word_vectors(command.word_vectors, words)
    path = run.path / "word2vec.txt"
    if path.is_file():
        return read_word_vectors(path)
    vectors = train_word2vec(films.corpus.sentences)
    write_word2vec(path, vectors.words, vectors.vectors)
    return vectors


def tuned(
    command: Command, run: TagRun, votes: np.ndarray, truth: np.ndarray, protocol: Protocol
) -> FineTuned:
    """A run to be fine-tuned, with all settings to choose from."""
    is_full = run.config.model.kind == "full"
    base = command.full_tuning if is_full else command.tuning
    shares = (base.negative_share,) if is_full else command.negative_shares
    candidates = [
        dataclasses.replace(with_rate(base, rate), weights=weights, negative_share=share)
        for rate, weights, share in itertools.product(
            command.learning_rates, command.weights, shares
        )
    ]
    return FineTuned(
        run,
        run.path / f"tags_{command.protocol}",
        votes,
        truth,
        protocol.thresholds[0],
        candidates,
        command.full_dev_films if is_full else None,
    )


def evaluate_all(
    command: Command,
    systems: dict[str, System],
    votes: np.ndarray,
    truth: np.ndarray,
    protocol: Protocol,
) -> dict[str, Any]:
    """Closed and open vocabulary, what the record holds of them.

    Returns:
        "closed" and "open" -> ... -> system -> T -> part -> summary; "significance": each trained
        model against the baselines on test.
    """
    trained = {name: s for name, s in systems.items() if isinstance(s, FineTuned)}
    fusions = [(name, TFIDF) for name in trained]
    available = len(protocol.open.train_tags)
    # Only what is fine-tuned depends on the number of training tags.
    open_results = {
        str(number): summaries(
            evaluate(trained, (), [limit_tags(protocol.open, number)], truth, protocol.thresholds)
        )
        for number in command.open_tags
        if number < available
    }
    opened = evaluate(systems, fusions, [protocol.open], truth, protocol.thresholds)
    everything = {TOP_TAGS: top_tags(votes), **systems}
    closed = evaluate(everything, fusions, protocol.closed, truth, protocol.thresholds)
    bags = [name for name in systems if name.startswith(BAG)]
    models = [name for name in trained if name not in bags]
    baselines = [TFIDF, *bags, *(name for name in systems if name == GENOME)]
    pairs = [(model, baseline) for model in models for baseline in baselines]
    pairs += [(f"{model} + {TFIDF}", TFIDF) for model in models]
    pairs += itertools.combinations(models, 2)
    return {
        "closed": summaries(closed),
        "open": open_results | {"all": summaries(opened)},
        "open_training_tags": available,
        "significance": significance({"closed": closed, "open": opened}, pairs),
    }


def human_rows(splits: Sequence[TagSplit], protocol: Protocol, folds: np.ndarray) -> dict[str, Any]:
    """The Human row: T -> part -> summary; without the T at which a fold has no positive."""
    rows = {}
    for t in protocol.thresholds:
        with contextlib.suppress(InputError):
            rows[f"T = {t}"] = {
                part: summary([human_measures(split, part, folds, t) for split in splits])
                for part in PARTS
            }
    return rows


if __name__ == "__main__":
    main()
