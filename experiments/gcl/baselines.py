"""Baselines and published runs on NTCIR-12's formula browsing task.

COMMAND   python -m experiments.gcl.baselines --results experiments/results/gcl_baselines.json
          with our own Tangent-CFT: --formulas enwiki_formulas.tsv.xz --sample 30000
          --tangent-cft.epochs 5
TIME      10 seconds; Tangent-CFT: parsing, then training on 30,000 formulas
HARDWARE  2 CPU cores
SCORE     experiments/results/gcl_baselines.json

Files of NTCIR-12 are read from --folder, or from the folder `formulas` in the folder that
RETRIEVAL_DATA names. Overlaps were chosen on all topics by those who published them: look at the
even-numbered topics, and at the intervals.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.table import Table

from experiments.records import differences, make_record, mean_and_sd, summarise, write_record
from gcl_jax.baselines import Overlap, both_overlap_scores, overlap_scores
from gcl_jax.data import Formulas, sample
from gcl_jax.datasets import wikipedia_formulas
from gcl_jax.datasets.builders import read_formulas
from gcl_jax.datasets.ntcir12 import (
    CODES,
    GRAPHS,
    QRELS,
    QUERIES,
    RUNS,
    JudgedFormulas,
    data_folder,
    read_judged,
    read_runs,
)
from gcl_jax.evaluation import MEASURES, POOLS, TOPICS, Pool, Topics, evaluate_ranking, rank
from gcl_jax.tangent_cft import TangentCft, TangentCftConfig, load_tangent_cft, train_tangent_cft
from retrieval_jax.config import to_dict
from retrieval_jax.encoding import unit_length
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.evaluation import Evaluation
from retrieval_jax.files import write_json
from retrieval_jax.fingerprints import files_fingerprint
from retrieval_jax.logs import quiet_libraries, result_console
from retrieval_jax.rankings import Ranking
from retrieval_jax.significance import bootstrap_interval
from retrieval_jax.text_files import require_file

EDGE_DICE = "edge Dice, SLT + OPT"
PATH_DICE = "path Dice, up to 3 edges"
PATH_DICE_SLT, PATH_DICE_OPT = f"{PATH_DICE}, SLT", f"{PATH_DICE}, OPT"
QUERY_WEIGHTED = "query-weighted paths, up to 4 edges"
TANGENT_CFT = "Tangent-CFT, ours"
PEERS = {
    "graphcl_slt_bs2048": "GraphCL, SLT (published run)",
    "graphcl_opt_bs2048": "GraphCL, OPT (published run)",
    "bgrl_slt_bs256": "BGRL, SLT (published run)",
    "bgrl_opt_bs256": "BGRL, OPT (published run)",
    "infograph_slt_bs256": "InfoGraph, SLT (published run)",
    "infograph_opt_bs256": "InfoGraph, OPT (published run)",
    "tangentcft_full590k": "Tangent-CFT, whole collection (published run)",
}

Results = dict[Pool, dict[Topics, Evaluation]]


@dataclasses.dataclass(frozen=True)
class Command:
    """Baselines and published runs, bpref over both pools and all, odd and even topics.

    Attributes:
        folder: NTCIR-12's files; by default the folder formulas of RETRIEVAL_DATA.
        formulas: Wikipedia's formulas, to train our own Tangent-CFT; without it there is none.
        sample: train it on so many of them, drawn at random; None = all.
        tangent_cft: how it is trained.
        model: folder where it is kept; found there, it is not trained again.
        data_dir: where parsed formulas are kept.
        results: JSON file to write.
    """

    folder: Path | None = None
    formulas: Path | None = None
    sample: int | None = None
    tangent_cft: TangentCftConfig = TangentCftConfig()
    model: Path | None = None
    data_dir: Path = Path("data")
    results: Path | None = None


@one_screen_errors
def main() -> None:
    """Evaluates as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.gcl.baselines")
    quiet_libraries()
    folder = data_folder(command.folder)
    judged = read_judged(folder)
    rankings, counts = system_rankings(judged, folder)
    trained_on = None
    if command.formulas is not None or command.model is not None:
        model, trained_on = tangent_cft(command)
        rankings[TANGENT_CFT] = tangent_cft_ranking(model, judged)
    results = {name: [evaluate_all(judged, ranking)] for name, ranking in rankings.items()}
    record = make_record(
        "gcl formula retrieval baselines",
        data_summary(judged),
        command,
        [command.tangent_cft.seed] if trained_on else [],
        files_fingerprint(judged_files(folder)),
        {
            "counts": {**judged.counts, **counts},
            "tangent_cft": trained_on,
            "systems": {name: summary(of) for name, of in results.items()},
            "significance": significance(
                results, [(name, EDGE_DICE) for name in results if name != EDGE_DICE], "even"
            ),
        },
    )
    print_tables(record)
    write_record(command.results, record)


