"""Masking of word pieces: rates, what is spared, what replaces, reproducibility."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transformers import AutoTokenizer

from retrieval_jax.errors import InputError
from retrieval_jax.masking import (
    MaskedPieces,
    Masking,
    make_masking,
    mask_pieces,
    masked_piece_loss,
)
from tests.bert_folders import write_tiny_bert

MASK, SPECIAL, VOCAB = 4, (0, 1, 2, 3, 4), 200
MASKING = Masking(0.15, MASK, SPECIAL, VOCAB)
jit_mask_pieces = jax.jit(mask_pieces, static_argnums=3)


def make_rows(rows=400, seed=0):
    """Rows of one or two texts, [CLS] ... [SEP], and padding of random pieces."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, VOCAB, (rows, 32)).astype(np.int32)
    mask = np.zeros_like(ids)
    for row in range(rows):
        first, second = rng.integers(4, 17, 2)
        mask[row, :first], mask[row, first : first + second] = 2 * row + 1, 2 * row + 2
        ids[row, [0, first]], ids[row, [first - 1, first + second - 1]] = 2, 3
    return ids, mask


def maskable(ids, mask):
    return (mask > 0) & ~np.isin(ids, SPECIAL)


def chosen(masked, shape):
    """Bool `[rows, width]`, the places that count."""
    result = np.zeros(shape, bool)
    rows, places = np.nonzero(np.asarray(masked.weights))
    result[rows, np.asarray(masked.positions)[rows, places]] = True
    return result


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_pieces_are_chosen_at_the_rate_and_replaced_by_80_10_10(rate):
    ids, mask = make_rows(4000)
    masking = Masking(rate, MASK, SPECIAL, VOCAB)
    masked = jit_mask_pieces(jax.random.key(0), ids, mask, masking)
    allowed, picked = maskable(ids, mask), chosen(masked, ids.shape)
    count = allowed.sum()
    error = np.sqrt(rate / count)
    np.testing.assert_allclose(picked.sum() / count, rate, atol=4 * error)
    # Of each row's n pieces rate * n, rounded up or down.
    exact = rate * allowed.sum(axis=1)
    assert (np.abs(picked.sum(axis=1) - exact) < 1).all()
    # No column is preferred.
    by_column = picked.sum(axis=0) / np.maximum(allowed.sum(axis=0), 1)
    often = allowed.sum(axis=0) > 1000
    np.testing.assert_allclose(by_column[often], rate, atol=5 * np.sqrt(rate / 1000))

    after, before = np.asarray(masked.input_ids)[picked], ids[picked]
    shares = [(after == MASK).mean(), (after == before).mean()]
    shares.append(1 - sum(shares))
    # One random piece in 200 is [MASK], and one is the piece itself.
    expected = [0.8 + 0.1 / VOCAB, 0.1 + 0.1 / VOCAB, 0.1 - 0.2 / VOCAB]
    np.testing.assert_allclose(shares, expected, atol=4 * np.sqrt(0.25 / len(after)))


def test_special_pieces_padding_and_what_is_not_chosen_stay():
    ids, mask = make_rows()
    masked = jit_mask_pieces(jax.random.key(1), ids, mask, MASKING)
    picked = chosen(masked, ids.shape)
    assert picked.any()
    assert not picked[~maskable(ids, mask)].any()
    np.testing.assert_array_equal(np.asarray(masked.input_ids)[~picked], ids[~picked])
    labels = np.take_along_axis(ids, np.asarray(masked.positions), axis=1)
    np.testing.assert_array_equal(masked.labels, labels)
    for columns in np.asarray(masked.positions):
        assert len(set(columns)) == len(columns) == 5  # ceil(0.15 * 32)


def test_a_key_decides_everything():
    ids, mask = make_rows(20)
    first, again, other = (
        jit_mask_pieces(jax.random.key(k), ids, mask, MASKING) for k in (3, 3, 4)
    )
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert (np.asarray(first.positions) != np.asarray(other.positions)).any()


def test_a_row_without_words_has_nothing_to_predict_and_rate_one_takes_all():
    ids, mask = np.array([[2, 3, 9, 9]], np.int32), np.array([[1, 1, 0, 0]], np.int32)
    masked = jit_mask_pieces(jax.random.key(0), ids, mask, MASKING)
    assert not np.asarray(masked.weights).any()
    np.testing.assert_array_equal(masked.input_ids, ids)
    assert float(masked_piece_loss(jnp.ones((1, 1, VOCAB)), masked)) == 0

    ids, mask = make_rows(10)
    every = jit_mask_pieces(jax.random.key(0), ids, mask, Masking(1.0, MASK, SPECIAL, VOCAB))
    np.testing.assert_array_equal(chosen(every, ids.shape), maskable(ids, mask))


