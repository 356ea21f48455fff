"""Trains a ranker for one pair of languages.

COMMAND   python -m experiments.ltr.train --data.pair en-de --model.features text+meta
TIME      small: one to three minutes of one core a pair; the vectors, before, under half a minute
HARDWARE  small, smoke: 2 CPU cores; paper: accelerators
SCORE     see experiments.ltr.table_wikipedia

Called again with the same options it goes on where it stopped.
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

import ltr_jax
from ltr_jax.datasets.load import load_collection
from retrieval_jax import plots
from retrieval_jax.config import parse_command_line
from retrieval_jax.distributed import is_main, main_first
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries, read_metrics


@dataclasses.dataclass(frozen=True)
class Command:
    """What to train and where.

    Attributes:
        config: the configuration.
        run: run folder, made here; an interrupted run is taken up.
        data_dir: where prepared collections and vectors are kept.
    """

    config: Annotated[ltr_jax.Config, tyro.conf.arg(name="")]
    run: Path = Path("runs/ltr/train")
    data_dir: Path = Path("data")


@one_screen_errors
def main() -> None:
    """Trains as the command line says."""
    commands = {name: Command(config) for name, config in ltr_jax.PRESETS.items()}
    description = "Trains a cross-lingual ranker on text, categories or both (--model.features)."
    command = parse_command_line(commands, "python -m experiments.ltr.train", description)
    quiet_libraries()
    config = command.config
    config.refuse_idle_steps()
    collection = main_first(lambda: load_collection(config.data, command.data_dir))
    print(collection.summary)
    prepared = ltr_jax.prepare_vectors(config, collection, command.data_dir / "vectors")
    spent = ", ".join(f"{kind} {seconds:.0f} s" for kind, seconds in prepared.seconds.items())
    print(f"vectors, trained before: {spent}")
    run, trained = ltr_jax.train_ranker(config, collection, lambda: prepared.vectors, command.run)
    measure = config.training.best_measure
    if is_main():
        plots.training_curves(read_metrics(run.path), measure, run.plots / "training.png")
    best = f"{trained.best[measure]:.4f}" if trained.best else "unknown: no dev queries"
    print(
        f"{trained.step} steps; best dev {measure} {best} at step {trained.best_step}\n"
        f"rerank: python -m experiments.ltr.rerank --runs {run.path}\n"
        f'use:    python -m ltr_jax rank --run {run.path} "a query" --documents FILE'
    )


if __name__ == "__main__":
    main()
