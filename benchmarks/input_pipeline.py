"""The input pipeline: packed batches of tokenised texts beside a loader that tokenises.

COMMAND   python -m benchmarks.input_pipeline --output benchmarks/results/input_pipeline.json
TIME      about 3 minutes
HARDWARE  2 CPU cores
RESULT    benchmarks/results/input_pipeline.json

Sides, in texts a second: `ours`, `pipeline.text_batches` of a tokenised table, shuffled and packed;
`torch_dataloader`, shuffled, each batch tokenised and padded in the loop's process, as in
most fine-tuning scripts; `train_step`, the step of `benchmarks.train_sentences` on batches of as
many texts. So the ratio to `train_step` says how many times what the step eats ours delivers.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from benchmarks import measure, ours, reviews
from retrieval_jax.pipeline import TokenTable, text_batches, tokenize
from retrieval_jax.pretrained import load_pretrained


@dataclasses.dataclass(frozen=True)
class Command(reviews.SentenceCommand):
    """What to measure.

    Attributes:
        texts: sentences to read, all in a run of a loader.
        batch_size: texts in a batch; even.
        steps: batches in a run of the train step.
    """

    texts: int = 20_000
    batch_size: int = 64
    steps: int = 4


def prepare(command: Command) -> measure.Comparison:
    """Reads the sentences and names the sides."""
    # Here, so that its import is no part of its memory.
    import torch  # noqa: F401  # pyright: ignore[reportMissingImports]

    encoder = load_pretrained(command.encoder, hidden_dropout=0.0, attention_dropout=0.0)
    texts = reviews.read_pairs(command.reviews, command.texts // 2)
    table = tokenize(texts, encoder.tokenizer, command.max_length)

    def step_side() -> measure.Side:
        pairs = np.arange(command.steps * command.batch_size // 2).reshape(command.steps, -1)
        run, num_pairs = ours.pair_side(encoder, table, pairs)
        return measure.Side(run, 2 * num_pairs)

    return measure.Comparison(
        settings=measure.settings_of(command),
        data=reviews.describe(command.reviews, texts, "paired sentences"),
        packages=("torch", "transformers"),
        sides={
            "ours": lambda: our_side(table, command.batch_size),
            "torch_dataloader": lambda: peer_side(
                texts, encoder.tokenizer, command.batch_size, command.max_length
            ),
            "train_step": step_side,
        },
        check=lambda _: {},
    )


def our_side(table: TokenTable, batch_size: int) -> measure.Side:
    """A run takes the next epoch; gives the number of its word pieces."""
    iterator = text_batches(table, {}, batch_size, seed=0)
    num_batches = len(table.lengths) // batch_size

    def run() -> np.ndarray:
        batches = (next(iterator) for _ in range(num_batches))
        return np.array(sum((batch["attention_mask"] > 0).sum() for batch in batches))

    return measure.Side(run, num_batches * batch_size)


def peer_side(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, batch_size: int, max_length: int
) -> measure.Side:
    """As `our_side`, by torch's DataLoader."""
    from torch.utils.data import DataLoader  # pyright: ignore[reportMissingImports]

    def tokenize_batch(batch: list[str]) -> Any:
        return tokenizer(
            batch, truncation=True, max_length=max_length, padding=True, return_tensors="pt"
        )

    dataset: Any = list(texts)  # any sequence will do
    loader = DataLoader(
        dataset, batch_size, shuffle=True, drop_last=True, collate_fn=tokenize_batch
    )

    def run() -> np.ndarray:
        return np.array(sum(int(batch["attention_mask"].sum()) for batch in loader))

    return measure.Side(run, len(loader) * batch_size)


if __name__ == "__main__":
    measure.command_line("input_pipeline", prepare, Command, __doc__)
