"""The symmetric contrastive loss and its gradient in tiles, beside the plain one.

COMMAND   python -m benchmarks.blocked_loss --memory --output benchmarks/results/NAME.json
          and with --pairs 16384 --repeats 3
          to choose the side of a tile for a device:
          python -m benchmarks.blocked_loss --pairs 16384 --tiles 256 512 1024 2048
TIME      about 2 minutes; of 16,384 pairs 4
HARDWARE  2 CPU cores
RESULT    benchmarks/results/blocked_loss*.json

Random unit vectors, all other pairs as negatives. `ours` works in tiles with a gradient written by
hand (`retrieval_jax.contrastive_blocked`), `ours_rows` over some queries at a time and both ways,
`plain` and `torch` hold the matrix of all pairs, as one would write it. `temporaries_mib` is what
the compiled step holds beside vectors and gradients, for the pairs that are timed and for `large`
ones, which are not run.

With `--tiles` the sides are sizes of a tile, and the fastest is named. It is a setting of a run,
not chosen anew at each start: another one changes last digits, and a run that is taken up must go
on as it would have.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from benchmarks import measure
from retrieval_jax.contrastive_blocked import (
    blocked_contrastive_loss,
    row_blocked_contrastive_loss,
)
from retrieval_jax.kept import content_name
from retrieval_jax.losses import contrastive_loss_from_embeddings

TEMPERATURE = 0.05
TOLERANCE = 1e-4  # of loss and sums of squares, relative

# (queries, candidates) -> loss
Loss = Callable[[jax.Array, jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        options: how to measure.
        pairs: of the batch that is timed.
        large: pairs of the batch whose memory alone is looked at.
        dim: of vectors.
        block_size: rows and columns of a tile.
        tiles: compare these sizes of a tile instead.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options()
    pairs: int = 8192
    large: int = 65_536
    dim: int = 128
    block_size: int = 512
    tiles: tuple[int, ...] = ()


def tiled(block_size: int) -> Loss:
    """The loss in tiles of that size."""
    return lambda q, c: blocked_contrastive_loss(q, c, TEMPERATURE, block_size=block_size)


def losses(block_size: int) -> dict[str, Loss]:
    """The ways to the loss in JAX, ours first."""

    def by_rows(queries: jax.Array, candidates: jax.Array) -> jax.Array:
        ids = jnp.arange(len(queries))
        one_way, other_way = (
            row_blocked_contrastive_loss(a, b, TEMPERATURE, ids, ids)
            for a, b in ((queries, candidates), (candidates, queries))
        )
        return (one_way + other_way) / 2

    return {
        "ours": tiled(block_size),
        "ours_rows": by_rows,
        "plain": lambda q, c: contrastive_loss_from_embeddings(q, c, TEMPERATURE, symmetric=True),
    }


def step(loss: Loss) -> Any:
    """Jits (queries, candidates) -> (loss, gradients of both)."""
    return jax.jit(jax.value_and_grad(loss, (0, 1)))


def temporaries_mib(loss: Loss, pairs: int, dim: int) -> float:
    """MiB that the compiled step holds beside its inputs and results."""
    shape = jax.ShapeDtypeStruct((pairs, dim), jnp.float32)
    analysis = step(loss).lower(shape, shape).compile().memory_analysis()
    return round(analysis.temp_size_in_bytes / 2**20, 1)


def side(loss: Loss, vectors: np.ndarray) -> measure.Side:
    """A run computes loss and gradients once; gives the loss and the gradients' sums of squares."""
    queries, candidates = map(jnp.asarray, vectors)
    compute = step(loss)

    def run() -> np.ndarray:
        value, gradients = compute(queries, candidates)
        squares = [jnp.sum(jnp.square(gradient)) for gradient in gradients]
        return np.asarray(jax.device_get([value, *squares]))

    return measure.Side(run, vectors.shape[1])


def prepare(command: Command) -> measure.Comparison:
    """Draws vectors and names the sides."""
    shape = (2, command.pairs, command.dim)
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    vectors[1] += vectors[0]
    if command.tiles:
        named = {f"tile_{size}": tiled(size) for size in command.tiles}
        settings: dict[str, Any] = {"tiles": list(command.tiles)}
    else:
        named, settings = losses(command.block_size), {"block_size": command.block_size}
    sides: dict[str, Callable[[], measure.Side]] = {
        name: functools.partial(side, loss, vectors) for name, loss in named.items()
    }
    if not command.tiles:
        from benchmarks import peer

        sides["torch"] = lambda: peer.contrastive_side(vectors, TEMPERATURE)

    def check(outcomes: Mapping[str, np.ndarray]) -> dict[str, Any]:
        first, *others = outcomes
        for name in others:
            difference = np.abs(outcomes[name] / outcomes[first] - 1).max()
            if not difference <= TOLERANCE:
                raise measure.DisagreementError(f"{first} and {name} differ by {difference:.2g}")
        return {
            "temporaries_mib": {
                str(pairs): {n: temporaries_mib(of, pairs, command.dim) for n, of in named.items()}
                for pairs in (command.pairs, command.large)
            }
        }

    return measure.Comparison(
        settings={"pairs": command.pairs, "dim": command.dim} | settings,
        data={"name": "random vectors", "fingerprint": content_name([vectors])},
        packages=() if command.tiles else ("torch",),
        sides=sides,
        check=check,
    )


def fastest_tile(record: Mapping[str, Any]) -> str:
    """Says which side of a record was the fastest, and how to set it."""
    rates = {name: side["items_per_second"] for name, side in record["sides"].items()}
    size = max(rates, key=rates.__getitem__).removeprefix("tile_")
    return f"fastest: {size}; for experiments.gcl.train: --contrast.block-size {size}"


if __name__ == "__main__":
    measured = measure.command_line("blocked_loss", prepare, Command, __doc__)
    if "tiles" in measured["settings"]:
        print(fastest_tile(measured), file=sys.stderr)
