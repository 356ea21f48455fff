"""Masked language modelling on real sentences: the head at masked positions only.

COMMAND   python -m benchmarks.masked_lm --memory --output benchmarks/results/masked_lm.json
TIME      about 5 minutes
HARDWARE  2 CPU cores
RESULT    benchmarks/results/masked_lm.json

One step predicts 15 % of the word pieces of `texts` sentences, all replaced by [MASK]; the head
is random where the encoder has none, the same on all sides, and tied to the word-piece table.
Sides: `ours`; `ours_all_positions`, the same packed rows with logits at every position;
`transformers`, BertForMaskedLM on rows padded to the longest of the batch. Without dropout.
"""

import dataclasses
import functools
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from benchmarks import measure, ours, reviews
from retrieval_jax.bert import Bert, BertConfig, init_params
from retrieval_jax.huggingface import save_bert
from retrieval_jax.losses import weighted_mean
from retrieval_jax.params import Params
from retrieval_jax.pipeline import Batch, TokenTable, tokenize
from retrieval_jax.pretrained import load_pretrained
from retrieval_jax.sharding import Rules
from retrieval_jax.train_step import Metrics

MASKED_SHARE = 0.15


@dataclasses.dataclass(frozen=True)
class Command(reviews.SentenceCommand):
    """What to measure.

    Attributes:
        texts: sentences in a batch.
        batches: distinct ones in a run.
    """

    texts: int = 64
    batches: int = 4


class MaskedTask:
    """Predicts masked pieces; as much of a `train_step.Task` as a step needs.

    Args:
        config: of the encoder.
        params: of `Bert` with MLM head, where to start.
    """

    rules: Rules = ()

    def __init__(self, config: BertConfig, params: Params) -> None:
        self._model = Bert(config, with_mlm_head=True)
        self._params = params

    def init(self, rng: jax.Array) -> Params:
        """Fresh parameters."""
        return init_params(self._model, rng)

    def warm_start(self) -> Params:
        """Those given."""
        return self._params

    def loss(
        self, params: Params, batch: dict[str, jax.Array], rng: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]:
        """Cross-entropy, averaged over the masked pieces of a batch."""
        variables = {"params": params}
        hidden: Any = self._model.apply(
            variables,
            batch["input_ids"],
            batch["attention_mask"],
            position_ids=batch["position_ids"],
            deterministic=not train,
            rngs={"dropout": rng},
        )
        logits: Any = self._model.apply(
            variables, hidden, batch["positions"], method=Bert.mlm_logits
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["labels"])
        return weighted_mean(losses.reshape(-1), batch["weights"].reshape(-1)), {}


def prepare(command: Command) -> measure.Comparison:
    """Tokenises and masks the sentences, and names the sides."""
    from benchmarks import peer

    encoder = load_pretrained(command.encoder, hidden_dropout=0.0, attention_dropout=0.0)
    texts = reviews.read_sentences(command.reviews, command.texts * command.batches)
    table = tokenize(texts, encoder.tokenizer, command.max_length)
    mask_id: Any = encoder.tokenizer.mask_token_id
    masked, labels = mask_pieces(table, mask_id)
    batches = np.arange(len(texts)).reshape(-1, command.texts)
    head = init_params(Bert(encoder.config, with_mlm_head=True), jax.random.key(0))["mlm_head"]
    params = encoder.params | {"mlm_head": head}

    def peer_side() -> measure.Side:
        with tempfile.TemporaryDirectory() as folder:
            save_bert(Path(folder), encoder.config, params)
            return peer.masked_side(Path(folder), masked, labels, batches)

    side = functools.partial(our_side, encoder.config, params, masked, labels, batches)
    return measure.Comparison(
        settings=measure.settings_of(command) | {"masked_share": MASKED_SHARE},
        data=reviews.describe(command.reviews, texts, "sentences"),
        packages=("torch", "transformers"),
        sides={
            "ours": lambda: side(all_positions=False),
            "ours_all_positions": lambda: side(all_positions=True),
            "transformers": peer_side,
        },
        check=measure.check_losses,
    )


def mask_pieces(table: TokenTable, mask_id: int) -> tuple[TokenTable, TokenTable]:
    """Masks `MASKED_SHARE` of each text's pieces, at least one, neither [CLS] nor [SEP].

    Returns:
        The texts with [MASK] in place of those pieces; labels: those pieces, 0 at all others.
    """
    rng = np.random.default_rng(0)
    chosen = np.zeros(table.input_ids.shape, bool)
    for text, length in enumerate(table.lengths):
        count = max(round(MASKED_SHARE * (length - 2)), 1)
        chosen[text, 1 + rng.choice(length - 2, count, replace=False)] = True
    masked = np.where(chosen, np.int32(mask_id), table.input_ids)
    labels = np.where(chosen, table.input_ids, 0)
    return TokenTable(masked, table.lengths), TokenTable(labels, table.lengths)


def our_side(
    config: BertConfig,
    params: Params,
    masked: TokenTable,
    labels: TokenTable,
    batches: np.ndarray,
    all_positions: bool,
) -> measure.Side:
    """A run trains on all batches once more, packing included.

    Args:
        config: of the encoder.
        params: of `Bert` with MLM head.
        masked: as `mask_pieces` gives.
        labels: as `mask_pieces` gives.
        batches: int `[batches, texts]`, the texts of each batch.
        all_positions: logits at every position instead of the masked ones.
    """
    step = ours.make_stepper(MaskedTask(config, params))
    place_all = ours.placer(masked.lengths, batches)
    counts = [(labels.pack(*placed)["input_ids"] > 0).sum(axis=1).max() for placed in place_all()]
    most = None if all_positions else max(counts)

    def pack(placed: ours.Placed) -> Batch:
        expected = labels.pack(*placed)["input_ids"]
        # The masked positions of each row first, filled up to `most` by others of weight 0.
        positions = np.argsort(expected == 0, axis=1, kind="stable")[:, :most].astype(np.int32)
        expected = np.take_along_axis(expected, positions, axis=1)
        return masked.pack(*placed) | {
            "positions": positions,
            "labels": expected,
            "weights": (expected > 0).astype(np.float32),
        }

    return measure.Side(lambda: step(map(pack, place_all())), batches.size)


if __name__ == "__main__":
    measure.command_line("masked_lm", prepare, Command, __doc__)
