"""Training on real sentence pairs: packed rows beside torch loops that pad.

COMMAND   python -m benchmarks.train_sentences --memory --output benchmarks/results/NAME.json
          and with --pairs 128 --batches 4
TIME      about 6 minutes
HARDWARE  2 CPU cores
RESULT    benchmarks/results/train_sentences*.json

One step takes `pairs` pairs of consecutive sentences of a review: mean pooling, cosine times 20,
softmax over the batch, AdamW. A run is a step on each of `batches` batches, from word pieces to
new parameters, packing or padding included. Sides: `ours`; `torch`, on the same batches, each side
of the pairs padded to its longest; `torch_bucketed`, the same pairs sorted by length into batches.
Without dropout, so that losses can be compared; --dropout sets one rate for all sides.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import measure, ours, reviews
from retrieval_jax.pipeline import TokenTable, tokenize
from retrieval_jax.pretrained import load_pretrained


@dataclasses.dataclass(frozen=True)
class Command(reviews.SentenceCommand):
    """What to measure.

    Attributes:
        pairs: in a batch.
        batches: distinct ones in a run.
        dropout: of hidden states and attention.
    """

    pairs: int = 32
    batches: int = 8
    dropout: float = 0.0


def prepare(command: Command) -> measure.Comparison:
    """Tokenises the pairs and names the sides."""
    from benchmarks import peer

    dropout = command.dropout
    encoder = load_pretrained(command.encoder, hidden_dropout=dropout, attention_dropout=dropout)
    texts = reviews.read_pairs(command.reviews, command.pairs * command.batches)
    table = tokenize(texts, encoder.tokenizer, command.max_length)
    in_text_order = np.arange(command.pairs * command.batches).reshape(-1, command.pairs)
    peer_side = functools.partial(peer.pair_side, encoder.folder, table, dropout=dropout)
    return measure.Comparison(
        settings=measure.settings_of(command),
        data=reviews.describe(command.reviews, texts, "paired sentences"),
        packages=("torch", "transformers"),
        sides={
            "ours": lambda: ours.pair_side(encoder, table, in_text_order),
            "torch": lambda: peer_side(in_text_order),
            "torch_bucketed": lambda: peer_side(by_length(table, in_text_order)),
        },
        check=check_losses if dropout == 0 else lambda _: {},
    )


def by_length(table: TokenTable, batches: np.ndarray) -> np.ndarray:
    """The same pairs in batches of similar lengths: sorted by the longer text of each."""
    longer = table.lengths.reshape(-1, 2).max(axis=1)
    return np.argsort(longer, kind="stable").reshape(batches.shape)


def check_losses(losses: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Compares the losses of ours and `torch`, which saw the same batches."""
    return measure.check_losses({side: losses[side] for side in ("ours", "torch")})


if __name__ == "__main__":
    measure.command_line("train_sentences", prepare, Command, __doc__)