def test_loss_is_the_mean_over_chosen_places():
    logits = np.random.default_rng(0).normal(size=(2, 2, 6)).astype(np.float32)
    labels = np.array([[1, 5], [0, 3]], np.int32)
    weights = np.array([[1, 0], [1, 1]], np.float32)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    losses = [-np.log(probabilities[i, j, labels[i, j]]) for i, j in ((0, 0), (1, 0), (1, 1))]
    masked = MaskedPieces(*map(jnp.asarray, (labels, labels, labels, weights)))
    np.testing.assert_allclose(
        masked_piece_loss(jnp.asarray(logits), masked), np.mean(losses), rtol=1e-5
    )


def test_a_tokenizer_says_what_is_masked_by_what(tmp_path):
    config = write_tiny_bert(tmp_path)
    masking = make_masking(AutoTokenizer.from_pretrained(tmp_path), 0.2)
    assert (masking.rate, masking.mask_id, masking.vocab_size) == (0.2, 4, config.vocab_size)
    assert sorted(masking.special_ids) == [0, 1, 2, 3, 4]


def test_a_vocabulary_without_mask_is_refused(tmp_path):
    write_tiny_bert(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.mask_token = None
    with pytest.raises(InputError, match=r"has no \[MASK\]"):
        make_masking(tokenizer, 0.15)


def test_a_vocabulary_that_marks_no_words_is_refused(tmp_path):
    write_tiny_bert(tmp_path)
    pieces = (tmp_path / "vocab.txt").read_text(encoding="utf-8").replace("##", "@@")
    (tmp_path / "vocab.txt").write_text(pieces, encoding="utf-8")
    with pytest.raises(InputError, match="no pieces that begin with '##'"):
        make_masking(AutoTokenizer.from_pretrained(tmp_path), 0.15, whole_words=True)


def words_of(ids, mask, continues):
    """Number of the word of each place: [rows, width]."""
    starts = ~continues[ids] | (mask != np.pad(mask, ((0, 0), (1, 0)))[:, :-1])
    starts[:, 1:] |= np.isin(ids[:, :-1], SPECIAL)
    return np.cumsum(starts, axis=1)


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_whole_words_are_masked_together_at_the_rate(rate):
    ids, mask = make_rows(4000)
    continuations = tuple(range(120, VOCAB))
    masking = Masking(rate, MASK, SPECIAL, VOCAB, continuations)
    masked = jit_mask_pieces(jax.random.key(0), ids, mask, masking)
    allowed, picked = maskable(ids, mask), chosen(masked, ids.shape)
    assert not picked[~allowed].any()
    continues = np.isin(np.arange(VOCAB), continuations)
    words = words_of(ids, mask, continues)
    for row in range(300):
        of_row = words[row][allowed[row]]
        for word in set(of_row):
            assert len(set(picked[row][allowed[row] & (words[row] == word)])) == 1
    count = allowed.sum()
    # Pieces of a word are not independent: some 1.7 a word, few of more than 4.
    np.testing.assert_allclose(picked.sum() / count, rate, atol=12 * np.sqrt(rate / count))
    assert np.asarray(masked.positions).shape[1] == np.ceil(rate * 32) + 8
    labels = np.take_along_axis(ids, np.asarray(masked.positions), axis=1)
    np.testing.assert_array_equal(masked.labels, labels)
    np.testing.assert_array_equal(np.asarray(masked.input_ids)[~picked], ids[~picked])


def test_whole_words_by_hand():
    # [CLS] a ##b ##c [SEP] | [CLS] ##d e [SEP]: ##d begins a text, so it is a word of its own.
    ids = np.array([[2, 10, 150, 151, 3, 2, 152, 11, 3, 0]], np.int32)
    mask = np.array([[1, 1, 1, 1, 1, 2, 2, 2, 2, 0]], np.int32)
    masking = Masking(0.6, MASK, SPECIAL, VOCAB, tuple(range(120, VOCAB)))
    seen, total = set(), 0
    for key in range(200):
        picked = chosen(jit_mask_pieces(jax.random.key(key), ids, mask, masking), ids.shape)[0]
        seen.add(tuple(np.flatnonzero(picked).tolist()))
        total += picked.sum()
    # 0.6 of 5 pieces is 3: the word of three alone or as the last one, taken in part never.
    assert {(1, 2, 3), (6, 7), (1, 2, 3, 6), (1, 2, 3, 7)} >= seen - {(6,), (7,), (1, 2, 3, 6, 7)}
    assert (1, 2, 3) in seen
    assert abs(total / 200 - 3) < 0.3


def test_every_piece_a_word_is_the_same_as_single_pieces():
    ids, mask = make_rows(50)
    words = Masking(0.15, MASK, SPECIAL, VOCAB, (VOCAB - 1,))
    ids[ids == VOCAB - 1] = 9  # no piece goes on with a word
    alone = jit_mask_pieces(jax.random.key(5), ids, mask, MASKING)
    together = jit_mask_pieces(jax.random.key(5), ids, mask, words)
    np.testing.assert_array_equal(chosen(alone, ids.shape), chosen(together, ids.shape))
