"""Plots of training runs and comparisons, in colours that the colour-blind tell apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.figure
import matplotlib.ticker
import numpy as np

# Okabe and Ito, 2008.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")


def training_curves(entries: Sequence[Mapping[str, Any]], measure: str, path: Path) -> None:
    """Draws loss and a dev measure against steps.

    Args:
        entries: as `logs.read_metrics` gives.
        measure: name of the dev measure.
        path: PNG to write.
    """
    figure = matplotlib.figure.Figure(figsize=(8, 3), layout="constrained")
    for axes, kind, name in zip(
        figure.subplots(1, 2), ("train", "dev"), ("loss", measure), strict=True
    ):
        points = [(e["step"], e[name]) for e in entries if e["kind"] == kind and name in e]
        axes.plot([x for x, _ in points], [y for _, y in points], color=COLOURS[0], marker=".")
        axes.set(xlabel="step", ylabel=f"{name} ({kind})")
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    figure.savefig(path, dpi=120)


def comparison(
    rows: Mapping[str, Mapping[str, float]], measures: Sequence[str], path: Path, title: str
) -> None:
    """Draws systems as bars with their values, one panel a measure.

    Args:
        rows: system -> measure -> value.
        measures: one panel each.
        path: PNG to write.
        title: above the panels.
    """
    size = (3.2 * len(measures) + 1.5, 0.4 * len(rows) + 1)
    figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    for index, axes in enumerate(figure.subplots(1, len(measures), squeeze=False)[0]):
        values = [row[measures[index]] for row in rows.values()]
        bars = axes.barh(list(rows), values, color=COLOURS[index % len(COLOURS)])
        axes.bar_label(bars, fmt="%.3f", padding=2)
        axes.set(title=measures[index], xlim=(0, max(values) * 1.25))
        axes.invert_yaxis()
        if index:
            axes.set_yticklabels([])
    figure.savefig(path, dpi=120)


def curves(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    labels: tuple[str, str],
    path: Path,
    title: str,
) -> None:
    """Draws a curve for each system, told apart by colour, marker and the order of the legend.

    Args:
        lines: system -> x and y values.
        labels: of the x and the y axis.
        path: PNG to write.
        title: above.
    """
    figure = matplotlib.figure.Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    # The legend in the order of the curves' right ends, beside them: it would hide some.
    for index, (name, (x, y)) in enumerate(sorted(lines.items(), key=lambda line: -line[1][1][-1])):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        axes.plot(x, y, label=name, markersize=5, color=colour, marker=marker)
    axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=120)


def heat_maps(
    panels: Mapping[str, Sequence[Sequence[float]]],
    labels: tuple[Sequence[str], Sequence[str]],
    path: Path,
    title: str,
    x_label: str = "",
) -> None:
    """Draws matrices side by side as heat maps, with the value in each cell.

    Args:
        panels: title -> values `[rows][columns]`, finite.
        labels: of the rows and of the columns, the same for all panels.
        path: picture to write.
        title: above the panels.
        x_label: of the columns.
    """
    rows, columns = labels
    width = 3.6 + 2.2 * len(panels) * max(len(columns) / 3, 1)
    figure = matplotlib.figure.Figure(figsize=(width, 1.6 + 0.5 * len(rows)), layout="constrained")
    figure.suptitle(title)
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for index, (axes, (name, matrix)) in enumerate(zip(all_axes, panels.items(), strict=True)):
        values = np.asarray(matrix, dtype=float)
        image = axes.imshow(values, cmap="viridis", aspect="auto")
        middle = (values.min() + values.max()) / 2
        for (y, x), value in np.ndenumerate(values):
            colour = "black" if value > middle else "white"
            axes.text(x, y, f"{value:.3f}", ha="center", va="center", color=colour)
        axes.set(title=name, xlabel=x_label)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows if index == 0 else [""] * len(rows))
        figure.colorbar(image, ax=axes)
    figure.savefig(path, dpi=120)


def scatter(
    points: Mapping[str, np.ndarray],
    texts: Sequence[tuple[np.ndarray, str]],
    path: Path,
    title: str,
) -> None:
    """Draws groups of points in a plane, told apart by colour and marker.

    Args:
        points: group -> places `[points, 2]`.
        texts: place `[2]` and what is written there.
        path: picture to write.
        title: above.
    """
    figure = matplotlib.figure.Figure(figsize=(9, 7), layout="constrained")
    axes = figure.subplots()
    for index, (name, places) in enumerate(points.items()):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        axes.scatter(*places.T, s=14, color=colour, marker=marker, alpha=0.6, label=name)
    for (x, y), text in texts:
        # Names may hold signs of mathematical typesetting; they are shown as they are.
        axes.annotate(text[:40], (x, y), fontsize=7, parse_math=False)
    axes.set(title=title, xticks=[], yticks=[])
    axes.legend(fontsize="small", markerscale=1.5)
    figure.savefig(path, dpi=120)
