"""Heat maps of augmentation by batch size, for layout trees and operator trees (Figures 2 and 3).

COMMAND   python -m experiments.gcl.heatmap --output runs/heatmap
          the paper's grid: --preset paper --formulas-used 400000 --epochs 50 --seeds 5
          --batch-sizes 256 512 1024 2048 4096 8192
TIME      72 cells of about a minute
HARDWARE  1 CPU core a worker; the paper's grid: an accelerator
SCORE     results.json, heatmap_slt.png, heatmap_opt.png in --output; --results keeps a copy

A sweep of `experiments.gcl.train`, a cell for each augmentation, batch size, layout and seed; all
see the same number of formulas. As any sweep it goes on where it stopped, and several calls may
work on one folder. A cell is measured after its last step, on the pool of all judged formulas: no
checkpoint is chosen, so that all topics may be shown. Tests are over topics, of means over seeds;
the best batch size is chosen on the odd topics and tested on the even ones.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.table import Table

from experiments.gcl.baselines import Results, data_summary, evaluate_all, per_topic, summary
from experiments.gcl.names import AUGMENTATION_NAMES
from experiments.gcl.train import Sources
from experiments.records import differences, make_record, mean_and_sd, write_record
from experiments.sweep.ablations import choices
from experiments.sweep.cells import Sweep
from experiments.sweep.launchers import LocalProcesses
from experiments.sweep.running import print_sweep, run_sweep
from experiments.sweep.status import budget, data_fingerprints
from gcl_jax.augmentations import Augmentation
from gcl_jax.config import PRESETS
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.evaluation import MEASURES, TOPICS, Topics
from gcl_jax.formulas.trees import Layout
from retrieval_jax import plots
from retrieval_jax.config import preset
from retrieval_jax.errors import check_at_least_1, one_screen_errors
from retrieval_jax.logs import quiet_libraries, result_console
from retrieval_jax.rankings import read_ranking

AUGMENTATIONS: tuple[Augmentation, ...] = (
    "substitute_variables",
    "node_drop",
    "edge_drop",
    "node_mask",
    "edge_mask",
    "random",
)
TRAINING = "experiments.gcl.train"
SUBSTITUTION = ("substitute_variables", "substitute_typed")
"""The paper's Variable Substitution, and that of its code; the first that is there is tested."""
Cells = dict[str, dict[str, dict[str, list[Results]]]]
"""Layout -> augmentation -> batch size -> measures of each seed."""


@dataclasses.dataclass(frozen=True)
class Command:
    """The grid.

    Attributes:
        output: folder of the sweep, made here; a finished cell in it is not run again.
        preset: configuration that cells vary.
        augmentations: rows of a heat map.
        batch_sizes: columns.
        layouts: one heat map each.
        seeds: runs of each cell.
        formulas_used: named sample that is trained on.
        epochs: passes over it.
        workers: processes at a time.
        sources: what is read.
        results: a further JSON file to write.
    """

    output: Path = Path("runs/heatmap")
    preset: str = "ablation"
    augmentations: tuple[Augmentation, ...] = AUGMENTATIONS
    batch_sizes: tuple[int, ...] = (256, 1024)
    layouts: tuple[Layout, ...] = ("slt", "opt")
    seeds: int = 3
    formulas_used: int = 20_000
    epochs: float = 1.5
    workers: int = 1
    sources: Annotated[Sources, tyro.conf.arg(name="")] = Sources()
    results: Path | None = None


@one_screen_errors
def main() -> None:
    """Runs what is missing of the grid, then draws it; exit status 1 if cells are missing."""
    command = tyro.cli(Command, prog="python -m experiments.gcl.heatmap", description=__doc__)
    check_at_least_1(workers=command.workers, seeds=command.seeds)
    quiet_libraries()
    sweep = grid(command)
    base = preset(PRESETS, command.preset)
    data = dataclasses.replace(base.data, formulas=command.formulas_used)
    command.sources.chosen_formulas(data)  # once, before cells would do it side by side
    command.output.mkdir(parents=True, exist_ok=True)
    unfinished = run_sweep("heat map", sweep, command.output, LocalProcesses(command.workers))
    if unfinished:
        print_sweep("heat map", sweep, command.output)
        print(f"{len(unfinished)} cells are not done; the same command goes on with them.")
        raise SystemExit(1)
    judged = command.sources.judged()
    cells = measured_cells(sweep, command.output, judged)
    record = make_record(
        "gcl heat map",
        f"{data_summary(judged)}; trained on {command.formulas_used:,} formulas of Wikipedia,"
        f" {command.epochs:g} passes",
        {"preset": base, "grid": command},
        sweep.seeds,
        data_fingerprints(sweep.cells(), command.output),
        {
            "means": means(cells),
            "significance": significance(cells),
            "budget": budget(sweep.cells(), command.output),
        },
    )
    write_record(command.output / "results.json", record)
    write_record(command.results, record)
    for layout in command.layouts:
        draw(record["means"][layout], command, layout, command.output / f"heatmap_{layout}.png")
    print_tables(record["means"], command)


