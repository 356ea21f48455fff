"""Trains an encoder of formulas by graph contrastive learning on Wikipedia's formulas.

COMMAND   python -m experiments.gcl.train --preset small --run runs/gcl
TIME      small: parsing a minute, training minutes; smoke: half a minute
HARDWARE  small, smoke: 2 CPU cores; paper: an accelerator
SCORE     printed at the end: bpref partial/full, both pools, all, odd and even topics

Formulas are read from --formulas, judgements from --folder; by default both lie in the folder
`formulas` of the folder that RETRIEVAL_DATA names. Judgements are never trained on: the odd topics
choose among the checkpoints. Called again with the same options it goes on where it stopped.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

import gcl_jax
from gcl_jax.data import Formulas
from gcl_jax.datasets import wikipedia_formulas
from gcl_jax.datasets.builders import read_formulas
from gcl_jax.datasets.ntcir12 import JudgedFormulas, data_folder, read_judged
from gcl_jax.evaluation import MEASURES, POOLS, TOPICS, evaluate_ranking, rank
from gcl_jax.pretraining import PACKAGE
from gcl_jax.scoring import scores
from retrieval_jax import plots
from retrieval_jax.config import parse_command_line
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries, read_metrics
from retrieval_jax.rankings import Ranking, write_ranking
from retrieval_jax.runs import RunFolder

FORMULAS = "enwiki_formulas.tsv.xz"
SLT_WEIGHTS = tuple(round(0.1 * i, 1) for i in range(11))


@dataclasses.dataclass(frozen=True)
class Command:
    """What to train and where.

    Attributes:
        config: the configuration.
        run: run folder, made here; an interrupted run is taken up.
        formulas: Wikipedia's formulas; see `gcl_jax.datasets.wikipedia_formulas`.
        folder: NTCIR-12's files.
        data_dir: where parsed formulas are kept.
    """

    config: Annotated[gcl_jax.Config, tyro.conf.arg(name="")]
    run: Path = Path("runs/gcl")
    formulas: Path | None = None
    folder: Path | None = None
    data_dir: Path = Path("data")


@one_screen_errors
def main() -> None:
    """Trains as the command line says, then evaluates."""
    commands = {name: Command(config) for name, config in gcl_jax.PRESETS.items()}
    description = "Trains a graph encoder of formulas by contrastive learning."
    command = parse_command_line(commands, "python -m experiments.gcl.train", description)
    quiet_libraries()
    judged = read_judged(data_folder(command.folder))
    formulas = training_formulas(command.formulas, command.folder, command.data_dir)
    run, trained = gcl_jax.pretrain(command.config, formulas, command.run, judged)
    measure = command.config.training.best_measure
    plots.training_curves(read_metrics(run.path), measure, run.plots / "training.png")
    results, ranking = evaluate_run(run.path, judged)
    write_ranking(run.path / "ranking.trec", ranking, PACKAGE)
    run.write_json("results.json", {"best_step": trained.best_step, **results})
    print_results(run, results)


def training_formulas(path: Path | None, folder: Path | None, data_dir: Path) -> Formulas:
    """Wikipedia's formulas, parsed once.

    Args:
        path: the file; None = `FORMULAS` among NTCIR-12's.
        folder: NTCIR-12's files, as `data_folder` takes them.
        data_dir: where parsed formulas are kept.
    """
    path = data_folder(folder) / FORMULAS if path is None else path
    return read_formulas(wikipedia_formulas.prepare(path, data_dir))


def evaluate_run(path: Path, judged: JudgedFormulas) -> tuple[dict[str, Any], Ranking]:
    """Measures of a trained run.

    Returns:
        `bpref`: pool -> topics -> measure -> mean, and `slt_weight`, the share of layout trees that
        is best on the odd topics (of a run with both layouts); and the ranking by it.
    """
    searcher = gcl_jax.load(path)
    queries, documents = map(searcher.encode_formulas, (judged.queries, judged.formulas))
    exponent = searcher.config.model.document_exponent

    def at(weight: float) -> Ranking:
        return rank(judged, scores(queries, documents, exponent, weight))

    def on_odd(weight: float) -> float:
        return sum(evaluate_ranking(judged, at(weight), topics="odd").mean.values())

    weight = max(SLT_WEIGHTS, key=on_odd) if len(queries) > 1 else 0.5
    ranking = at(weight)
    bpref = {
        pool: {topics: evaluate_ranking(judged, ranking, pool, topics).mean for topics in TOPICS}
        for pool in POOLS
    }
    return {"slt_weight": weight, "bpref": bpref}, ranking


def print_results(run: RunFolder, results: Mapping[str, Any]) -> None:
    """Prints the measures, and what to do next."""
    table = Table(title=f"bpref partial/full; share of layout trees {results['slt_weight']}")
    table.add_column("pool")
    for topics in TOPICS:
        table.add_column(f"{topics} topics", justify="right")
    for pool, of_pool in results["bpref"].items():
        cells = ["/".join(f"{of_pool[t][m]:.3f}" for m in MEASURES) for t in TOPICS]
        table.add_row(pool, *cells)
    console = Console()
    console.print(table)
    console.print(
        f"search: python -m experiments.gcl.search 'x^2+y^2' --run {run.path}"
        " --collection formulas.txt",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
