"""Masked language modelling (Devlin et al., 2019, section 3.1): pieces masked inside a jitted step.

Shapes are static: each row has the same number of places, of which the first few count. Pieces are
masked one by one, not by whole words.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from transformers import PreTrainedTokenizerBase

from retrieval_jax.errors import InputError
from retrieval_jax.losses import contrastive_loss

# What a chosen piece becomes: [MASK], a random piece, or (the rest) itself.
MASK_SHARE, RANDOM_SHARE = 0.8, 0.1


@dataclasses.dataclass(frozen=True)
class Masking:
    """How pieces are masked.

    Attributes:
        rate: share of the pieces that are chosen, 0 to 1.
        mask_id: of [MASK].
        special_ids: pieces that are never chosen.
        vocab_size: random pieces are below it.
    """

    rate: float
    mask_id: int
    special_ids: tuple[int, ...]
    vocab_size: int


class MaskedPieces(NamedTuple):
    """Masked rows and what is to be predicted.

    Attributes:
        input_ids: int32 `[rows, width]`, chosen pieces replaced.
        positions: int32 `[rows, places]`, columns to predict at.
        labels: int32 `[rows, places]`, the pieces that were there.
        weights: float32 `[rows, places]`, 1 where the place counts, else 0.
    """

    input_ids: jax.Array
    positions: jax.Array
    labels: jax.Array
    weights: jax.Array


def check_mask_token(tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuses a vocabulary without [MASK].

    Raises:
        InputError: it has none.
    """
    if tokenizer.mask_token is None or tokenizer.mask_token not in tokenizer.get_vocab():
        raise InputError(
            f"the vocabulary of {tokenizer.name_or_path} has no [MASK], which stands for what is to"
            " be predicted",
            "Take an encoder with BERT's vocabulary, or a model that predicts no words"
            " (DocEnt-Dual).",
        )


def make_masking(tokenizer: PreTrainedTokenizerBase, rate: float) -> Masking:
    """Masks `rate` of the pieces of a tokenizer, none of its special ones.

    Raises:
        InputError: a vocabulary without [MASK].
    """
    check_mask_token(tokenizer)
    mask_id = tokenizer.get_vocab()[str(tokenizer.mask_token)]
    special_ids = tuple(int(piece) for piece in tokenizer.all_special_ids)
    return Masking(rate, mask_id, special_ids, len(tokenizer))


def mask_pieces(
    rng: jax.Array, input_ids: jax.Array, attention_mask: jax.Array, masking: Masking
) -> MaskedPieces:
    """Chooses pieces at random, each with probability `masking.rate`, and replaces them.

    Of a row's `n` pieces that are neither special nor padding, `rate * n` are chosen, rounded up or
    down at random so that the expected number is exact; 80 % of them become [MASK], 10 % a random
    piece, 10 % stay.

    Args:
        rng: decides everything.
        input_ids: int32 `[rows, width]`.
        attention_mask: int32 `[rows, width]`, 0 is padding.
        masking: how.

    Returns:
        The rows with `ceil(rate * width)` places each, one at least.
    """
    choice_rng, count_rng, kind_rng, piece_rng = jax.random.split(rng, 4)
    rows, width = input_ids.shape
    places = max(math.ceil(masking.rate * width), 1)
    special = jnp.isin(input_ids, jnp.array(masking.special_ids, input_ids.dtype))
    maskable = (attention_mask > 0) & ~special
    # The largest of random numbers are a random sample; -1 sorts what must not be chosen last.
    order = jnp.where(maskable, jax.random.uniform(choice_rng, (rows, width)), -1.0)
    positions = jax.lax.top_k(order, places)[1]
    expected = masking.rate * jnp.sum(maskable, axis=1)  # [rows]
    count = jnp.floor(expected + jax.random.uniform(count_rng, (rows,)))
    # `count` can be one too many where float32 rounds up, hence the second condition.
    chosen = (jnp.arange(places)[None] < count[:, None]) & jnp.take_along_axis(
        maskable, positions, axis=1
    )  # [rows, places]

    labels = jnp.take_along_axis(input_ids, positions, axis=1)
    kind = jax.random.uniform(kind_rng, (rows, places))
    random_pieces = jax.random.randint(
        piece_rng, (rows, places), 0, masking.vocab_size, input_ids.dtype
    )
    replaced = jnp.where(kind < MASK_SHARE + RANDOM_SHARE, random_pieces, labels)
    replaced = jnp.where(kind < MASK_SHARE, masking.mask_id, replaced)
    replaced = jnp.where(chosen, replaced, labels)
    masked = jax.vmap(lambda row, at, new: row.at[at].set(new))(input_ids, positions, replaced)
    return MaskedPieces(masked, positions, labels, chosen.astype(jnp.float32))


def masked_piece_loss(logits: jax.Array, masked: MaskedPieces) -> jax.Array:
    """-log P(piece) averaged over the chosen places of all rows; 0 if there are none.

    Args:
        logits: `[rows, places, vocab_size]` at `masked.positions`.
        masked: as `mask_pieces` gives.

    Returns:
        float32 scalar.
    """
    return contrastive_loss(
        logits.reshape(-1, logits.shape[-1]),
        masked.labels.reshape(-1),
        weights=masked.weights.reshape(-1),
    )
