"""Heat maps of augmentation by batch size, for layout trees and operator trees (Figures 2 and 3).

COMMAND   python -m experiments.gcl.heatmap --output runs/heatmap
          the paper's grid: --preset paper --formulas-used 400000 --epochs 50 --seeds 5
          --batch-sizes 256 512 1024 2048 4096 8192
TIME      72 cells of about half a minute
HARDWARE  1 CPU core; the paper's grid: an accelerator
SCORE     results.json, heatmap_slt.png, heatmap_opt.png in --output; --results keeps a copy

A cell is a training run of its own with one augmentation, batch size, layout and seed; all see the
same number of formulas. Finished cells are kept, so an interrupted sweep goes on where it stopped.
Every cell is measured after its last step, on the pool of all judged formulas: no checkpoint is
chosen, so that all topics may be shown.
"""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

import gcl_jax
from experiments.gcl.baselines import data_summary
from experiments.gcl.train import Sources
from experiments.records import make_record, mean_and_sd, summarise_measures, write_record
from gcl_jax.augmentations import Augmentation
from gcl_jax.config import PRESETS, Config
from gcl_jax.data import Formulas
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.evaluation import MEASURES, TOPICS, evaluate_ranking, rank
from gcl_jax.formulas.trees import Layout
from gcl_jax.pretraining import PACKAGE, choose_formulas
from gcl_jax.scoring import scores
from retrieval_jax import plots
from retrieval_jax.config import preset, to_dict
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.kept import content_name
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.runs import RunFolder

AUGMENTATIONS: tuple[Augmentation, ...] = (
    "substitute_variables",
    "node_drop",
    "edge_drop",
    "node_mask",
    "edge_mask",
    "random",
)
NAMES = {
    "substitute_typed": "Variable Substitution (published code)",
    "substitute_variables": "Variable Substitution",
    "rename": "consistent renaming",
    "node_drop": "Node Drop",
    "edge_drop": "Edge Drop",
    "node_mask": "Node Feature Mask",
    "edge_mask": "Edge Feature Mask",
    "random": "Random",
    "subformula": "sub-formula",
    "none": "none",
}


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
    sources: Annotated[Sources, tyro.conf.arg(name="")] = Sources()
    results: Path | None = None


@one_screen_errors
def main() -> None:
    """Runs what is missing of the grid, then draws it."""
    command = tyro.cli(Command, prog="python -m experiments.gcl.heatmap", description=__doc__)
    quiet_libraries()
    judged = command.sources.judged()
    formulas = command.sources.training_formulas()
    cells = run_grid(command, formulas, judged)
    config = cell_config(command, command.layouts[0], command.batch_sizes[0], "none", 0)
    record = make_record(
        "gcl heat map",
        f"{data_summary(judged)}; trained on {command.formulas_used:,} formulas of Wikipedia,"
        f" {command.epochs:g} passes",
        config,
        range(command.seeds),
        content_name(formulas.ids),
        {"means": means(command, cells)},
    )
    write_record(command.output / "results.json", record)
    write_record(command.results, record)
    for layout in command.layouts:
        draw(record["means"][layout], command, layout, command.output / f"heatmap_{layout}.png")
    print_tables(record["means"], command)


def run_grid(command: Command, formulas: Formulas, judged: JudgedFormulas) -> list[dict[str, Any]]:
    """Runs every cell that is not finished; gives what each one's `cell.json` says."""
    # All cells of a seed before those of the next.
    grid = itertools.product(
        range(command.seeds), command.layouts, command.batch_sizes, command.augmentations
    )
    # All cells train on the same.
    formulas = choose_formulas(formulas, cell_config(command, "slt", 1, "none", 0))
    cells = []
    for seed, layout, batch_size, augmentation in grid:
        config = cell_config(command, layout, batch_size, augmentation, seed)
        name = content_name([json.dumps(to_dict(config), sort_keys=True)])[:12]
        folder = command.output / "cells" / f"{layout}-{augmentation}-{batch_size}-{seed}-{name}"
        if not (folder / "cell.json").is_file():
            print(f"{folder.name}: {config.training.steps} steps", flush=True)
            gcl_jax.pretrain(config, formulas, folder, show_progress=False)
            searcher = gcl_jax.load(folder)
            queries, documents = map(searcher.encode_formulas, (judged.queries, judged.formulas))
            ranking = rank(judged, scores(queries, documents))
            cell = {
                "layout": layout,
                "batch_size": batch_size,
                "augmentation": augmentation,
                "seed": seed,
                "bpref": {
                    topics: evaluate_ranking(judged, ranking, "all", topics).mean
                    for topics in TOPICS
                },
            }
            RunFolder(folder, PACKAGE).write_json("cell.json", cell)
        cells.append(json.loads((folder / "cell.json").read_text(encoding="utf-8")))
    return cells


def cell_config(
    command: Command, layout: Layout, batch_size: int, augmentation: Augmentation, seed: int
) -> Config:
    """The configuration of a cell; batches of all sizes see the same number of formulas."""
    config = preset(PRESETS, command.preset)
    steps = max(round(command.epochs * command.formulas_used / batch_size), 1)
    replace = dataclasses.replace
    return replace(
        config,
        data=replace(config.data, formulas=command.formulas_used),
        model=replace(config.model, layout=layout),
        augmentation=replace(config.augmentation, methods=(augmentation,)),
        training=replace(
            config.training,
            steps=steps,
            batch_size=batch_size,
            seed=seed,
            evaluate_every=steps,
            checkpoint_every=steps,
            keep=1,
        ),
    )


def means(command: Command, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means and standard deviations over seeds, layout -> augmentation -> batch size."""
    found: dict[str, Any] = {}
    for layout, augmentation, batch_size in itertools.product(
        command.layouts, command.augmentations, command.batch_sizes
    ):
        key = layout, augmentation, batch_size
        runs = [c for c in cells if (c["layout"], c["augmentation"], c["batch_size"]) == key]
        of_layout = found.setdefault(layout, {}).setdefault(augmentation, {})
        of_layout[str(batch_size)] = {
            topics: summarise_measures([cell["bpref"][topics] for cell in runs])
            for topics in TOPICS
        }
    return found


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
    names = [NAMES[row] for row in command.augmentations]
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
                NAMES[row],
                *(" / ".join(mean_and_sd(cell[m]) for m in MEASURES) for cell in cells),
            )
        Console().print(table)


if __name__ == "__main__":
    main()
