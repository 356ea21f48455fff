"""Random walks over a graph: all at once in numpy beside a loop of plain Python.

COMMAND   python -m benchmarks.walks --output benchmarks/results/walks.json
TIME      about 1 minute
HARDWARE  2 CPU cores
RESULT    benchmarks/results/walks.json

A run makes walks of a million nodes together, from nodes at random. Sides, in nodes a second:
`ours`, `walks.random_walks`; `python`, the loop over walks and steps of most DeepWalk programs,
with lists of neighbours made beforehand. The graph is random: a node has so many edges on average,
to any others.
"""

import dataclasses
import random
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import tyro

from benchmarks import measure
from retrieval_jax.walks import Graph, make_graph, random_walks


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        options: how to measure.
        nodes: of the graph.
        degree: neighbours of a node, on average.
        length: nodes of a walk.
        tokens: nodes of all walks together.
        seed: of graph and walks.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options()
    nodes: int = 100_000
    degree: int = 10
    length: int = 10
    tokens: int = 1_000_000
    seed: int = 0


def prepare(command: Command) -> measure.Comparison:
    """Makes a graph without dead ends and names the sides."""
    rng = np.random.default_rng(command.seed)
    edges = rng.integers(0, command.nodes, (command.nodes * command.degree // 2, 2))
    ring = np.arange(command.nodes)
    graph = make_graph(
        np.concatenate([edges, np.stack([ring, np.roll(ring, 1)], axis=1)]), command.nodes
    )
    starts = rng.integers(0, command.nodes, command.tokens // command.length)
    return measure.Comparison(
        settings=measure.settings_of(command),
        data={"name": "random graph", "fingerprint": f"seed {command.seed}"},
        packages=(),
        sides={
            "ours": lambda: our_side(graph, starts, command.length, command.seed),
            "python": lambda: python_side(graph, starts, command.length, command.seed),
        },
        check=lambda walks: check_walks(graph, starts, walks),
    )


def our_side(graph: Graph, starts: np.ndarray, length: int, seed: int) -> measure.Side:
    """Gives walks `[walks, length]`."""
    return measure.Side(lambda: random_walks(graph, starts, length, seed), len(starts) * length)


def python_side(graph: Graph, starts: np.ndarray, length: int, seed: int) -> measure.Side:
    """As `our_side`, step by step."""
    parts = np.split(graph.neighbours, graph.offsets[1:-1])
    neighbours = [part.tolist() for part in parts]
    first = starts.tolist()
    rng = random.Random(seed)

    def run() -> np.ndarray:
        walks = []
        for node in first:
            walk = [node]
            while len(walk) < length and neighbours[walk[-1]]:
                walk.append(rng.choice(neighbours[walk[-1]]))
            walks.append(walk)
        return np.array(walks)

    return measure.Side(run, len(first) * length)


def check_walks(
    graph: Graph, starts: np.ndarray, walks: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Gives the share of steps back to the node before, which is about the same for all sides.

    Raises:
        DisagreementError: walks begin elsewhere, a step is no edge, or the shares differ by more
            than 0.02.
    """
    nodes = graph.num_nodes
    sources = np.repeat(np.arange(nodes), np.diff(graph.offsets))
    edges = np.unique(sources * nodes + graph.neighbours)
    shares = {}
    for side, of in walks.items():
        steps = of[:, :-1].astype(np.int64) * nodes + of[:, 1:]
        if not np.array_equal(of[:, 0], starts) or not np.isin(steps, edges).all():
            raise measure.DisagreementError(f"{side} does not walk along the graph")
        shares[side] = round(float(np.mean(of[:, 2:] == of[:, :-2])), 4)
    if max(shares.values()) - min(shares.values()) > 0.02:
        raise measure.DisagreementError(f"steps back: {shares}")
    return {"steps_back": shares}


if __name__ == "__main__":
    measure.command_line("walks", prepare, Command, __doc__)
