"""How near a training step comes to this machine's rate of matrix products.

COMMAND   python -m benchmarks.roofline --output benchmarks/results/roofline.json
TIME      about a minute
HARDWARE  2 CPU cores
RESULT    benchmarks/results/roofline.json

Items are GFLOP, so rates are GFLOP/s and a ratio is a share: what the step reaches of the rate of a
product. `ours` is the step of `benchmarks.train_step`; of it count the matrix products of the
encoder, forward and backward, by their closed form (`device.bert_flops`): what else the step does
costs time and counts nothing. Peers are float32 products of two square matrices on the same cores:
`jax_N` of N rows, and `numpy_N`, by numpy's BLAS. The least ratio to a `jax_N` is the share of what
XLA itself can do; where `numpy_N` is faster, it is XLA's product that falls short.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure, ours, train_step
from benchmarks.device import bert_flops
from retrieval_jax.pretrained import PretrainedBert, load_pretrained

GIGA = 1e9
COUNTED = "closed form: matrix products of the encoder, forward and backward"


@dataclasses.dataclass(frozen=True)
class Command(train_step.Command):
    """What to measure.

    Attributes:
        sizes: rows of the square matrices.
        gflop: of products of each size in a run, at least.
    """

    pairs: int = 32
    length: int = 128
    batches: int = 1
    sizes: tuple[int, ...] = (512, 1024, 2048)
    gflop: float = 40.0


def prepare(command: Command) -> measure.Comparison:
    """Draws the pieces and names the sides."""
    encoder = load_pretrained(command.encoder, hidden_dropout=0.0, attention_dropout=0.0)
    sides: dict[str, Callable[[], measure.Side]] = {"ours": lambda: step_side(encoder, command)}
    libraries = {"jax": (jnp.asarray, jax.jit(jnp.matmul)), "numpy": (np.asarray, np.matmul)}
    for library, functions in libraries.items():
        for size in command.sizes:
            side = functools.partial(product_side, *functions, size, command.gflop)
            sides[f"{library}_{size}"] = side
    return measure.Comparison(
        settings=measure.settings_of(command) | {"items": "GFLOP"},
        data={"name": "random word pieces and matrices, seed 0", "fingerprint": "seed 0"},
        packages=(),
        sides=sides,
        check=check_products,
    )


def step_side(encoder: PretrainedBert, command: Command) -> measure.Side:
    """A run trains on all batches once more; gives the losses."""
    table, batches = train_step.full_rows(command, encoder.config.vocab_size)
    run = ours.pair_side(encoder, table, batches).run
    flops = bert_flops(encoder.config, len(table.lengths), command.length, masked=0)
    return measure.Side(run, flops / GIGA)


def product_side(
    to_array: Callable[[np.ndarray], Any], product: Callable[..., Any], size: int, gflop: float
) -> measure.Side:
    """A run multiplies `[size, size]` by another again and again; gives a number of the result."""
    rng = np.random.default_rng(0)
    # Orthogonal, so that products of products grow no larger.
    factor = to_array(np.linalg.qr(rng.standard_normal((size, size), dtype=np.float32))[0])
    one = 2.0 * size**3 / GIGA
    products = math.ceil(gflop / one)

    def run() -> np.ndarray:
        result = factor
        for _ in range(products):
            result = product(result, factor)
        return np.asarray(result)[0, 0]

    return measure.Side(run, products * one)


def check_products(outcomes: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Says how operations were counted.

    Raises:
        DisagreementError: the two libraries' products of a size differ by more than 1e-4.
    """
    for side in outcomes:
        library, _, size = side.partition("_")
        if library == "jax":
            difference = float(np.abs(outcomes[side] - outcomes[f"numpy_{size}"]))
            if not difference <= 1e-4:
                raise measure.DisagreementError(
                    f"{side} and numpy_{size} differ by {difference:.2g}"
                )
    return {"counted": COUNTED}


if __name__ == "__main__":
    measure.command_line("roofline", prepare, Command, __doc__)
