"""Heat maps of augmentation by batch size, for layout trees and operator trees (Figures 2 and 3).

COMMAND   python -m experiments.gcl.heatmap --output runs/heatmap
          the paper's grid: --preset paper --formulas-used 400000 --epochs 50 --seeds 5
          --batch-sizes 256 512 1024 2048 4096 8192
TIME      72 cells of about a minute
HARDWARE  2 CPU cores; the paper's grid: an accelerator
SCORE     results.json, heatmap_slt.png, heatmap_opt.png in --output

A cell is a training run of its own with one augmentation, batch size, layout and seed; all see the
same number of formulas. Finished cells are kept, so an interrupted sweep goes on where it stopped.
Every cell is measured after its last step, on the pool of all judged formulas: no checkpoint is
chosen, so that all topics may be shown.
"""

import dataclasses
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib.figure
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

import gcl_jax
from experiments.gcl.train import training_formulas
from gcl_jax.augmentations import Augmentation
from gcl_jax.config import PRESETS, Config
from gcl_jax.data import Formulas
from gcl_jax.datasets.ntcir12 import JudgedFormulas, data_folder, read_judged
from gcl_jax.evaluation import MEASURES, TOPICS, evaluate_ranking, rank
from gcl_jax.formulas.trees import Layout
from gcl_jax.pretraining import PACKAGE
from gcl_jax.scoring import scores
from retrieval_jax.config import preset, to_dict
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.kept import content_name
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.runs import RunFolder, provenance_record

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
        encoder: of the cells.
        augmentations: rows of a heat map.
        batch_sizes: columns.
        layouts: one heat map each.
        seeds: runs of each cell.
        formulas_used: named sample that is trained on.
        epochs: passes over it.
        formulas: Wikipedia's formulas.
        folder: NTCIR-12's files.
        data_dir: where parsed formulas are kept.
    """

    output: Path = Path("runs/heatmap")
    preset: str = "small"
    encoder: Literal["gin", "paths"] = "gin"
    augmentations: tuple[Augmentation, ...] = AUGMENTATIONS
    batch_sizes: tuple[int, ...] = (256, 1024)
    layouts: tuple[Layout, ...] = ("slt", "opt")
    seeds: int = 3
    formulas_used: int = 20_000
    epochs: float = 3.0
    formulas: Path | None = None
    folder: Path | None = None
    data_dir: Path = Path("data")


@one_screen_errors
def main() -> None:
    """Runs what is missing of the grid, then draws it."""
    command = tyro.cli(Command, prog="python -m experiments.gcl.heatmap", description=__doc__)
    quiet_libraries()
    judged = read_judged(data_folder(command.folder))
    formulas = training_formulas(command.formulas, command.folder, command.data_dir)
    cells = run_grid(command, formulas, judged)
    results = {"experiment": "gcl augmentation by batch size", **summary(command, cells)}
    results |= {"provenance": provenance_record(content_name(formulas.ids))}
    text = json.dumps(results, indent=2)
    (command.output / "results.json").write_text(text + "\n", encoding="utf-8")
    for layout in command.layouts:
        draw(results["means"][layout], command, layout, command.output / f"heatmap_{layout}.png")
    print_tables(results["means"], command)


def run_grid(command: Command, formulas: Formulas, judged: JudgedFormulas) -> list[dict[str, Any]]:
    """Runs every cell that is not finished; gives what each one's `cell.json` says."""
    grid = itertools.product(
        command.layouts, command.batch_sizes, command.augmentations, range(command.seeds)
    )
    cells = []
    for layout, batch_size, augmentation, seed in grid:
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
        model=replace(config.model, layout=layout, encoder=command.encoder),
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


def summary(command: Command, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means and standard deviations over seeds, layout -> augmentation -> batch size."""
    means: dict[str, Any] = {}
    for layout, augmentation, batch_size in itertools.product(
        command.layouts, command.augmentations, command.batch_sizes
    ):
        key = layout, augmentation, batch_size
        runs = [c for c in cells if (c["layout"], c["augmentation"], c["batch_size"]) == key]
        of_layout = means.setdefault(layout, {}).setdefault(augmentation, {})
        of_layout[str(batch_size)] = {
            topics: {
                measure: _mean_and_deviation([c["bpref"][topics][measure] for c in runs])
                for measure in MEASURES
            }
            for topics in TOPICS
        }
    config = cell_config(command, command.layouts[0], command.batch_sizes[0], "none", 0)
    return {"config": to_dict(config), "seeds": command.seeds, "means": means}


def _mean_and_deviation(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def draw(means: Mapping[str, Any], command: Command, layout: str, path: Path) -> None:
    """Draws the heat maps of a layout, one panel a measure, over all topics."""
    rows = command.augmentations
    size = (3.6 + 2.2 * len(MEASURES) * max(len(command.batch_sizes) / 3, 1), 1.6 + 0.5 * len(rows))
    figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
    figure.suptitle(f"bpref, {layout.upper()}, augmentation by batch size")
    for axes, measure in zip(
        figure.subplots(1, len(MEASURES), squeeze=False)[0], MEASURES, strict=True
    ):
        values = np.array(
            [
                [means[row][str(size)]["all"][measure]["mean"] for size in command.batch_sizes]
                for row in rows
            ]
        )
        image = axes.imshow(values, cmap="viridis", aspect="auto")
        middle = (values.min() + values.max()) / 2
        for (y, x), value in np.ndenumerate(values):
            colour = "black" if value > middle else "white"
            axes.text(x, y, f"{value:.3f}", ha="center", va="center", color=colour)
        axes.set(title=f"{measure} relevance", xlabel="batch size")
        axes.set_xticks(range(len(command.batch_sizes)), map(str, command.batch_sizes))
        axes.set_yticks(range(len(rows)), [NAMES[row] for row in rows])
        if measure != next(iter(MEASURES)):
            axes.set_yticklabels([])
        figure.colorbar(image, ax=axes)
    figure.savefig(path, dpi=120)


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
                *(
                    " / ".join(f"{cell[m]['mean']:.3f} ±{cell[m]['sd']:.3f}" for m in MEASURES)
                    for cell in cells
                ),
            )
        Console().print(table)


if __name__ == "__main__":
    main()
