"""Figures of results files: each a picture, and the same numbers as a table."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.records import mean_and_sd
from experiments.report.blocks import Figure, Table
from experiments.report.pattern_verdicts import ltr_gains
from experiments.report.tables import readable
from retrieval_jax import plots
from retrieval_jax.logs import read_metrics

Results = Mapping[str, Any]
Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]
SHOWN_K = (1, 5, 10, 20, 50)
PANELS = 3
"""Measures of a sweep that are drawn, its first."""


def result_figures(results: Results) -> list[Figure]:
    """The figures that a results file gives; none for most."""
    if "means" in results:
        return heat_maps(results)
    if "closed" in results:
        return tag_figures(results)
    if "axes" in results:
        return sweep_figures(results)
    if "significance" in results and ltr_gains(results):
        return [gains_by_difficulty(results)]
    if results.get("experiment") == "docent zero-shot ranking":
        return [bars(results)]
    return []


def drawn(draw: Callable[[Path], None]) -> bytes:
    """SVG of what `draw` writes to a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        draw(path)
        return path.read_bytes()


def heat_maps(results: Results) -> list[Figure]:
    """Augmentation by batch size, one figure a layout, a panel a relevance."""
    figures = []
    for layout, of in results["means"].items():
        rows, sizes = list(of), list(next(iter(of.values())))
        measures = list(of[rows[0]][sizes[0]]["all"])
        panels = {
            f"{measure} relevance": [
                [of[row][size]["all"][measure]["mean"] for size in sizes] for row in rows
            ]
            for measure in measures
        }
        title = f"bpref, {layout.upper()}, augmentation by batch size"
        names = [readable(row) for row in rows]
        header = ["augmentation", *(f"{m}, batch {s}" for m in measures for s in sizes)]
        numbers = [
            [name, *(f"{of[row][s]['all'][m]['mean']:.3f}" for m in measures for s in sizes)]
            for name, row in zip(names, rows, strict=True)
        ]

        def draw(path: Path, panels=panels, names=names, sizes=sizes, title=title) -> None:
            plots.heat_maps(panels, (names, sizes), path, title, "batch size")

        figures.append(Figure(drawn(draw), title, Table(header, numbers, title)))
    return figures


def bars(results: Results) -> Figure:
    """Systems by measures on test."""
    rows = {
        name: {measure: value["mean"] for measure, value in system["test"].items()}
        for name, system in results["systems"].items()
    }
    measures = list(next(iter(rows.values())))
    title = f"Zero-shot ranking, test: {results['data'].partition(';')[0]}"
    svg = drawn(lambda path: plots.comparison(rows, measures, path, "Zero-shot ranking, test"))
    numbers = [[name, *(f"{row[m]:.3f}" for m in measures)] for name, row in rows.items()]
    return Figure(svg, title, Table(["system", *measures], numbers, title))


def sweep_figures(results: Results) -> list[Figure]:
    """Combinations of a sweep by its first measures, of those that are above 0 in each."""
    done = [row for row in results["rows"] if row["measures"]]
    if not done:
        return []
    measures = [
        name
        for name in done[0]["measures"]
        if all(name in row["measures"] and row["measures"][name]["mean"] > 0 for row in done)
    ][:PANELS]
    if not measures:
        return []
    names = [", ".join(row["choices"].values()) for row in done]
    rows = {
        name: {m: row["measures"][m]["mean"] for m in measures}
        for name, row in zip(names, done, strict=True)
    }
    title = f"{results['experiment']}, by {', '.join(results['axes'])}"
    svg = drawn(lambda path: plots.comparison(rows, measures, path, title))
    numbers = [
        [name, *(mean_and_sd(row["measures"][m]) for m in measures)]
        for name, row in zip(names, done, strict=True)
    ]
    return [Figure(svg, title, Table([", ".join(results["axes"]), *measures], numbers, title))]


