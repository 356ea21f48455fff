"""The published rule on hand-made tables, the published split, tables that are not right."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from mathsim_jax.datasets.msc_pairs import (
    Title,
    alike,
    make_pairs,
    read_pair_list,
    read_pairs,
    read_titles,
    split_pairs,
    write_pairs,
)
from mathsim_jax.datasets.pairs import Pairs
from retrieval_jax.errors import InputError

CSV = 'id,title,msc\n1,"On rings, and fields",16A10 16B20\n2,Rings again,16A10;16B20;16C30\n'


def works(count, seed=0, classes=5):
    rng = np.random.default_rng(seed)
    return {
        str(i): Title(
            f"title {i}",
            f"1{rng.integers(classes)}A10",
            frozenset(f"2{code}B20" for code in rng.integers(0, classes, 2)),
        )
        for i in range(count)
    }


def test_the_rule_by_hand():
    a = Title("a", "16A10", frozenset({"16B20", "16C30"}))
    assert alike(a, Title("b", "16A10", frozenset({"16C30"})))
    assert not alike(a, Title("b", "16A10", frozenset({"16D40"})))
    assert not alike(a, Title("b", "16A10", frozenset()))
    assert not alike(a, Title("b", "16B20", frozenset({"16C30"})))
    assert not alike(a, Title("b", "16B20", frozenset({"16A10"})))  # the primary one is no other


def test_two_titles_never_get_both_labels():
    rings, fields = frozenset({"16B20"}), frozenset({"12F10"})
    titles = {
        "1": Title("rings", "16A10", rings),
        "2": Title("fields", "16A10", rings),
        # The same titles again, under codes by which they are not alike.
        "3": Title("rings", "16A10", fields),
        "4": Title("groups", "20A05", fields),
    }
    for seed in range(20):
        pairs = make_pairs(titles, seed=seed)
        assert pairs.labels.sum() == 1
        labelled = dict(zip(map(frozenset, zip(pairs.first, pairs.second, strict=True)),
                            pairs.labels.tolist(), strict=True))  # fmt: skip
        assert len(labelled) == 2
        assert labelled[frozenset({"rings", "fields"})] == 1


def test_all_positives_are_found_and_as_many_negatives():
    titles = works(60)
    by_title = {work.title: work for work in titles.values()}
    pairs = make_pairs(titles)
    list_of = list(titles.values())
    expected = sum(alike(a, b) for i, a in enumerate(list_of) for b in list_of[:i])
    assert pairs.labels.sum() == expected == len(pairs) / 2
    assert pairs.card["positives"] == pairs.card["negatives"] == expected
    for first, second, label in zip(pairs.first, pairs.second, pairs.labels, strict=True):
        assert alike(by_title[first], by_title[second]) == label
    assert len({frozenset(p) for p in zip(pairs.first, pairs.second, strict=True)}) == len(pairs)
    assert make_pairs(titles).fingerprint == pairs.fingerprint
    assert make_pairs(titles, seed=1).fingerprint != pairs.fingerprint


def test_a_pair_of_one_title_counts_once_whatever_codes_it_shares():
    codes = frozenset({"16B20", "16C30", "16D40"})
    titles = {str(i): Title(title, "16A10", codes) for i, title in enumerate("aab")}
    titles |= {"3": Title("c", "20A05", codes), "4": Title("d", "20A05", frozenset())}
    pairs = make_pairs(titles)
    assert pairs.card["pairs of one title"] == 1
    assert pairs.card["positives"] == 2


def test_pairs_are_the_same_in_every_process():
    program = (
        "from tests.mathsim_jax.datasets.test_msc_pairs import make_pairs, works;"
        "print(make_pairs(works(60), 100).fingerprint)"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "1"},  # this one's hashes are random
        check=True,
        capture_output=True,
        text=True,
    )
    assert other.stdout == f"{make_pairs(works(60), 100).fingerprint}\n"


def test_a_limit_below_1_is_refused():
    with pytest.raises(InputError, match="limit is 0"):
        make_pairs({}, limit=0)


@pytest.mark.parametrize("limit", [3, 40, 10_000])
def test_a_limit_takes_some_at_random(limit):
    titles = works(200)
    every = make_pairs(titles)
    pairs = make_pairs(titles, limit=limit)
    assert pairs.labels.sum() == min(limit, every.labels.sum())
    known = set(zip(every.first, every.second, every.labels.tolist(), strict=True))
    positives = [
        row
        for row in zip(pairs.first, pairs.second, pairs.labels.tolist(), strict=True)
        if row[2] == 1
    ]
    assert set(positives) <= known


def test_titles_without_a_positive_or_enough_negatives_are_refused():
    lonely = {str(i): Title(str(i), f"{i}", frozenset({"x"})) for i in range(4)}
    with pytest.raises(InputError, match="no two of 4 titles"):
        make_pairs(lonely)
    one_class = {str(i): Title(f"t{i}", "p", frozenset({"s"})) for i in range(4)}
    with pytest.raises(InputError, match="6 positives, but only 0 negatives"):
        make_pairs(one_class)
    same_title = {str(i): Title("t", "p", frozenset({"s"})) for i in range(4)}
    with pytest.raises(InputError, match="no two"):
        make_pairs(same_title)


def test_the_split_has_the_published_sizes():
    count = 439_342
    pairs = Pairs(("a",) * count, ("b",) * count, np.zeros(count, np.int32), ("g",) * count)
    sizes = {name: len(part) for name, part in split_pairs(pairs).items()}
    assert sizes == {"train": 351_472, "dev": 43_935, "test": 43_935}
    with pytest.raises(InputError, match="2 pairs"):
        split_pairs(pairs.take(np.arange(2)))


def test_splits_are_written_with_a_card_and_read_again(tmp_path):
    pairs = make_pairs(works(60))
    splits = split_pairs(pairs)
    kept = [text for part in splits.values() for text in part.first]
    assert sorted(kept) == sorted(pairs.first)
    assert len(splits["dev"]) == math.ceil(len(pairs) / 10)
    write_pairs(tmp_path, splits)
    for name, part in splits.items():
        assert read_pairs(tmp_path / f"{name}.jsonl").fingerprint == part.fingerprint
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["made"]["positives"] == len(pairs) / 2
    assert card["splits"]["test"]["pairs"] == len(splits["test"])


def test_tables_of_all_kinds_are_read_alike(tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    (tmp_path / "t.tsv").write_text(
        "id\ttitle\tmsc\n1\tOn rings, and fields\t16A10 16B20\n2\tRings again\t16A10,16B20,16C30\n"
    )
    rows = [
        {"id": 1, "title": "On rings, and fields", "msc": ["16A10", "16B20"]},
        {"id": "2", "title": " Rings  again ", "msc": "16A10 16B20 16C30"},
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = [read_titles(tmp_path / f"t.{kind}")[0] for kind in ("csv", "tsv", "jsonl")]
    assert tables[0] == tables[1] == tables[2]
    assert tables[0]["2"] == Title("Rings again", "16A10", frozenset({"16B20", "16C30"}))


def test_rows_that_are_not_right(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(CSV + '1,"On rings, and fields",16A10 16B20\n3,,16A10\n4,No codes,\n')
    titles, card = read_titles(path)
    assert list(titles) == ["1", "2"]
    assert card == {
        "works without id, title or codes": 2,
        "works whose row comes again": 1,
        "works": 2,
    }
    path.write_text(CSV + "1,Another title,16A10\n")
    with pytest.raises(InputError, match=r"t\.csv, line 4: '1' has another title .* line 2"):
        read_titles(path)
    path.write_text(CSV + "5,too short\n")
    with pytest.raises(InputError, match=r"t\.csv, line 4: 2 fields where the header has 3"):
        read_titles(path)
    path.write_text("id,name\n1,x\n")
    with pytest.raises(InputError, match=r"line 1: the header has no column title, msc"):
        read_titles(path)
    path.write_text("")
    with pytest.raises(InputError, match="no column"):
        read_titles(path)
    (tmp_path / "t.jsonl").write_text(
        '{"id": 1, "title": "x", "msc": "y"}\n{"id": 2, "msc": "y"}\n'
    )
    with pytest.raises(InputError, match=r"t\.jsonl, line 2: no field title"):
        read_titles(tmp_path / "t.jsonl")
    (tmp_path / "t.parquet").write_text("x")
    with pytest.raises(InputError, match="no known kind"):
        read_titles(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="no file"):
        read_titles(tmp_path / "absent.csv")


def test_a_list_of_identifiers_gets_its_titles(tmp_path):
    path = tmp_path / "list.csv"
    rows = ["1,2,True", "2,1,1", "3,4,0", "4,3,1", "1,3,False", "1,9,1", "5,1,0"]
    path.write_text("an_a,an_b,label\n" + "\n".join(rows) + "\n")
    titles = {"1": "one", "2": "two", "3": "three", "4": "four", "5": "one"}
    pairs = read_pair_list(path, titles)
    assert list(zip(pairs.first, pairs.second, pairs.labels.tolist(), strict=True)) == [
        ("one", "two", 1),
        ("one", "three", 0),
    ]
    assert pairs.card == {
        "pairs that come again": 1,
        "pairs with both labels": 1,
        "pairs without titles": 1,
        "pairs of one title": 1,
    }
    with pytest.raises(InputError, match="no pair with titles"):
        read_pair_list(path, {})
    path.write_text("an_a,an_b,label\n1,2,2\n")
    with pytest.raises(InputError, match=r"list\.csv, line 2: the label is '2'"):
        read_pair_list(path, titles)


def test_pairs_of_texts_name_the_line_that_is_wrong(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"first": "a", "second": " ", "label": 1}\n')
    with pytest.raises(InputError, match=r"p\.jsonl, line 1: second is ' '"):
        read_pairs(path)
    path.write_text("")
    with pytest.raises(InputError, match="holds no pairs"):
        read_pairs(path)
