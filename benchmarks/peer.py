"""The peer's side of training: a torch loop over models of transformers (extra `bench`).

It has what makes such a loop fast: fused AdamW, scaled-dot-product attention, no pooler, gradients
set to None.
"""

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import transformers
from torch.nn import functional  # pyright: ignore[reportMissingImports]
from torch.nn.utils.rnn import pad_sequence  # pyright: ignore[reportMissingImports]

from benchmarks.measure import Side
from benchmarks.ours import OPTIMIZER, SCALE
from retrieval_jax.pipeline import TokenTable

IGNORED = -100  # label of transformers for positions without loss


def pair_side(folder: Path, table: TokenTable, batches: np.ndarray, dropout: float) -> Side:
    """Pairs as `ours.pair_side` trains on, both sides padded to the longest of the batch."""
    model = load_model(transformers.BertModel, folder, dropout, add_pooling_layer=False)
    texts = ragged_tensors(table)

    def encode(indices: np.ndarray) -> torch.Tensor:
        input_ids, mask = pad([texts[index] for index in indices])
        hidden = model(input_ids=input_ids, attention_mask=mask).last_hidden_state
        present = mask[:, :, None].float()
        return functional.normalize((hidden * present).sum(dim=1) / present.sum(dim=1))

    def loss(pairs: np.ndarray) -> torch.Tensor:
        cosines = encode(2 * pairs) @ encode(2 * pairs + 1).T
        return functional.cross_entropy(SCALE * cosines, torch.arange(len(pairs)))

    step = make_stepper(model, loss)
    return Side(lambda: step(batches), batches.size)


def masked_side(folder: Path, masked: TokenTable, labels: TokenTable, batches: np.ndarray) -> Side:
    """BertForMaskedLM on sentences padded to the longest of the batch.

    Args:
        folder: BERT folder with MLM head.
        masked: what it sees.
        labels: what it should predict; 0 where nothing.
        batches: int `[batches, texts]`, the texts of each batch.
    """
    model = load_model(transformers.BertForMaskedLM, folder, dropout=0.0)
    texts, targets = ragged_tensors(masked), ragged_tensors(labels)

    def loss(indices: np.ndarray) -> torch.Tensor:
        input_ids, mask = pad([texts[index] for index in indices])
        expected, _ = pad([targets[index] for index in indices])
        expected = expected.masked_fill(expected == 0, IGNORED)
        return model(input_ids=input_ids, attention_mask=mask, labels=expected).loss

    step = make_stepper(model, loss)
    return Side(lambda: step(batches), batches.size)


def contrastive_side(vectors: np.ndarray, temperature: float) -> Side:
    """Symmetric loss of all pairs of `[2, pairs, dim]` and its gradient, as `blocked_loss.side`."""
    prepare_torch()
    queries, candidates = (torch.from_numpy(part).requires_grad_() for part in vectors)
    labels = torch.arange(len(queries))

    def run() -> np.ndarray:
        cosines = functional.normalize(queries) @ functional.normalize(candidates).T
        logits = cosines / temperature
        one, other = (functional.cross_entropy(way, labels) for way in (logits, logits.T))
        loss = (one + other) / 2
        gradients = torch.autograd.grad(loss, (queries, candidates))
        return np.array([loss.item(), *(of.square().sum().item() for of in gradients)])

    return Side(run, vectors.shape[1])


def prepare_torch() -> None:
    """Gives torch as many threads as the process has cores, and silences the loading of models."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def load_model(kind: Any, folder: Path, dropout: float, **options: Any) -> Any:
    """Loads a model in float32, in training mode."""
    prepare_torch()
    model = kind.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="sdpa",
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **options,
    )
    return model.train()


def ragged_tensors(table: TokenTable) -> list[torch.Tensor]:
    """Word pieces of each text, int64 `[length]`."""
    return [
        torch.from_numpy(ids[:length].astype(np.int64))
        for ids, length in zip(table.input_ids, table.lengths, strict=True)
    ]


def pad(texts: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pads texts to the longest: pieces and 0/1 mask, int64 `[texts, longest]`."""
    mask = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True)
    return pad_sequence(texts, batch_first=True), mask


def make_stepper(
    model: Any, loss_of: Callable[[Any], torch.Tensor]
) -> Callable[[Iterable[Any]], np.ndarray]:
    """Makes the loop: a call trains `model` on batches, by `ours.OPTIMIZER`; gives the losses."""
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [
            # As ours: matrices decay, biases and norms do not.
            {"params": [p for p in parameters if p.ndim > 1]},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=OPTIMIZER.learning_rate,
        betas=(OPTIMIZER.b1, OPTIMIZER.b2),
        eps=OPTIMIZER.eps,
        weight_decay=OPTIMIZER.weight_decay,
        fused=True,
    )

    def step(batches: Iterable[Any]) -> np.ndarray:
        losses = []
        for batch in batches:
            loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, OPTIMIZER.clip_norm or math.inf)
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses).numpy()

    return step
