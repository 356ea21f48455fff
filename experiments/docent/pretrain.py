"""Pre-trains a DocEnt model on the documents of entities.

COMMAND   python -m experiments.docent.pretrain --preset small --run runs/docent
TIME      small: about 20 minutes, smoke: half a minute; films: about an hour to encode all
          sentences, once, and half an hour to an hour to train
HARDWARE  small, smoke: 2 CPU cores; paper: accelerators
SCORE     see experiments.docent.zero_shot_ranking

Called again with the same options it goes on where it stopped.
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

import docent_jax
from docent_jax.datasets.load import load_documents
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
        data_dir: where prepared documents are kept.
    """

    config: Annotated[docent_jax.Config, tyro.conf.arg(name="")]
    run: Path = Path("runs/docent")
    data_dir: Path = Path("data")


@one_screen_errors
def main() -> None:
    """Trains as the command line says."""
    commands = {name: Command(config) for name, config in docent_jax.PRESETS.items()}
    description = "Pre-trains DocEnt-Dual, -Full or -Hybrid (--model.kind)."
    command = parse_command_line(commands, "python -m experiments.docent.pretrain", description)
    quiet_libraries()
    corpus = main_first(lambda: load_documents(command.config.data, command.data_dir))
    print(corpus.summary)
    run, trained = docent_jax.pretrain(command.config, corpus, command.run, folder=command.data_dir)
    measure = command.config.training.best_measure
    if is_main():
        plots.training_curves(read_metrics(run.path), measure, run.plots / "training.png")
    best = f"{trained.best[measure]:.4f}" if trained.best else "unknown: no dev queries"
    print(
        f"{trained.step} steps; best dev {measure} {best} at step {trained.best_step}\n"
        f"evaluate: python -m experiments.docent.zero_shot_ranking --runs {run.path}\n"
        f'search:   python -m docent_jax rank --run {run.path} "a question in plain English"'
    )


if __name__ == "__main__":
    main()
