"""Maps: embeddings in two dimensions, so that what is alike lies close."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE, trustworthiness

from experiments.report.blocks import Figure, Table
from retrieval_jax import plots
from retrieval_jax.encoding import unit_length
from retrieval_jax.errors import InputError

Method = Literal["tsne", "pca"]
GROUPS = len(plots.COLOURS) - 1
OTHERS = "others"
NEIGHBOURS = 5


def project(vectors: np.ndarray, method: Method = "tsne", seed: int = 0) -> np.ndarray:
    """Brings vectors `[n, dim]` to a plane, float64 `[n, 2]`.

    Args:
        vectors: of any length; their directions are compared.
        method: tsne keeps neighbours together; pca is linear, and keeps what varies most.
        seed: of t-SNE.

    Raises:
        InputError: fewer than 5 vectors.
    """
    if len(vectors) < NEIGHBOURS:
        raise InputError(f"a map of {len(vectors)} points", f"Give {NEIGHBOURS} or more.")
    unit = unit_length(vectors)
    if method == "pca":
        return PCA(2, random_state=seed).fit_transform(unit)
    # The number of neighbours that a point has an eye on, of few points fewer.
    perplexity = min(30.0, (len(unit) - 1) / 4)
    return TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(unit)


def kept_neighbours(vectors: np.ndarray, places: np.ndarray) -> float:
    """How far neighbours on the map are neighbours: trustworthiness, 0 to 1, of 5 neighbours."""
    number = min(NEIGHBOURS, (len(vectors) - 1) // 2)
    return float(trustworthiness(vectors, places, n_neighbors=number, metric="cosine"))


def evenly_spaced(number: int, most: int) -> list[int]:
    """Of so many rows at most `most`, evenly spaced."""
    return np.unique(np.linspace(0, number - 1, min(number, most)).astype(int)).tolist()


def without_id(name: str) -> str:
    """The title of "Title (1999) [tt1]"; nothing of a film without a title."""
    return re.sub(r"\s*\[tt\d+\]$", "", name)


def groups_of(names: Sequence[str]) -> list[str]:
    """What colours entities: the decade of "Title (1999)", else the package of "numpy.fft.fft"."""
    return group_largest([_group(name) for name in names])


def group_largest(found: Sequence[str]) -> list[str]:
    """The largest groups, as many as there are colours; the rest are "others"."""
    largest = [group for group, _ in Counter(found).most_common(GROUPS)]
    return [group if group in largest else OTHERS for group in found]


def _group(name: str) -> str:
    year = re.search(r"\((\d{3})\d\)", name)
    if year:
        return f"{year[1]}0s"
    return name.partition(".")[0] if "." in name else OTHERS


def map_figure(
    vectors: np.ndarray,
    names: Sequence[str],
    groups: Sequence[str],
    path: Path,
    title: str,
    method: Method = "tsne",
    labelled: int = 24,
) -> Figure:
    """Draws the map, also as a PNG.

    Args:
        vectors: `[n, dim]`.
        names: of the points; some are written.
        groups: of the points, told apart by colour and mark.
        path: PNG to write.
        title: above.
        method: see `project`.
        labelled: so many points have their names, evenly spaced in the order given.

    Returns:
        The figure; its numbers are the neighbours of the named points on the map.
    """
    places = project(vectors, method)
    titled = [i for i, name in enumerate(names) if without_id(name)] or list(range(len(names)))
    labels = {titled[i]: names[titled[i]] for i in evenly_spaced(len(titled), labelled)}
    order = sorted(set(groups), key=lambda group: (group == OTHERS, group))
    points = {g: places[[i for i, of in enumerate(groups) if of == g]] for g in order}
    texts = [(places[i], without_id(name) or name) for i, name in labels.items()]
    svg = path.with_suffix(".svg")
    for output in (path, svg):
        plots.scatter(points, texts, output, title)
    rows = []
    for i, name in labels.items():
        distances = np.linalg.norm(places - places[i], axis=1)
        nearest = [int(j) for j in np.argsort(distances) if j != i][:3]
        rows.append([name, groups[i], "; ".join(names[j] for j in nearest)])
    kept = kept_neighbours(vectors, places)
    caption = f"{title}; trustworthiness of {NEIGHBOURS} neighbours {kept:.3f}"
    return Figure(svg.read_bytes(), title, Table(["point", "group", "beside it"], rows, caption))
