"""Token tables, shuffled batches of packed texts, resume, several processes."""

import itertools

import jax
import numpy as np
import pytest

from retrieval_jax.errors import InputError
from retrieval_jax.pipeline import (
    ShuffledBatches,
    TokenTable,
    text_batches,
    tokenize,
)
from retrieval_jax.pretrained import load_tokenizer
from tests.bert_folders import write_tiny_bert
from tests.retrieval_jax.test_packing import docstring_lengths


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


def test_tokens_kept_on_disk_are_those_in_memory_and_made_once(tmp_path, monkeypatch):
    config = write_tiny_bert(tmp_path, words=("fast", "fourier"))
    tokenizer = load_tokenizer(tmp_path, config)
    texts = ["fast fourier", "a", "fast fast fast fast fast"] * 2000  # more than one chunk
    kept = tokenize(texts, tokenizer, 6, tmp_path / "tokens")
    in_memory = tokenize(texts, tokenizer, 6)
    assert isinstance(kept.input_ids, np.memmap)
    np.testing.assert_array_equal(kept.input_ids, in_memory.input_ids)
    np.testing.assert_array_equal(kept.lengths, in_memory.lengths)
    batches = [next(text_batches(table, {}, 64, seed=1)) for table in (kept, in_memory)]
    np.testing.assert_array_equal(batches[0]["input_ids"], batches[1]["input_ids"])
    with monkeypatch.context() as patch:
        patch.setattr(
            "retrieval_jax.pipeline._tokenized_chunks", None
        )  # nothing is tokenised again
        again = tokenize(texts, tokenizer, 6, tmp_path / "tokens")
    np.testing.assert_array_equal(again.input_ids, kept.input_ids)
    for changed, length in ((texts[1:], 6), (texts, 5)):
        tokenize(changed, tokenizer, length, tmp_path / "tokens")
    assert len(list((tmp_path / "tokens").iterdir())) == 3


def test_an_interrupted_tokenisation_leaves_nothing_that_passes_for_a_table(tmp_path, monkeypatch):
    config = write_tiny_bert(tmp_path)
    tokenizer = load_tokenizer(tmp_path, config)
    with monkeypatch.context() as patch:
        patch.setattr(np, "save", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tokenize(["a b"], tokenizer, 6, tmp_path / "tokens")
    assert list((tmp_path / "tokens").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be kept"):
        tokenize(["a b"], tokenizer, 6, tmp_path / "file")


def take(iterator, number):
    return list(itertools.islice(iterator, number))


def lengths_of_texts(batch, num_texts):
    counts = np.bincount(batch["attention_mask"].ravel(), minlength=num_texts + 1)
    return counts[1:]


def test_text_batches_carry_every_text_once_an_epoch_beside_its_columns():
    lengths = np.random.default_rng(0).integers(2, 60, 24)
    table = table_of(lengths)
    columns = {"entity_ids": np.arange(24, dtype=np.int32)}
    batches = take(text_batches(table, columns, 4, seed=3), 6)
    seen = np.concatenate([batch["entity_ids"] for batch in batches])
    assert sorted(seen) == list(range(24))
    for batch in batches:
        np.testing.assert_array_equal(lengths_of_texts(batch, 4), lengths[batch["entity_ids"]])
        present = batch["attention_mask"] > 0
        text = batch["entity_ids"][batch["attention_mask"][present] - 1]
        np.testing.assert_array_equal(batch["input_ids"][present], text + 1)
        assert batch["position_ids"].max() == lengths[batch["entity_ids"]].max() - 1


def test_batches_of_an_epoch_and_of_the_next_have_one_shape_and_are_full():
    lengths = docstring_lengths(640)
    batches = take(text_batches(table_of(lengths), {}, 64, seed=0, row_multiple=1), 20)
    shapes = {batch["input_ids"].shape for batch in batches}
    assert len(shapes) == 1
    rows, width = shapes.pop()
    assert lengths.sum() / (10 * rows * width) > 0.9


def test_rows_are_split_by_all_devices():
    batch = next(text_batches(table_of(docstring_lengths(64)), {}, 32, seed=0))
    assert len(batch["input_ids"]) % jax.local_device_count() == 0
    assert jax.local_device_count() == 8


def test_batches_hold_all_lengths_in_proportion():
    lengths = np.repeat([5, 10, 20, 40], 10)
    source = ShuffledBatches(lengths, 4, seed=0)
    for index in range(30):
        assert sorted(lengths[source[index][0]]) == [5, 10, 20, 40]


def test_epochs_differ_and_seeds_differ():
    def batches(seed, epoch):
        source = ShuffledBatches(np.zeros(32), 8, seed)
        return np.stack([source[epoch * 4 + i][0] for i in range(4)])

    first = batches(0, 0)
    np.testing.assert_array_equal(batches(0, 0), first)
    assert (batches(0, 1) != first).any()
    assert (batches(1, 0) != first).any()
    np.testing.assert_array_equal(np.sort(first, axis=None), np.arange(32))


def test_state_of_the_iterator_makes_resume_exact():
    def make():
        columns = {"i": np.arange(30)}
        return text_batches(table_of(docstring_lengths(30)), columns, 4, seed=0, row_multiple=1)

    whole = take(make(), 20)
    first = make()
    take(first, 9)
    second = make()
    second.set_state(first.get_state())
    for resumed, expected in zip(take(second, 11), whole[9:], strict=True):
        for name, value in expected.items():
            np.testing.assert_array_equal(resumed[name], value)


def test_processes_share_a_batch_and_agree_on_its_shape(monkeypatch):
    lengths = docstring_lengths(60)

    def batches(processes, process):
        monkeypatch.setattr("jax.process_count", lambda: processes)
        monkeypatch.setattr("jax.process_index", lambda: process)
        columns = {"i": np.arange(60)}
        # Batches are built on a background thread: all are read before the patch changes.
        return take(text_batches(table_of(lengths), columns, 12, seed=0, row_multiple=1), 10)

    for whole, first, second in zip(batches(1, 0), batches(2, 0), batches(2, 1), strict=True):
        assert first["input_ids"].shape == second["input_ids"].shape
        joined = {name: np.concatenate([first[name], second[name]]) for name in first}
        assert sorted(joined["i"]) == sorted(whole["i"])
        # Numbers in the mask point to the joined columns.
        np.testing.assert_array_equal(lengths_of_texts(joined, 12), lengths[joined["i"]])
        present = joined["attention_mask"] > 0
        text = joined["i"][joined["attention_mask"][present] - 1]
        np.testing.assert_array_equal(joined["input_ids"][present], text + 1)


def test_sizes_that_cannot_work_are_refused(monkeypatch):
    with pytest.raises(InputError, match="3 examples do not fill one batch of 4"):
        ShuffledBatches(np.zeros(3), 4, 0)
    monkeypatch.setattr("jax.process_count", lambda: 3)
    with pytest.raises(InputError, match="shared by 3 processes"):
        ShuffledBatches(np.zeros(30), 4, 0)
