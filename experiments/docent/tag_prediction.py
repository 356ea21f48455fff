"""Tag prediction (the paper's table 4 and figure 2) of trained runs beside the baselines.

COMMAND   python -m experiments.docent.tag_prediction --runs runs/hybrid runs/dual
TIME      not yet measured; DocEnt-Full is the slow one: it encodes each pair of film and tag
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
from docent_jax.data import tokenize_corpus
from docent_jax.datasets.films import FilmData
from docent_jax.datasets.load import load_films
from docent_jax.datasets.movielens import MovieLens
from docent_jax.pretraining import PACKAGE, TOKENS, VECTORS, encode_frozen, load_encoder
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
from experiments.docent.comparison import check_same_documents
from experiments.docent.tag_comparison import (
    PARTS,
    FineTuned,
    System,
    all_counts,
    evaluate_split,
    fixed,
    print_counts,
    print_results,
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


@dataclasses.dataclass(frozen=True)
class Command:
    """Tag prediction of trained runs beside the baselines.

    Attributes:
        runs: run folders of one data set; the first one's encoder makes the bag of sentences.
        data_dir: where prepared documents are kept.
        protocol: the paper's, or the small one for few votes.
        tuning: how models are fine-tuned, but for what is chosen.
        learning_rates: chosen from, for each split on its own dev.
        weights: chosen from likewise.
        negative_shares: chosen from likewise.
        full_negative_share: of DocEnt-Full, which needs a text for each negative.
        full_dev_films: dev films on which DocEnt-Full is measured while training.
        open_tags: numbers of training tags of the open task, beside all (figure 2c).
        word_vectors: a GloVe file; None trains word2vec on the sentences.
        movielens: MovieLens' zip with the tag genome, for TagGenome.
        results: JSON file to write besides `tags.json` in the first run folder.
    """

    runs: tuple[Path, ...]
    data_dir: Path = Path("data")
    protocol: Literal["small", "published"] = "small"
    tuning: TagTuningConfig = TagTuningConfig()
    learning_rates: tuple[float, ...] = (2e-5, 1e-4)
    weights: tuple[Literal["votes", "log_votes"], ...] = ("log_votes",)
    negative_shares: tuple[float, ...] = (0.25,)
    full_negative_share: float = 0.01
    full_dev_films: int = 40
    open_tags: tuple[int, ...] = (100, 200, 300, 400, 500)
    word_vectors: Path | None = None
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
    protocol = make_protocol(votes, names, films.vocabulary)
    counted = all_counts(protocol, votes)
    print_counts(counted)
    protocol = measurable(protocol, counted)
    truth = votes[None]
    if protocol.user_folds > 1:
        truth = truths(user_fold_votes(tag_votes, len(names), protocol.user_folds))

    systems, bag = baselines(command, run, config, films)
    for path in command.runs:
        check_same_documents(*open_run(path, PACKAGE, docent_jax.Config), run, config, films.corpus)
        tag_run = load_tag_run(path, names, films.vocabulary)
        zero_shot = docent_jax.load(path).score(films.vocabulary).T
        systems[f"{path}, zero-shot"] = fixed(zero_shot)
        systems[str(path)] = tuned(command, tag_run, votes, truth, protocol)
    systems[TUNED_BAG] = tuned(command, bag, votes, truth, protocol)

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
    configs = {str(path): open_run(path, PACKAGE, docent_jax.Config)[1] for path in command.runs}
    seeds = sorted({of_run.training.seed for of_run in configs.values()})
    corpus = films.corpus
    results = make_record(
        "docent tag prediction", corpus.summary, configs, seeds, corpus.fingerprint, found
    )
    print_results("Closed vocabulary", results["closed"])
    print_results("Open vocabulary, all training tags", results["open"]["all"])
    print(f"{HUMAN}: a third of the users, against the votes of the others alone.")
    run.write_json("tags.json", results)
    write_record(command.results, results)


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


def baselines(
    command: Command, run: RunFolder, config: docent_jax.Config, films: FilmData
) -> tuple[dict[str, System], TagRun]:
    """Baselines that are not trained on tags, and the bag of sentences to be fine-tuned."""
    corpus, tags = films.corpus, films.vocabulary
    of_words = word_vectors(command, run, films)  # first: it may lack its package
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, kind="dual"))
    encoder = load_encoder(config.model)
    kept = command.data_dir
    data = tokenize_corpus(corpus, encoder.tokenizer, config.data, folder=kept / TOKENS)
    sentences, _ = encode_frozen(encoder, data, config.model, kept / VECTORS)
    bag = TagRun(
        run.path / "bag_of_sentences",
        config,
        encoder.config,
        encoder.params,
        mean_vectors(sentences, corpus.sentence_entities, len(corpus.entities)),
        tokenize(tags, encoder.tokenizer, config.data.max_length),
    )
    tag_vectors = bag.softmax_model().encode_tags()
    systems = {
        TFIDF: fixed(tfidf_tag_scores(corpus, tags)),
        BM25: fixed(bm25_tag_scores(corpus, tags)),
        WORDS: fixed(bag_of_words_tag_scores(corpus, tags, of_words)),
        BAG: fixed(bag_of_sentences_tag_scores(tag_vectors, sentences, corpus)),
    }
    if command.movielens is not None:
        genome = tag_genome_scores(MovieLens(command.movielens), films.movielens_ids, tags)
        systems[GENOME] = fixed(genome)
    return systems, bag


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
    shares = (command.full_negative_share,) if is_full else command.negative_shares
    candidates = []
    for rate, weights, share in itertools.product(command.learning_rates, command.weights, shares):
        tuning = with_rate(command.tuning, rate)
        candidates.append(dataclasses.replace(tuning, weights=weights, negative_share=share))
    return FineTuned(
        run,
        run.path / f"tags_{protocol.name}",
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
    """Closed and open vocabulary: "closed" and "open" -> ... -> system -> T -> part -> summary."""
    fusions = [(name, TFIDF) for name, s in systems.items() if isinstance(s, FineTuned)]

    def summaries(splits: Sequence[TagSplit], of: dict[str, System]) -> dict[str, Any]:
        pairs = [pair for pair in fusions if pair[0] in of and pair[1] in of]
        rows = [evaluate_split(of, pairs, split, truth, protocol.thresholds) for split in splits]
        return {
            name: {
                f"T = {t}": {part: summary([row[name][t][part] for row in rows]) for part in PARTS}
                for t in protocol.thresholds
            }
            for name in rows[0]
        }

    trained = {name: s for name, s in systems.items() if isinstance(s, FineTuned)}
    available = len(protocol.open.train_tags)
    open_results = {
        # Only what is fine-tuned depends on the number of training tags.
        str(number): summaries([limit_tags(protocol.open, number)], trained)
        for number in command.open_tags
        if trained and number < available
    }
    open_results["all"] = summaries([protocol.open], systems)
    closed = summaries(protocol.closed, {TOP_TAGS: top_tags(votes), **systems})
    return {"closed": closed, "open": open_results, "open_training_tags": available}


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
