"""The Markdown pages say what the results say."""

import json

import pytest

from experiments.report import PAGES, fill, table
from experiments.report.blocks import Table, to_markdown
from experiments.report.markdown import selected
from experiments.report.tables import benchmark_blocks, speed_table
from retrieval_jax.errors import InputError

RESULTS = {
    "data": "toy, 3 queries",
    "seeds": [0, 1],
    "systems": {
        "BM25": {"test": {"RR": {"mean": 0.5, "sd": 0.0}, "R@50": {"mean": 0.75, "sd": 0.0}}},
        "Dual": {"test": {"RR": {"mean": 0.625, "sd": 0.01}, "R@50": {"mean": 1.0, "sd": 0.0}}},
    },
    "significance": [
        {
            "first": "Dual",
            "second": "BM25",
            "measure": "RR",
            "difference": 0.125,
            "interval_95": [0.1, 0.15],
            "p_holm": 0.03,
        }
    ],
}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_tables_agree_with_the_results(path):
    text = path.read_text(encoding="utf-8")
    starts = ("<!-- results:", "<!-- benchmarks", "<!-- speed", "<!-- verdicts")
    blocks = sum(map(text.count, starts))
    assert blocks == text.count("<!-- end -->") > 0
    assert fill(text) == text, "run python -m experiments.report"


def benchmark_table(records):
    return to_markdown(benchmark_blocks(records))


def test_table():
    lines = table(RESULTS).splitlines()
    assert lines[0] == "toy, 3 queries; test queries, 2 seeds"
    assert lines[2:] == [
        "| system | RR | R@50 |",
        "|---|---|---|",
        "| BM25 | 0.500 | 0.750 |",
        "| Dual | 0.625 ± 0.010 | 1.000 |",
        "",
        "- Dual - BM25: RR +0.125 (95 % interval +0.100 to +0.150, p = 0.0300 after Holm)",
    ]


def test_the_source_of_queries_is_named():
    lines = table({**RESULTS, "queries": "reddit_tomt", "seeds": [0]}).splitlines()
    assert lines[0] == "toy, 3 queries; test queries of reddit_tomt, 1 seed"


def test_table_of_formula_retrieval():
    def cells(partial, full):
        return {"partial": {"mean": partial}, "full": {"mean": full}}

    system = {
        "all": {"all": cells(0.5, 0.25), "even": cells(0.4, 0.2)},
        "small": {"all": cells(0.75, 1.0)},
    }
    assert table({"data": "toy", "systems": {"Dice": system}}).splitlines() == [
        "toy; bpref, partial/full, by pool and topics",
        "",
        "| system | all, all | all, even | small, all |",
        "|---|---|---|---|",
        "| Dice | 0.500/0.250 | 0.400/0.200 | 0.750/1.000 |",
    ]


def test_blocks_are_replaced_and_the_rest_is_kept(tmp_path):
    (tmp_path / "toy.json").write_text(json.dumps(RESULTS))
    text = "before\n<!-- results: toy -->\nold\n<!-- end -->\nafter\n"
    filled = fill(text, tmp_path)
    assert filled.startswith("before\n<!-- results: toy -->\ntoy, 3 queries")
    assert filled.endswith("after Holm)\n<!-- end -->\nafter\n")
    assert fill(filled, tmp_path) == filled


def test_a_marker_chooses_rows_and_columns(tmp_path):
    (tmp_path / "toy.json").write_text(json.dumps(RESULTS))
    marker = "<!-- results: toy; rows: Dual | BM25; columns: R@50 -->"
    assert fill(f"{marker}\nold\n<!-- end -->\n", tmp_path).splitlines() == [
        marker,
        "toy, 3 queries; test queries, 2 seeds",
        "",
        "| system | R@50 |",
        "|---|---|",
        "| Dual | 1.000 |",
        "| BM25 | 0.750 |",
        "<!-- end -->",
    ]
    marker = "<!-- results: toy; columns: RR -->"
    lines = fill(f"{marker}\n<!-- end -->", tmp_path).splitlines()
    assert lines[3:] == [
        "| system | RR |",
        "|---|---|",
        "| BM25 | 0.500 |",
        "| Dual | 0.625 ± 0.010 |",
        "<!-- end -->",
    ]


def test_the_first_table_that_has_all_rows_and_columns_is_taken():
    first, second = (Table(["of", name], [["a", name]]) for name in ("x", "y"))
    assert selected([first, second], ["a"], ["y"]) == [second]
    assert selected(["intro", first, "more", second]) == ["intro", first]
    with pytest.raises(InputError, match="no table has all of 'a', 'b', 'x'"):
        selected([first, second], ["a", "b"], ["x"])


def test_absent_results_are_named(tmp_path):
    with pytest.raises(InputError, match=r"toy\.json"):
        fill("<!-- results: toy -->\n<!-- end -->", tmp_path)


