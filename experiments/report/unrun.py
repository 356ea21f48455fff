"""Ablations that were not run: a row each, empty, with the command that would fill it."""

from collections.abc import Sequence

from experiments.report.blocks import Table
from experiments.sweep.ablations import ABLATIONS

ABLATION = "ablation_"
"""How the names of their results files begin; the rest is a name of `ABLATIONS`."""
RESULTS_FILES = tuple(f"{ABLATION}{name}" for name in ABLATIONS)
"""Names that the results files of all ablations have, or would have."""


def unrun_table(files: Sequence[str]) -> Table:
    """The rows of ablations without results.

    Args:
        files: names of their results files, of `RESULTS_FILES`.
    """
    rows = []
    for file in files:
        name = file.removeprefix(ABLATION)
        sweep = ABLATIONS[name]
        words = f"--ablation {name} --output runs/ablations/{name}"
        command = f"python -m experiments.sweep {words} --results experiments/results/{file}.json"
        rows.append([name, sweep.about, str(len(sweep.cells())), "", f"`{command}`"])
    header = ["ablation", "what it shows", "cells", "result", "not run here; the command"]
    return Table(header, rows, "Ablations that were not run")
