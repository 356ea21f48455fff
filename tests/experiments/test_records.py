"""Records: summaries, paired differences, provenance, files."""

import dataclasses
import json
import time

import numpy as np
import pytest

from experiments import records
from retrieval_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Config:
    layers: tuple[int, ...] = (1, 2)


def test_mean_and_deviation_over_seeds():
    assert records.summarise([1.0, 2.0, 3.0]) == {"mean": 2.0, "sd": 1.0}
    assert records.summarise([0.5]) == {"mean": 0.5, "sd": 0.0}
    runs = [{"RR": 0.25, "AP": 1.0}, {"RR": 0.75, "AP": 1.0}]
    found = records.summarise_measures(runs)
    assert found["RR"] == {"mean": 0.5, "sd": pytest.approx(0.125**0.5)}
    assert found["AP"] == {"mean": 1.0, "sd": 0.0}
    assert list(records.summarise_measures(runs, ["AP"])) == ["AP"]


def test_a_deviation_of_0_is_not_shown():
    assert records.mean_and_sd({"mean": 0.6254, "sd": 0.01}) == "0.625 ± 0.010"
    assert records.mean_and_sd({"mean": 0.5, "sd": 0.0}) == "0.500"
    assert records.mean_and_sd({"mean": 0.5}, digits=1) == "0.5"


def test_differences_are_paired_and_holm_corrected():
    values = {"a": [1.0] * 8, "b": [0.0] * 8, "c": [1.0, 0.0] * 4}
    first, second = records.differences(values, [("a", "b"), ("c", "b")], "RR")
    # All 2^8 sign patterns: only two are as extreme as a - b = 1 everywhere.
    assert first["p"] == pytest.approx(2 / 256)
    assert first["p_holm"] == pytest.approx(4 / 256)
    assert (first["difference"], first["interval_95"]) == (1.0, [1.0, 1.0])
    assert (second["difference"], second["queries"]) == (0.5, 8)
    assert second["p"] == second["p_holm"] == pytest.approx(2 / 16)


def per_query(**values):
    return {query: {"RR": value, "AP": 0.0} for query, value in values.items()}


def test_values_of_a_query_are_means_over_runs():
    runs = {"a": [per_query(x=0.0, y=0.25), per_query(y=0.75, x=1.0)], "b": [per_query(y=1, x=0)]}
    values = records.query_values(runs, "RR")
    np.testing.assert_array_equal(values["a"], [0.5, 0.5])
    np.testing.assert_array_equal(values["b"], [0.0, 1.0])  # queries in sorted order


@pytest.mark.parametrize("other", [per_query(x=1.0), per_query(x=1.0, z=1.0)])
def test_runs_that_judge_other_queries_are_refused(other):
    runs = {"a": [per_query(x=1.0, y=1.0)], "b": [per_query(x=1.0, y=1.0), other]}
    with pytest.raises(InputError, match="a, b do not judge the same queries"):
        records.query_values(runs, "RR")
    with pytest.raises(InputError, match="b has no runs"):
        records.query_values({**runs, "b": []}, "RR")


def test_a_record_holds_what_it_was_made_with():
    record = records.make_record("toy", "3 queries", Config(), (0, 1), "abc", {"systems": {}})
    assert record["config"] == {"layers": [1, 2]}
    assert (record["seeds"], record["systems"]) == ([0, 1], {})
    made = record["provenance"]
    assert made["data_fingerprint"] == "abc" and "numpy" in made["versions"]
    assert " cores of " in made["hardware"]
    assert 0 < made["wall_s"] < 24 * 3600
    time.sleep(0.15)
    assert records.provenance("abc")["wall_s"] > made["wall_s"]
    paths = records.make_record("toy", "", {"A": {"x": ["/no/where/b", 1], "y": "k=v"}}, (), "", {})
    assert paths["configs"] == {"A": {"x": ["b", 1], "y": "k=v"}}
    several = records.make_record("toy", "", {"A": Config(), "B": Config(())}, (), "", {})
    assert several["configs"] == {"A": {"layers": [1, 2]}, "B": {"layers": []}}


def test_files_are_written_whole_and_read_back(tmp_path):
    path = tmp_path / "new" / "r.json"
    record = {"experiment": "toy", "systems": {"a": 1}}
    records.write_record(path, record)
    assert records.read_record(path, "toy") == json.loads(path.read_text()) == record
    assert [file.name for file in path.parent.iterdir()] == ["r.json"]
    records.write_record(None, record)
    with pytest.raises(InputError, match="no results of other"):
        records.read_record(path, "other")
    path.write_text("[]")
    with pytest.raises(InputError, match="no results"):
        records.read_record(path)
    with pytest.raises(InputError, match="cannot be read"):
        records.read_record(tmp_path / "none.json")