def test_a_benchmark_has_a_row_for_each_peer(tmp_path):
    record = {
        "benchmark": "encode",
        "settings": {"encoder": "MiniLM", "texts": 500},
        "threads": 2,
        "sides": {
            "ours": {"items_per_second": 1234.5, "peak_mib": 100},
            "torch": {"items_per_second": 617.2, "peak_mib": 90, "ratio": 2.0},
            "loop": {"items_per_second": 400.0, "peak_mib": 300, "ratio": 3.086},
        },
        "compile_s": 1.23,
    }
    rows = [
        "| encode: texts 500 | torch | 1,234 | 617 | 2.00 | 2 | 100 / 90 | 1.2 |",
        "| encode: texts 500 | loop | 1,234 | 400 | 3.09 | 2 | 100 / 300 | 1.2 |",
    ]
    assert benchmark_table([record]).splitlines()[2:] == rows
    (tmp_path / "encode.json").write_text(json.dumps(record))
    filled = fill("<!-- benchmarks -->\nold\n<!-- end -->\n", benchmarks=tmp_path)
    assert filled.splitlines()[3:] == [*rows, "<!-- end -->"]


def test_speed_in_few_columns():
    sides = {
        "ours": {"items_per_second": 8.0, "peak_mib": 100},
        "torch": {"items_per_second": 4.0, "peak_mib": 90, "ratio": 2.0},
    }
    record = {"sides": sides, "threads": 2}
    bare = {"sides": {"ours": {}, "torch": {"ratio": 0.825}}, "threads": 1}
    records = {"encode": record, "serve_load": {}, "step_64": bare}
    assert speed_table(records).rows == [
        ["encode, torch", "2.00", "2", "100 / 90"],
        ["step_64, torch", "0.82", "1", ""],
    ]


def test_the_search_page_stands_below_the_benchmarks():
    answers = {"requests": 9_210, "p50": 156.5, "p99": 540.9}
    load = {
        "benchmark": "serve_load",
        "settings": {"clients": 50, "seconds": 60.0},
        "requests_per_second": 307.2,
        "errors": {"500": 2, "ReadTimeout": 1},
        "latency_ms": {"entities": answers},
    }
    fuzz = {
        "benchmark": "serve_fuzz",
        "settings": {"requests": 10_000},
        "statuses": {"422": 6_409, "200": 3_591},
        "growth_mib": 1.5,
    }
    assert benchmark_table([load, fuzz]).splitlines()[3:] == [
        "The search page's server, asked by 50 clients at once for 60 s: 307 answers a second,"
        " 3 errors",
        "",
        "| asked for | answers | p50, ms | p99, ms |",
        "|---|---|---|---|",
        "| entities | 9,210 | 156 | 541 |",
        "",
        "The search page's server, sent 10,000 requests of nonsense: 3,591 answered 200,"
        " 6,409 answered 422; its memory grew by 1.5 MiB",
    ]


def test_memory_of_long_streams_stands_below_the_benchmarks():
    texts = {
        "benchmark": "stream_encode",
        "settings": {"encoder": "MiniLM", "texts": 1_000_000},
        "sides": {"ours": {"items_per_second": 7_443.6, "peak_mib": 540}},
        "quarters_mib": [537.9, 538.6, 538.6, 539.9],
    }
    row = {"reviews": 2_000, "films": 40, "sentences": 10_000, "seconds": 2.0}
    row |= {"reviews_per_second": 1_000, "peak_mib": 580, "workers_mib": 559}
    films = {"benchmark": "film_preparation", "settings": {"processes": 2}, "rows": [row]}
    assert benchmark_table([texts, films]).splitlines()[3:] == [
        "1,000,000 texts encoded from file to file: at most 538 MiB in the first quarter,"
        " 540 MiB in the last",
        "",
        "Films prepared from files of generated reviews, memory in MiB at most",
        "",
        "| reviews | sentences | reviews/s | main process | largest worker |",
        "|---|---|---|---|---|",
        "| 2,000 | 10,000 | 1,000 | 580 | 559 |",
    ]


def test_conversion_of_formulas_by_rows_layouts_and_coverage():
    row = {"gold": "G", "layout": "slt", "rows": "even", "formulas": 3}
    equal = {"layout": "opt", "from": "MathML", "equal": 0.5, "edges": 8, "equal_of_decoded": 0.75}
    speed = {"converted": 0.9999, "formulas": 2000, "formulas_per_second": 5000, "processes": 2}
    results = {
        "rows": [row | {"dice": 0.9, "dice_without_marks": 0.8}],
        "equal_edges": [equal],
        "wikipedia": speed,
    }
    lines = table(results).splitlines()
    assert lines[2] == "| G | slt | even | 3 | 0.900 | 0.800 |"
    assert "opt from MathML: 0.500 of 8 edges" in lines[4]
    assert lines[5] == (
        "- Wikipedia: 99.99% of 2,000 formulas give both trees; 5,000 a second in 2 processes."
    )
