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
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tensorflow_datasets as tfds
import tyro
from rich.table import Table

import gcl_jax
from experiments.fusion import WEIGHTS, best_weight
from gcl_jax.config import Config, DataConfig
from gcl_jax.data import Formulas, load_formulas, save_formulas
from gcl_jax.datasets import wikipedia_formulas
from gcl_jax.datasets.builders import read_formulas
from gcl_jax.datasets.ntcir12 import JudgedFormulas, data_folder, read_judged
from gcl_jax.evaluation import MEASURES, POOLS, TOPICS, evaluate_ranking, rank
from gcl_jax.inference import RESULTS
from gcl_jax.pretraining import PACKAGE, choose_formulas
from gcl_jax.scoring import scores
from retrieval_jax import plots
from retrieval_jax.config import parse_command_line, to_dict
from retrieval_jax.distributed import is_main, main_first
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.kept import content_name, keep
from retrieval_jax.logs import quiet_libraries, read_metrics, result_console
from retrieval_jax.rankings import Ranking, write_ranking
from retrieval_jax.runs import RunFolder

FORMULAS = "enwiki_formulas.tsv.xz"
SLT_WEIGHTS = (0.0, *WEIGHTS, 1.0)


@dataclasses.dataclass(frozen=True)
class Sources:
    """What is read.

    Attributes:
        formulas: Wikipedia's formulas, see `gcl_jax.datasets.wikipedia_formulas`; None = `FORMULAS`
            among NTCIR-12's files.
        folder: NTCIR-12's files; None = the folder formulas of RETRIEVAL_DATA.
        data_dir: where parsed formulas are kept.
    """

    formulas: Path | None = None
    folder: Path | None = None
    data_dir: Path = Path("data")

    def judged(self) -> JudgedFormulas:
        """Topics, judgements and what was judged."""
        return read_judged(data_folder(self.folder))

    def training_formulas(self) -> Formulas:
        """Wikipedia's formulas, parsed once."""
        return read_formulas(self._prepared())

    def chosen_formulas(self, data: DataConfig) -> Formulas:
        """What to give `gcl_jax.pretrain`, which chooses among them: a sample, or all.

        A sample is chosen here as it would be there, and kept: choosing looks at all formulas,
        which takes longer than a short training.
        """
        if data.formulas is None:
            return self.training_formulas()
        builder = self._prepared()

        def choose(folder: Path) -> None:
            save_formulas(folder, choose_formulas(read_formulas(builder), Config(data)))

        name = content_name([json.dumps(to_dict(data), sort_keys=True)])
        return load_formulas(keep(Path(builder.data_dir), f"chosen-{name}", choose))

    @property
    def formulas_file(self) -> Path:
        """The file of Wikipedia's formulas."""
        return data_folder(self.folder) / FORMULAS if self.formulas is None else self.formulas

    def _prepared(self) -> tfds.core.DatasetBuilder:
        return wikipedia_formulas.prepare(self.formulas_file, self.data_dir)


@dataclasses.dataclass(frozen=True)
class Command:
    """What to train and where.

    Attributes:
        config: the configuration.
        run: run folder, made here; an interrupted run is taken up.
        sources: what is read.
    """

    config: Annotated[gcl_jax.Config, tyro.conf.arg(name="")]
    run: Path = Path("runs/gcl")
    sources: Annotated[Sources, tyro.conf.arg(name="")] = Sources()


@one_screen_errors
def main() -> None:
    """Trains as the command line says, then evaluates."""
    commands = {name: Command(config) for name, config in gcl_jax.PRESETS.items()}
    description = "Trains a graph encoder of formulas by contrastive learning."
    command = parse_command_line(commands, "python -m experiments.gcl.train", description)
    quiet_libraries()
    judged = command.sources.judged()
    formulas = main_first(lambda: command.sources.chosen_formulas(command.config.data))
    run, trained = gcl_jax.pretrain(command.config, formulas, command.run, judged)
    measure = command.config.training.best_measure
    results, ranking = evaluate_run(run.path, judged)
    if is_main():
        plots.training_curves(read_metrics(run.path), measure, run.plots / "training.png")
        write_ranking(run.path / "ranking.trec", ranking, PACKAGE)
    run.write_json(RESULTS, {"best_step": trained.best_step, **results})
    print_results(run, results)


def evaluate_run(path: Path, judged: JudgedFormulas) -> tuple[dict[str, Any], Ranking]:
    """Measures of a trained run.

    Returns:
        `bpref`: pool -> topics -> measure -> mean, and `slt_weight` as `weighted_ranking` has it;
        and the ranking by it.
    """
    searcher = gcl_jax.load(path)
    queries, documents = map(searcher.encode_formulas, (judged.queries, judged.formulas))
    exponent = searcher.config.model.document_exponent
    ranking, weight = weighted_ranking(judged, queries, documents, exponent)
    bpref = {
        pool: {topics: evaluate_ranking(judged, ranking, pool, topics).mean for topics in TOPICS}
        for pool in POOLS
    }
    return {"slt_weight": weight, "bpref": bpref}, ranking


def weighted_ranking(
    judged: JudgedFormulas,
    queries: Mapping[str, np.ndarray],
    documents: Mapping[str, np.ndarray],
    exponent: float,
) -> tuple[Ranking, float]:
    """The ranking by encoded formulas, and the share of layout trees, the best on odd topics.

    Args:
        judged: pool and queries.
        queries: layout -> `[queries, dim]`.
        documents: layout -> `[formulas, dim]`.
        exponent: see `gcl_jax.scoring`.
    """

    def at(weight: float) -> Ranking:
        return rank(judged, scores(queries, documents, exponent, weight))

    weights = SLT_WEIGHTS if len(queries) > 1 else (0.5,)
    weight = best_weight(lambda weight: on_odd(judged, at(weight)), weights)
    return at(weight), weight


def on_odd(judged: JudgedFormulas, ranking: Ranking) -> float:
    """By what everything is chosen: the mean of both measures on the odd-numbered topics."""
    found = evaluate_ranking(judged, ranking, topics="odd").mean
    return sum(found.values()) / len(found)


def print_results(run: RunFolder, results: Mapping[str, Any]) -> None:
    """Prints the measures, and what to do next."""
    table = Table(title=f"bpref partial/full; share of layout trees {results['slt_weight']}")
    table.add_column("pool")
    for topics in TOPICS:
        table.add_column(f"{topics} topics", justify="right")
    for pool, of_pool in results["bpref"].items():
        cells = ["/".join(f"{of_pool[t][m]:.3f}" for m in MEASURES) for t in TOPICS]
        table.add_row(pool, *cells)
    console = result_console()
    console.print(table)
    console.print(
        f"search: python -m experiments.gcl.search 'x^2+y^2' --run {run.path}"
        " --collection formulas.txt",
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
