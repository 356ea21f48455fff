"""Masked language modelling (Devlin et al., 2019, section 3.1): pieces masked inside a jitted step.

Shapes are static: each row has the same number of places, of which the first few count. Pieces are
masked one by one or, as BERT's authors added later, by whole words.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from transformers import PreTrainedTokenizerBase

from retrieval_jax.errors import InputError
from retrieval_jax.losses import contrastive_loss

MASKED = "the loss is a mean over masked places, of which each part of a batch has another number"
"""What tasks that predict masked places say for `inseparable`."""

# What a chosen piece becomes: [MASK], a random piece, or (the rest) itself.
MASK_SHARE, RANDOM_SHARE = 0.8, 0.1
CONTINUATION = "##"  # begins a WordPiece that goes on with a word
# Further places of a row, so that its last whole word fits in nearly always.
WORD_MARGIN = 8


@dataclasses.dataclass(frozen=True)
class Masking:
    """How pieces are masked.

    Attributes:
        rate: share of the pieces that are chosen, 0 to 1.
        mask_id: of [MASK].
        special_ids: pieces that are never chosen.
        vocab_size: random pieces are below it.
        continuation_ids: pieces that go on with a word; the pieces of a word are then chosen
            together. None chooses piece by piece.
    """

    rate: float
    mask_id: int
    special_ids: tuple[int, ...]
    vocab_size: int
    continuation_ids: tuple[int, ...] | None = None


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


def make_masking(
    tokenizer: PreTrainedTokenizerBase, rate: float, whole_words: bool = False
) -> Masking:
    """Masks `rate` of the pieces of a tokenizer, none of its special ones.

    Args:
        tokenizer: whose pieces.
        rate: share of them.
        whole_words: all pieces of a word or none.

    Raises:
        InputError: a vocabulary without [MASK], or one that does not mark the pieces of a word.
    """
    check_mask_token(tokenizer)
    mask_id = tokenizer.get_vocab()[str(tokenizer.mask_token)]
    special_ids = tuple(int(piece) for piece in tokenizer.all_special_ids)
    masking = Masking(rate, mask_id, special_ids, len(tokenizer))
    if not whole_words:
        return masking
    pieces = tokenizer.get_vocab().items()
    continuations = tuple(sorted(i for piece, i in pieces if piece.startswith(CONTINUATION)))
    if not continuations:
        raise InputError(
            f"the vocabulary of {tokenizer.name_or_path} has no pieces that begin with"
            f" {CONTINUATION!r}, by which whole words are known",
            "Mask single pieces, or take a WordPiece vocabulary.",
        )
    return dataclasses.replace(masking, continuation_ids=continuations)


def mask_pieces(
    rng: jax.Array, input_ids: jax.Array, attention_mask: jax.Array, masking: Masking
) -> MaskedPieces:
    """Chooses pieces at random, each with probability `masking.rate`, and replaces them.

    Of a row's `n` pieces that are neither special nor padding, `rate * n` are chosen, rounded up or
    down at random so that the expected number is exact; 80 % of them become [MASK], 10 % a random
    piece, 10 % stay. By whole words, the row's last word is taken or left such that the expected
    number is exact too; a word that exceeds the row's places is left.

    Args:
        rng: decides everything.
        input_ids: int32 `[rows, width]`.
        attention_mask: int32 `[rows, width]`, 0 is padding; texts have numbers of their own.
        masking: how.

    Returns:
        The rows with `ceil(rate * width)` places each, one at least; by whole words with
        `WORD_MARGIN` more.
    """
    choice_rng, count_rng, kind_rng, piece_rng = jax.random.split(rng, 4)
    rows, width = input_ids.shape
    places = max(math.ceil(masking.rate * width), 1)
    special = jnp.isin(input_ids, jnp.array(masking.special_ids, input_ids.dtype))
    maskable = (attention_mask > 0) & ~special
    numbers = jax.random.uniform(choice_rng, (rows, width))
    words = None
    if masking.continuation_ids is not None:
        places = min(places + WORD_MARGIN, width)
        words = _first_columns(input_ids, attention_mask, maskable, masking)
        numbers = jnp.take_along_axis(numbers, words, axis=1)
    # The largest of random numbers are a random sample; -1 sorts what must not be chosen last.
    # Equal numbers, those of a word, keep their order.
    positions = jax.lax.top_k(jnp.where(maskable, numbers, -1.0), places)[1]
    start, length = jnp.arange(places)[None], 1  # of each place's word among the places
    if words is not None:
        start, length = _extents(words, positions, maskable)
    expected = masking.rate * jnp.sum(maskable, axis=1)[:, None]  # [rows, 1]
    rest = 1 - jax.random.uniform(count_rng, (rows,))[:, None]
    # `expected` can be one too many where float32 rounds up, hence the last condition.
    chosen = (
        (start + rest * length <= expected)
        & (start + length <= places)
        & jnp.take_along_axis(maskable, positions, axis=1)
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


def _first_columns(
    input_ids: jax.Array, attention_mask: jax.Array, maskable: jax.Array, masking: Masking
) -> jax.Array:
    """int32 `[rows, width]`, the column in which the word of each piece begins."""
    goes_on = np.zeros(masking.vocab_size, bool)
    goes_on[list(masking.continuation_ids or ())] = True
    # Text and kind of the piece before; no text has the number -1.
    text_before = jnp.pad(attention_mask, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    maskable_before = jnp.pad(maskable, ((0, 0), (1, 0)))[:, :-1]
    inside = jnp.asarray(goes_on)[input_ids] & (attention_mask == text_before) & maskable_before
    columns = jnp.broadcast_to(jnp.arange(input_ids.shape[1])[None], input_ids.shape)
    return jax.lax.cummax(jnp.where(inside, 0, columns), axis=1)


def _extents(
    words: jax.Array, positions: jax.Array, maskable: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Start among the places and number of pieces of each place's word, `[rows, places]`."""
    sizes = jax.vmap(lambda to, one: jnp.zeros(to.shape, jnp.int32).at[to].add(one))(
        words, maskable.astype(jnp.int32)
    )  # [rows, width], at the word's first column
    at_places = jnp.take_along_axis(words, positions, axis=1)
    same = at_places[:, :, None] == at_places[:, None, :]  # [rows, places, places]
    return jnp.argmax(same, axis=2), jnp.take_along_axis(sizes, at_places, axis=1)


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
