"""The README's first command: an entity model on real text, trained and evaluated in minutes.

COMMAND   python -m experiments.quickstart
TIME      about 4 minutes, at most 8
HARDWARE  2 CPU cores
SCORE     experiments/results/docent_quickstart.json

Builds `python_api` from the docstrings of installed libraries, trains DocEnt-Dual from MiniLM's
weights on a named subset, compares it with the baselines, loads it back from its run folder and
answers three questions. All that was left out of the subset:
--data.entities None --data.sentences-per-entity None --run runs/whole
"""

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import tyro

import docent_jax
from docent_jax.data import tokenize_corpus
from docent_jax.datasets.load import load_documents
from docent_jax.inference import print_answers
from docent_jax.pretraining import encode_frozen, fit_table, load_encoder
from experiments.docent.comparison import (
    baseline_rankings,
    compare,
    model_name,
    print_table,
    results_record,
    save,
)
from retrieval_jax import plots
from retrieval_jax.config import parse_command_line
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries, read_metrics

QUERIES = [
    "fast fourier transform of real input",
    "find the roots of a polynomial given its coefficients",
    "draw random samples from a bell-shaped distribution",
]


@dataclasses.dataclass(frozen=True)
class Command:
    """What to train and where.

    Attributes:
        config: the configuration.
        run: run folder, made here; an interrupted run is taken up.
        data_dir: where prepared documents are kept.
        results: JSON file to write besides `results.json` in the run folder.
    """

    config: Annotated[docent_jax.Config, tyro.conf.arg(name="")]
    run: Path = Path("runs/quickstart")
    data_dir: Path = Path("data")
    results: Path | None = None


@one_screen_errors
def main() -> None:
    """Runs the quickstart."""
    presets = {name: docent_jax.PRESETS[name] for name in ("quickstart", "smoke")}
    command = parse_command_line(
        {name: Command(config) for name, config in presets.items()},
        prog="python -m experiments.quickstart",
        description="Trains and evaluates an entity model on docstrings of installed libraries.",
        default="quickstart",
    )
    quiet_libraries()
    started = time.perf_counter()
    config = command.config
    corpus = load_documents(config.data, command.data_dir)
    print(f"1. Documents: docstrings of {', '.join(config.data.packages)}, {config.data.subset}")
    print(f"   {corpus.summary}")

    print(f"2. Sentence vectors of the untrained encoder, {config.model.encoder}")
    encoder = load_encoder(config.model)
    data = tokenize_corpus(corpus, encoder.tokenizer, config.data)
    sentences, queries = encode_frozen(encoder, data, config.model)

    print(f"3. Training {model_name(config)}, {config.training.steps} steps")
    run, trained = docent_jax.pretrain(config, corpus, command.run, lambda: sentences)
    measure = config.training.best_measure
    plots.training_curves(read_metrics(run.path), measure, run.plots / "training.png")

    print("4. Evaluation of the parameters that were best on dev")
    baselines = baseline_rankings(corpus, sentences, queries, fit_table(sentences, data, config))
    comparison = compare(corpus, baselines, {model_name(config): [run.path]})
    configs = {model_name(config): config}
    seeds = [config.training.seed]
    results = results_record(configs, seeds, corpus, corpus.fingerprint, comparison)
    print_table(results, corpus)
    save(run, results, command.results)

    print("5. Answers of the model, loaded from its run folder")
    print_answers(QUERIES, docent_jax.load(run.path).rank(QUERIES, k=5))
    rate = trained.examples_per_second
    speed = "taken from an earlier call" if rate is None else f"{rate:.0f} sentences/s"
    print(f"{time.perf_counter() - started:.0f} s; training {speed}; everything is in {run.path}")
    print(f'ask more: python -m docent_jax rank --run {run.path} "your question"')


if __name__ == "__main__":
    main()
