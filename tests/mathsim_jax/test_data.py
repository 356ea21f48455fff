"""Batches of pairs: each text once, numbers that find it again, folds that share no group."""

import numpy as np
import pytest

from mathsim_jax.data import grouped_folds, pair_batches, tokenize_pairs
from retrieval_jax.errors import InputError
from retrieval_jax.pretrained import load_pretrained
from tests.bert_folders import write_tiny_bert
from tests.mathsim_jax.toy_pairs import FILLERS, SUBJECTS, toy_pairs


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    write_tiny_bert(folder, words=(*SUBJECTS, *FILLERS))
    tokenizer = load_pretrained(str(folder)).tokenizer
    pairs = toy_pairs()
    return pairs, tokenize_pairs(pairs, tokenizer, 16), tokenizer


def text_of(batch, number, tokenizer):
    ids = batch["input_ids"][batch["attention_mask"] == number + 1]
    return tokenizer.decode(ids, skip_special_tokens=True)


def test_texts_are_kept_once_and_found_by_number(tokens):
    pairs, tokenized, tokenizer = tokens
    assert len(tokenized.table.lengths) == len(pairs.texts)
    for index in (0, 5, -1):
        for column, texts in enumerate((pairs.first, pairs.second)):
            row = tokenized.texts[index, column]
            ids = tokenized.table.input_ids[row, : tokenized.table.lengths[row]]
            assert tokenizer.decode(ids, skip_special_tokens=True) == texts[index]


def test_a_batch_holds_pairs_with_their_labels(tokens):
    pairs, tokenized, tokenizer = tokens
    known = {
        (a, b): (int(label), group)
        for a, b, label, group in zip(
            pairs.first, pairs.second, pairs.labels, pairs.groups, strict=True
        )
    }
    iterator = pair_batches(tokenized, 16, seed=0)
    groups = list(dict.fromkeys(pairs.groups))
    shapes = set()
    for _ in range(6):
        batch = next(iterator)
        shapes.add(batch["input_ids"].shape)
        numbers = np.concatenate([batch["first"], batch["second"]])
        assert len(batch["labels"]) == 16
        assert numbers.max() + 1 == len(set(numbers)) == batch["attention_mask"].max() <= 32
        for row in range(16):
            pair = tuple(
                text_of(batch, batch[side][row], tokenizer) for side in ("first", "second")
            )
            label, group = known[pair]
            assert batch["labels"][row] == label
            assert groups[batch["groups"][row]] == group
    assert len(shapes) == 1


def test_an_epoch_shows_every_pair_once(tokens):
    _, tokenized, _ = tokens
    iterator = pair_batches(tokenized, 16, seed=3)
    batches = [next(iterator) for _ in range(len(tokenized.labels) // 16)]
    seen = np.concatenate([batch["labels"] for batch in batches])
    assert seen.sum() == tokenized.labels.sum()
    counts = np.bincount(np.concatenate([batch["groups"] for batch in batches]))
    np.testing.assert_array_equal(counts, np.bincount(tokenized.groups))


def test_folds_share_no_group_and_cover_all():
    groups = [f"g{i % 7}" for i in range(50)]
    held = []
    for known, held_out in grouped_folds(groups, 3):
        assert not {groups[i] for i in known} & {groups[i] for i in held_out}
        assert sorted([*known, *held_out]) == list(range(50))
        held += held_out.tolist()
    assert sorted(held) == list(range(50))
    for folds in (1, 8):
        with pytest.raises(InputError, match=f"{folds} folds of 7"):
            list(grouped_folds(groups, folds))