def judged_files(folder: Path) -> list[Path]:
    """The files that topics, judgements and published runs are read from."""
    return [folder / name for name in (GRAPHS, QUERIES, CODES, QRELS, RUNS)]


def data_summary(judged: JudgedFormulas) -> str:
    """The judged formulas in words."""
    return (
        f"NTCIR-12 formula browsing, {len(judged.qrels)} topics, {len(judged.formulas):,} formulas"
        f" ({int(judged.in_small_pool.sum()):,} in the small pool)"
    )


def overlaps(judged: JudgedFormulas) -> dict[str, np.ndarray]:
    """Scores `[topics, formulas]` of the overlap baselines."""
    queries, documents = judged.queries, judged.formulas

    def both(overlap: Overlap) -> np.ndarray:
        return both_overlap_scores(queries, documents, overlap)

    return {
        "edge Dice, SLT": overlap_scores(queries.slt, documents.slt, Overlap()),
        "edge Dice, OPT": overlap_scores(queries.opt, documents.opt, Overlap()),
        EDGE_DICE: both(Overlap()),
        PATH_DICE_SLT: overlap_scores(queries.slt, documents.slt, Overlap(path_length=3)),
        PATH_DICE_OPT: overlap_scores(queries.opt, documents.opt, Overlap(path_length=3)),
        "edge Dice, types only": both(Overlap(types_only=True)),
        PATH_DICE: both(Overlap(path_length=3)),
        "path Dice, up to 4 edges, + half of types only": both(Overlap(path_length=4))
        + both(Overlap(path_length=4, types_only=True)) / 2,
        QUERY_WEIGHTED: both(Overlap(path_length=4, query_weight=0.8)),
    }


def system_rankings(
    judged: JudgedFormulas, folder: Path
) -> tuple[dict[str, Ranking], dict[str, int]]:
    """Rankings of overlaps and of published runs by name, and what of the runs was left out."""
    rankings = {name: rank(judged, scores) for name, scores in overlaps(judged).items()}
    runs, counts = read_runs(folder / RUNS, judged.queries.ids)
    return rankings | {PEERS.get(name, name): run for name, run in runs.items()}, counts


def tangent_cft(command: Command) -> tuple[TangentCft, dict[str, Any]]:
    """Our Tangent-CFT, trained or found, and what it was trained on.

    Raises:
        InputError: it is neither there nor is there anything to train it on, or the one that is
            there was trained otherwise.
    """
    described = {"sample": command.sample, "config": to_dict(command.tangent_cft)}
    if command.formulas is not None:
        path = require_file(command.formulas, "Give Wikipedia's formulas.")
        described["fingerprint"] = files_fingerprint([path])
    note = None if command.model is None else command.model / "trained_on.json"
    if command.model is not None and note is not None and note.is_file():
        before = json.loads(note.read_text(encoding="utf-8"))
        if {name: before.get(name) for name in described} != described:
            raise InputError(
                f"{command.model} was trained with {before}, not {described}.",
                "Give another --model, or the same settings.",
            )
        return load_tangent_cft(command.model), before
    if command.formulas is None:
        raise InputError(f"{command.model} holds no model.", "Give --formulas to train one.")
    formulas = wikipedia_formulas_of(command.formulas, command.data_dir)
    formulas = sample(formulas, command.sample, command.tangent_cft.seed)
    described |= {
        "formulas": len(formulas),
        "source": command.formulas.name,
    }
    print(f"training Tangent-CFT on {len(formulas):,} formulas", flush=True)
    model = train_tangent_cft(formulas, command.tangent_cft)
    if command.model is not None and note is not None:
        model.save(command.model)
        # Last: what stands beside it is whole.
        write_json(note, described)
    return model, described