def grid(command: Command) -> Sweep:
    """The sweep: batches of all sizes see the same number of formulas."""
    sources = command.sources
    places = {"formulas": sources.formulas, "folder": sources.folder, "data-dir": sources.data_dir}
    given = [(f"--{name}", str(path)) for name, path in places.items() if path is not None]
    sizes = {}
    for size in command.batch_sizes:
        steps = max(round(command.epochs * command.formulas_used / size), 1)
        # Evaluated and saved once, at the end: nothing can be chosen.
        ends = [(f"--training.{n}", str(steps)) for n in ("evaluate-every", "checkpoint-every")]
        words = [("--training.batch-size", str(size)), ("--training.steps", str(steps)), *ends]
        sizes[str(size)] = tuple(itertools.chain(*words))
    return Sweep(
        TRAINING,
        {
            "layout": choices("model.layout", *command.layouts),
            "batch size": sizes,
            "augmentation": choices("augmentation.methods", *command.augmentations),
        },
        tuple(range(command.seeds)),
        (
            *("--preset", command.preset, "--data.formulas", str(command.formulas_used)),
            *("--training.keep", "1", *itertools.chain(*given)),
        ),
        measures=("bpref.all.all.*",),
        about="Augmentation by batch size.",
    )


def measured_cells(sweep: Sweep, output: Path, judged: JudgedFormulas) -> Cells:
    """What the rankings reach that the cells have left, in the order of the grid."""
    cells: Cells = {}
    for cell in sweep.cells():
        layout, size, augmentation = cell.choices.values()
        of_layout = cells.setdefault(layout, {}).setdefault(augmentation, {})
        ranking = read_ranking(cell.folder(output) / "run" / "ranking.trec")
        of_layout.setdefault(size, []).append(evaluate_all(judged, ranking))
    return cells


def means(cells: Cells) -> dict[str, Any]:
    """Layout -> augmentation -> batch size -> topics -> measure -> mean, sd, interval."""
    return {
        layout: {
            augmentation: {size: summary(runs)["all"] for size, runs in of.items()}
            for augmentation, of in of_layout.items()
        }
        for layout, of_layout in cells.items()
    }


def significance(cells: Cells) -> list[dict[str, Any]]:
    """Paired tests over topics, a row a pair and measure.

    Beside what `differences` gives a row holds `layout`, `topics` and `at`, of which each value is
    a family of tests for Holm's correction: a batch size, at which Variable Substitution is tested
    against each other augmentation; "best", where each has the batch size that is its best on the
    odd topics, tested on the even ones; and "batch sizes", for the largest against the smallest, of
    each augmentation.
    """
    rows = []
    for (layout, of_layout), measure in itertools.product(cells.items(), MEASURES):
        values = {topics: _values(of_layout, topics, measure) for topics in TOPICS}
        for at, pairs in _pairs(values["odd"]):
            topics: Topics = "even" if at == "best" else "all"
            named = {
                f"{augmentation}, batch {size}": of_topics
                for augmentation, of in values[topics].items()
                for size, of_topics in of.items()
            }
            more = {"layout": layout, "topics": topics, "at": at}
            rows += [{**row, **more} for row in differences(named, pairs, measure)]
    return rows


def _values(
    cells: Mapping[str, Mapping[str, list[Results]]], topics: Topics, measure: str
) -> dict[str, dict[str, np.ndarray]]:
    """Augmentation -> batch size -> bpref of each of the topics, means over seeds."""
    return {
        augmentation: {size: per_topic(runs, "all", topics, measure) for size, runs in of.items()}
        for augmentation, of in cells.items()
    }


def _pairs(
    chosen_by: Mapping[str, Mapping[str, np.ndarray]],
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The families of tests, and the cells that each compares; the best are so by `chosen_by`."""
    sizes = sorted(next(iter(chosen_by.values())), key=int)
    ours = next((name for name in SUBSTITUTION if name in chosen_by), None)
    others = [name for name in chosen_by if name not in SUBSTITUTION]
    best = {name: max(sizes, key=lambda size: of[size].mean()) for name, of in chosen_by.items()}
    families = {size: dict.fromkeys(chosen_by, size) for size in sizes} | {"best": best}
    if ours is not None and others:
        for at, size_of in families.items():
            first = f"{ours}, batch {size_of[ours]}"
            yield at, [(first, f"{other}, batch {size_of[other]}") for other in others]
    if len(sizes) > 1:
        ends = [f"batch {size}" for size in (sizes[-1], sizes[0])]
        yield "batch sizes", [(f"{name}, {ends[0]}", f"{name}, {ends[1]}") for name in chosen_by]


def draw(means: Mapping[str, Any], command: Command, layout: str, path: Path) -> None:
    """Draws the heat maps of a layout, one panel a measure, over all topics."""
    sizes = [str(size) for size in command.batch_sizes]
    panels = {
        f"{measure} relevance": [
            [means[row][size]["all"][measure]["mean"] for size in sizes]
            for row in command.augmentations
        ]
        for measure in MEASURES
    }
    names = [AUGMENTATION_NAMES[row] for row in command.augmentations]
    title = f"bpref, {layout.upper()}, augmentation by batch size"
    plots.heat_maps(panels, (names, sizes), path, title, "batch size")


def print_tables(means: Mapping[str, Any], command: Command) -> None:
    """Prints mean and standard deviation of each cell over all topics, partial/full."""
    for layout in command.layouts:
        table = Table(title=f"bpref partial/full, {layout.upper()}, all topics")
        table.add_column("augmentation")
        for batch_size in command.batch_sizes:
            table.add_column(f"batch {batch_size}", justify="right")
        for row in command.augmentations:
            cells = [means[layout][row][str(size)]["all"] for size in command.batch_sizes]
            table.add_row(
                AUGMENTATION_NAMES[row],
                *(" / ".join(mean_and_sd(cell[m]) for m in MEASURES) for cell in cells),
            )
        result_console().print(table)


if __name__ == "__main__":
    main()
