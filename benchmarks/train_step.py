"""Training steps without any padding to save: random pieces of full length.

COMMAND   python -m benchmarks.train_step --memory --output benchmarks/results/NAME.json
          and with --pairs 32 --length 128 --batches 2
TIME      about 2 minutes
HARDWARE  2 CPU cores
RESULT    benchmarks/results/train_step*.json

The step of `benchmarks.train_sentences`, where every text has `length` word pieces.
"""

import dataclasses
import hashlib
from typing import Annotated

import numpy as np
import tyro

from benchmarks import measure, ours
from retrieval_jax.pipeline import TokenTable
from retrieval_jax.pretrained import DEFAULT_ENCODER, load_pretrained


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        options: how to measure.
        encoder: BERT folder, package or hub name.
        pairs: in a batch.
        length: word pieces of every text.
        batches: distinct ones in a run.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options()
    encoder: str = DEFAULT_ENCODER
    pairs: int = 16
    length: int = 64
    batches: int = 4


def prepare(command: Command) -> measure.Comparison:
    """Draws the pieces and names the sides."""
    from benchmarks import peer

    encoder = load_pretrained(command.encoder, hidden_dropout=0.0, attention_dropout=0.0)
    table, batches = full_rows(command, encoder.config.vocab_size)
    pieces = table.input_ids
    return measure.Comparison(
        settings=measure.settings_of(command),
        data={
            "name": f"random word pieces {pieces.shape}, seed 0",
            "fingerprint": hashlib.sha256(pieces.tobytes()).hexdigest(),
        },
        packages=("torch", "transformers"),
        sides={
            "ours": lambda: ours.pair_side(encoder, table, batches),
            "torch": lambda: peer.pair_side(encoder.folder, table, batches, dropout=0.0),
        },
        check=measure.check_losses,
    )


def full_rows(command: Command, vocab_size: int) -> tuple[TokenTable, np.ndarray]:
    """Random texts of full length, and the pairs of each batch, int `[batches, pairs]`."""
    batches = np.arange(command.pairs * command.batches).reshape(-1, command.pairs)
    shape = (2 * batches.size, command.length)
    # From 1 on: 0 is padding.
    pieces = np.random.default_rng(0).integers(1, vocab_size, shape, np.int32)
    return TokenTable(pieces, np.full(len(pieces), command.length, np.int32)), batches


if __name__ == "__main__":
    measure.command_line("train_step", prepare, Command, __doc__)