def line_figure(lines: Lines, labels: tuple[str, str], title: str) -> Figure:
    """Curves that share their x values."""
    xs = list(next(iter(lines.values()))[0])
    header = [labels[0], *(f"{x:g}" for x in xs)]
    numbers = [[name, *(f"{y:.3f}" for y in ys)] for name, (_, ys) in lines.items()]
    svg = drawn(lambda path: plots.curves(lines, labels, path, title))
    return Figure(svg, title, Table(header, numbers, f"{title}: {labels[1]}"))


def gains_by_difficulty(results: Results) -> Figure:
    """Gain of text+meta over text by the number of irrelevant documents, a line a pair."""
    gains = ltr_gains(results)
    lines = {
        pair: (sorted(of), [of[level].mean for level in sorted(of)]) for pair, of in gains.items()
    }
    return line_figure(
        lines, ("irrelevant documents", "NDCG gained"), "Gain of text+meta over text by difficulty"
    )


def tag_figures(results: Results) -> list[Figure]:
    """Figure 2 of DocEnt: precision and NDCG at k, and AUC by the number of training tags."""
    curves = tag_curves(results)
    figures = []
    for title, (labels, lines) in curves.items():
        figure = line_figure(lines, labels, title)
        if labels[0] == "k":  # all k would be too wide a table
            kept = [i for i, k in enumerate(figure.numbers.header[1:], 1) if float(k) in SHOWN_K]
            header = [figure.numbers.header[i] for i in (0, *kept)]
            rows = [[row[i] for i in (0, *kept)] for row in figure.numbers.rows]
            figure = Figure(figure.svg, title, Table(header, rows, figure.numbers.caption))
        figures.append(figure)
    return figures


def tag_curves(results: Results) -> dict[str, tuple[tuple[str, str], Lines]]:
    """Title -> labels of the axes, and system -> x and y, at the first T."""
    closed = results["closed"]
    threshold = next(iter(next(iter(closed.values()))))
    curves: dict[str, tuple[tuple[str, str], Lines]] = {}
    for curve, label in (("precision_at_k", "precision at k"), ("ndcg_at_k", "NDCG at k")):
        lines = {}
        for name, of in closed.items():
            if threshold in of:
                values = of[threshold]["test"][curve]
                lines[name] = range(1, len(values) + 1), values
        curves[f"Closed vocabulary, {threshold}, {label}"] = ("k", label), lines
    by_tags = auc_by_tags(results, threshold)
    if by_tags:
        curves[f"Open vocabulary, {threshold}, AUC"] = ("training tags", "AUC"), by_tags
    return curves


def auc_by_tags(
    results: Results, threshold: str
) -> dict[str, tuple[Sequence[float], Sequence[float]]]:
    """System -> numbers of training tags and AUC on test; of one that is not trained, a level."""
    opened = results["open"]
    keys = [key for key in opened if key != "all"]
    numbers = [*map(int, keys), results["open_training_tags"]]
    lines = {}
    for name, of in opened["all"].items():
        if threshold in of:
            systems = [opened[key].get(name, of) for key in keys] + [of]
            lines[name] = numbers, [s[threshold]["test"]["AUC"]["mean"] for s in systems]
    return lines


def training_figure(run: Path, measure: str) -> Figure | None:
    """Loss and dev measure of a run folder against steps; None without any.

    The numbers are those on dev, of a run without dev data its losses.
    """
    entries = read_metrics(run)
    dev = [e for e in entries if e["kind"] == "dev" and e.get(measure) is not None]
    losses = [e for e in entries if e["kind"] == "train" and e.get("loss") is not None]
    if not losses:
        return None
    svg = drawn(lambda path: plots.training_curves(entries, measure, path))
    title = f"Training of {run.name}: loss"
    shown, name, header = losses, "loss", "loss"
    if dev:
        title += f", and {measure} on dev"
        shown, name, header = dev, measure, f"dev {measure}"
    rows = [[str(e["step"]), f"{e[name]:.4f}"] for e in shown]
    return Figure(svg, title, Table(["step", header], rows, title))
