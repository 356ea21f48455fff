"""Token tables, buckets, shuffled batches and their resume."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_jax.errors import InputError
from retrieval_jax.pipeline import (
    ShuffledBatches,
    TokenTable,
    bucket_width,
    bucket_widths,
    iterate,
    text_batches,
    tokenize,
)
from retrieval_jax.pretrained import load_tokenizer
from tests.bert_folders import write_tiny_bert


def table_of(lengths):
    lengths = np.array(lengths, np.int32)
    ids = np.zeros((len(lengths), lengths.max()), np.int32)
    for row, length in enumerate(lengths):
        ids[row, :length] = row + 1
    return TokenTable(ids, lengths)


def test_tokenize_cuts_and_pads(tmp_path):
    config = write_tiny_bert(tmp_path, words=("fast", "fourier"))
    tokenizer = load_tokenizer(tmp_path, config)
    table = tokenize(["fast fourier", "a", "fast fast fast fast fast"], tokenizer, 5)
    assert table.input_ids.shape == (3, 5)
    assert table.input_ids.dtype == np.int32
    np.testing.assert_array_equal(table.lengths, [4, 3, 5])
    assert tokenizer.convert_ids_to_tokens(table.input_ids[1])[:3] == ["[CLS]", "a", "[SEP]"]
    np.testing.assert_array_equal(table.input_ids[1, 3:], 0)
    rows = table.rows(np.array([1, 0]), 4)
    np.testing.assert_array_equal(rows["attention_mask"], [[1, 1, 1, 0], [1, 1, 1, 1]])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=60))
def test_property_every_length_has_a_bucket_within_the_table(lengths):
    table = table_of(lengths)
    widths = bucket_widths(table)
    assert len(widths) <= 4
    assert widths == tuple(sorted(set(widths)))
    assert widths[-1] == max(lengths) or widths[-1] % 16 == 0
    assert all(w <= table.input_ids.shape[1] for w in widths)
    for length in lengths:
        assert bucket_width(widths, length) >= length


def test_text_batches_carry_every_text_once_an_epoch_in_rows_of_its_own():
    table = table_of([5, 40, 17, 6, 30, 8, 33, 20, 9, 10])
    columns = {"entity_ids": np.arange(10, dtype=np.int32)}
    batches = list(itertools.islice(text_batches(table, columns, 2, seed=3), 5))
    seen = np.concatenate([batch["entity_ids"] for batch in batches])
    assert sorted(seen) == list(range(10))
    for batch in batches:
        lengths = batch["attention_mask"].sum(axis=1)
        np.testing.assert_array_equal(lengths, table.lengths[batch["entity_ids"]])
        np.testing.assert_array_equal(batch["input_ids"][:, 0], batch["entity_ids"] + 1)
        assert batch["input_ids"].shape[1] in bucket_widths(table)


def test_batches_hold_like_lengths():
    table = table_of([8] * 10 + [60] * 10)
    batches = itertools.islice(text_batches(table, {}, 5, seed=0), 4)
    assert sorted(batch["input_ids"].shape[1] for batch in batches) == [16, 16, 60, 60]


def test_epochs_differ_and_seeds_differ():
    def ids(seed, start):
        source = ShuffledBatches(np.zeros(32), 8, seed, lambda indices, _: {"i": indices})
        return [tuple(source[start + i]["i"]) for i in range(4)]

    assert ids(0, 0) == ids(0, 0)
    assert ids(0, 0) != ids(0, 4)
    assert ids(0, 0) != ids(1, 0)
    assert sorted(sum(ids(0, 4), ())) == list(range(32))


def test_state_of_the_iterator_makes_resume_exact():
    def make():
        source = ShuffledBatches(np.zeros(30), 4, 0, lambda indices, _: {"i": indices})
        return iterate(source)

    whole = [batch["i"].tolist() for batch in itertools.islice(make(), 20)]
    first = make()
    for _ in range(9):
        next(first)
    second = make()
    second.set_state(first.get_state())
    assert [batch["i"].tolist() for batch in itertools.islice(second, 11)] == whole[9:]


def test_processes_share_a_batch_and_agree_on_its_width(monkeypatch):
    lengths = np.arange(1, 17)

    def parts(process):
        monkeypatch.setattr("jax.process_count", lambda: 2)
        monkeypatch.setattr("jax.process_index", lambda: process)
        source = ShuffledBatches(lengths, 8, 0, lambda indices, longest: (indices, longest))
        return [source[i] for i in range(source.batches_per_epoch)]

    for (first, first_longest), (second, second_longest) in zip(parts(0), parts(1), strict=True):
        assert len(first) == len(second) == 4
        assert not set(first) & set(second)
        assert first_longest == second_longest == lengths[np.concatenate([first, second])].max()


def test_sizes_that_cannot_work_are_refused(monkeypatch):
    with pytest.raises(InputError, match="3 examples do not fill one batch of 4"):
        ShuffledBatches(np.zeros(3), 4, 0, lambda *_: {})
    monkeypatch.setattr("jax.process_count", lambda: 3)
    with pytest.raises(InputError, match="shared by 3 processes"):
        ShuffledBatches(np.zeros(30), 4, 0, lambda *_: {})
