"""Readers of the folder `math_text`: small files made here, and the real ones where they are."""

import json
import lzma
import os

import numpy as np
import pytest

from mathsim_jax.datasets.math_text import (
    adaptation_texts,
    data_folder,
    extra_pairs,
    german_pairs,
    read_abstract_pairs,
    read_msc_codes,
    read_open_records,
    read_statements,
)
from mathsim_jax.datasets.msc_pairs import make_pairs, read_titles
from retrieval_jax.data_folders import DATA_VARIABLE
from retrieval_jax.errors import InputError

needs_data = pytest.mark.skipif(
    DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} names no folder of data"
)


def write(folder, name, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl.xz").write_bytes(lzma.compress(text.encode()))


def pair(seed="1", anchor="An anchor", rec="A text", label="1"):
    return {"seed": seed, "anchor": anchor, "rec": rec, "label": label}


def test_abstract_pairs_are_cleaned_and_counted(tmp_path):
    rows = [
        pair(rec=r"Let \\(x\\) be"),
        pair(rec=r"Let \(x\) be"),
        pair(rec="other", label="0"),
        pair(rec="both"),
        pair(rec="both", label=0),
    ]
    write(tmp_path, "zbmath_abstract_pairs_dev", rows)
    pairs = read_abstract_pairs(tmp_path, "dev")
    assert pairs.second == (r"Let \(x\) be", "other")
    assert pairs.labels.tolist() == [1, 0]
    assert pairs.groups == ("1", "1")
    assert pairs.card["pairs that come again"] == 2
    assert pairs.card["pairs with both labels"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (pair(label="2"), "line 2: the label is '2'"),
        (pair(rec=" \n"), r"line 2: rec is ' \\n', not a text of more"),
        (pair(anchor=None), "line 2: anchor is None, not a text"),
        ({"seed": "1", "anchor": "a", "label": "1"}, "line 2: no field 'rec' among seed"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path, row, message):
    write(tmp_path, "zbmath_abstract_pairs_test", [pair(), row])
    with pytest.raises(InputError, match=message):
        read_abstract_pairs(tmp_path, "test")


def test_absent_and_empty_files_are_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="zbmath_abstract_pairs_dev"):
        read_abstract_pairs(tmp_path, "dev")
    write(tmp_path, "zbmath_abstract_pairs_dev", [])
    with pytest.raises(InputError, match="holds no pairs"):
        read_abstract_pairs(tmp_path, "dev")
    with pytest.raises(InputError, match="no folder"):
        data_folder(tmp_path / "absent")
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(InputError, match=DATA_VARIABLE):
        data_folder()
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    (tmp_path / "math_text").mkdir()
    assert data_folder() == tmp_path / "math_text"


def test_codes_records_and_statements(tmp_path):
    code = {"code": "34B27", "parent": "34Bxx", "long_title": "Green's functions [See also 35A08]"}
    write(tmp_path, "msc2020_codes", [code])
    assert read_msc_codes(tmp_path)[0].title == "Green's functions"
    record = {"de": "1", "title": "T", "msc": ["34B27"], "text": "Interface contents unavailable."}
    write(tmp_path, "zbmath_open_200_records", [record, record | {"de": "2", "text": ""}])
    records, card = read_open_records(tmp_path)
    assert [row["text"] for row in records] == ["", ""]
    assert (card["texts withheld"], card["records without text"]) == (1, 1)
    text = "Every even number above two is the sum of two primes. -/ theorem x : 1 = 1"
    rows = [{"text": text, "ams": ["11"]}, {"text": "Too short. -/ def", "ams": ["11"]}]
    write(tmp_path, "formal_conjectures_ams", rows)
    assert read_statements(tmp_path) == [(text.split(" -/")[0], ("11",))]
    with pytest.raises(InputError, match="line 1: ams is '11', no list"):
        write(tmp_path, "formal_conjectures_ams", [{"text": text, "ams": "11"}])
        read_statements(tmp_path)


@needs_data
def test_the_real_pairs_have_their_known_sizes_and_no_trace_of_their_making():
    folder = data_folder()
    sizes, groups = {"train": 178, "dev": 44, "test": 298}, {"train": 16, "dev": 4, "test": 60}
    seeds: set[str] = set()
    for split, size in sizes.items():
        pairs = read_abstract_pairs(folder, split)
        assert len(pairs) == size
        assert len(set(pairs.groups)) == groups[split]
        assert not seeds & set(pairs.groups)
        seeds |= set(pairs.groups)
        # As they come, nearly all positives have doubled backslashes and negatives have not.
        escaped = np.array(["\\\\(" in text for text in pairs.second])
        assert escaped.sum() <= 4
        german = german_pairs(pairs)
        assert pairs.labels[german].sum() <= 1
    assert german.sum() == 43


@needs_data
def test_texts_of_the_test_pairs_are_not_adapted_to():
    texts = set(adaptation_texts(data_folder()))
    assert len(texts) > 9000
    assert not texts & set(read_abstract_pairs(data_folder(), "test").texts)
    assert not any("contents unavailable" in text for text in texts)


@needs_data
@pytest.mark.parametrize("source", ["afp", "msc", "ams"])
def test_extra_pairs_are_balanced_and_the_same_again(source):
    pairs = extra_pairs(data_folder(), source, 50, seed=0)
    assert len(pairs) == 100
    assert pairs.labels.sum() == 50
    assert pairs.fingerprint == extra_pairs(data_folder(), source, 50, seed=0).fingerprint


@needs_data
def test_the_real_records_give_pairs_by_the_published_rule():
    path = data_folder() / "zbmath_open_200_records.jsonl.xz"
    titles, card = read_titles(path, ("de", "title", "msc"))
    assert card["works"] == len(titles) == 200
    pairs = make_pairs(titles)
    assert pairs.labels.sum() * 2 == len(pairs) > 20