def tangent_cft_ranking(model: TangentCft, judged: JudgedFormulas) -> Ranking:
    """The judged formulas by cosine."""
    vectors = (model.encode(formulas) for formulas in (judged.queries, judged.formulas))
    queries, documents = map(unit_length, vectors)
    return rank(judged, queries @ documents.T)


def wikipedia_formulas_of(path: Path, data_dir: Path) -> Formulas:
    """Wikipedia's formulas, parsed or found."""
    return read_formulas(wikipedia_formulas.prepare(path, data_dir))


def evaluate_all(judged: JudgedFormulas, ranking: Ranking) -> Results:
    """Both pools, and all, odd and even topics."""
    return {
        pool: {topics: evaluate_ranking(judged, ranking, pool, topics) for topics in TOPICS}
        for pool in POOLS
    }


def summary(runs: Sequence[Results]) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """What runs of one system reach: pool -> topics -> measure -> value.

    A value is the mean and standard deviation over runs, and a 95 % bootstrap interval over topics
    of the mean over runs.
    """

    def cell(pool: Pool, topics: Topics, measure: str) -> dict[str, Any]:
        of_runs = summarise(run[pool][topics].mean[measure] for run in runs)
        interval = bootstrap_interval(per_topic(runs, pool, topics, measure))
        return {**of_runs, "interval_95": list(interval)}

    return {
        pool: {
            topics: {measure: cell(pool, topics, measure) for measure in MEASURES}
            for topics in TOPICS
        }
        for pool in POOLS
    }


def per_topic(runs: Sequence[Results], pool: Pool, topics: Topics, measure: str) -> np.ndarray:
    """A measure of each topic, the mean over runs, `[topics]`."""
    found = [run[pool][topics].per_query for run in runs]
    return np.mean([[of[topic][measure] for topic in sorted(of)] for of in found], axis=0)


def significance(
    runs: Mapping[str, Sequence[Results]], pairs: Sequence[tuple[str, str]], topics: Topics
) -> list[dict[str, Any]]:
    """Paired tests of systems, a row a pair and measure, over all judged formulas.

    Holm-corrected over the pairs of a measure.
    """
    rows = []
    for measure in MEASURES:
        values = {name: per_topic(of, "all", topics, measure) for name, of in runs.items()}
        rows += [{**row, "topics": topics} for row in differences(values, pairs, measure)]
    return rows


def print_tables(record: Mapping[str, Any]) -> None:
    """Prints a table a pool: partial/full bpref of all, odd and even topics, and intervals."""
    console = result_console()
    for pool in POOLS:
        size = "all judged formulas" if pool == "all" else "the small pool"
        table = Table(title=f"bpref, partial/full, over {size}: {record['data']}")
        table.add_column("system")
        for topics in TOPICS:
            table.add_column(f"{topics} topics", justify="right")
        for name, system in record["systems"].items():
            table.add_row(name, *(_cell(system[pool][topics]) for topics in TOPICS))
        console.print(table)


def _cell(values: Mapping[str, Mapping[str, Any]]) -> str:
    means = "/".join(mean_and_sd(values[measure]) for measure in MEASURES)
    intervals = (values[measure]["interval_95"] for measure in MEASURES)
    return f"{means}\n{'/'.join(f'{low:.2f}-{high:.2f}' for low, high in intervals)}"


if __name__ == "__main__":
    main()
