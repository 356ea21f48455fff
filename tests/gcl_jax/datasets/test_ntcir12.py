"""Coded graphs, judgements and runs: decoded, checked, and the real ones."""

import copy
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from gcl_jax.datasets.ntcir12 import (
    GRAPHS,
    RUNS,
    data_folder,
    decode_graph,
    read_codes,
    read_judged,
    read_runs,
)
from gcl_jax.formulas.trees import Tree, make_tree
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import read_json_lines
from tests.gcl_jax.datasets.ntcir12_files import CODE_MAP, EQUATION, SINGLE, write_judged

REAL = Path(os.environ.get("RETRIEVAL_DATA", "absent"), "formulas")


def test_judged_formulas(tmp_path: Path) -> None:
    judged = read_judged(write_judged(tmp_path))
    assert judged.formulas.ids == ("A:1", "B:2")
    assert judged.queries.ids == ("T-1", "T-2")
    # Unknown codes are symbols of their own; end marks are left out.
    assert judged.formulas.slt.tree(0) == Tree(
        "slt", ("V!x", "=", "V!x", "V!#9"), (-1, 0, 1, 2), ("", "n", "n", "a")
    )
    assert judged.formulas.opt.tree(0) == Tree(
        "opt", ("U!eq", "V!x", "#8#9"), (-1, 0, 0), ("", "0", "B")
    )
    assert judged.queries.slt.tree(0) == Tree("slt", ("V!x",), (-1,), ("",))
    assert judged.in_small_pool.tolist() == [True, False]
    assert judged.qrels == {"T-1": {"A:1": 0, "B:2": 4, "C:3": 2}, "T-2": {"A:1": 1}}
    assert judged.counts == {"judged formulas without trees": 1}


def changed(rows: list, row: int, column: int, value) -> list:
    rows = copy.deepcopy(rows)
    rows[row][column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (changed(EQUATION["slt"], 1, 6, "501"), "row 1 is .*not seven integers"),
        (changed(EQUATION["slt"], 1, 0, True), "row 1 is .*not seven integers"),
        ([[1, 2, 3]], "row 0 is"),
        (changed(EQUATION["slt"], 1, 2, 2), "node 2 is '=', in row 1 'V!x'"),
        ([*EQUATION["slt"], [60020, 0, 7, 60003, 60027, 0, 501]], None),
        ([*EQUATION["slt"], [60020, 0, 7, 60003, 9, 8, 501]], "2 roots"),
        ([*EQUATION["slt"], [60003, 9, 3, 60003, 60027, 0, 501]], "0 roots"),
        ([*EQUATION["slt"], [60020, 0, 7, 60003, 60027, 2, 501]], "edge"),
        ([[60003, 1, 0, 60003, 2, 1, 501], [60003, 3, 2, 60003, 4, 3, 501],
          [60003, 4, 3, 60003, 3, 2, 501]], "cycle"),
        ([[60006, 60007, 0, 60006, 60007, 1, 501]], "no nodes"),
        ([*EQUATION["slt"], [60006, 60007, 4, 60003, 9, 8, 501]], "end mark 4 has a child"),
    ],
)  # fmt: skip
def test_rows_that_are_no_tree_are_refused_with_their_place(rows, problem, tmp_path: Path) -> None:
    (tmp_path / "codes.tsv").write_text(CODE_MAP)
    codes = read_codes(tmp_path / "codes.tsv")
    if problem is None:
        assert len(decode_graph("slt", rows, codes)) == 5
    else:
        with pytest.raises(InputError, match=problem):
            decode_graph("slt", rows, codes)


def test_a_formula_that_is_no_tree_is_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        {"id": "A:1", "in_1140": True, **EQUATION, "opt": [[1]]},
        {"id": "A:2", "in_1140": True, "slt": [], "opt": []},
        {"id": "B:2", "in_1140": False, **SINGLE},
    ]
    judged = read_judged(write_judged(tmp_path, judged="\n".join(map(json.dumps, rows))))
    assert judged.formulas.ids == ("B:2",)
    assert judged.counts["formulas left out that are no tree"] == 2
    assert "line 1, 'A:1' left out: not a coded tree: row 0" in caplog.text
    assert "line 2, 'A:2' left out" in caplog.text


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"judged": "{}"}, "line 1: the id is None"),
        ({"judged": "nothing"}, "line 1: not JSON"),
        ({"judged": ""}, "has no formula"),
        ({"judged": json.dumps({"id": "A", **SINGLE})}, "in_1140 of 'A' is None"),
        ({"judged": "\n".join([json.dumps({"id": "A", "in_1140": True, **SINGLE})] * 2)},
         "line 2: the id is 'A' again"),
        ({"query": json.dumps({"id": "T-1", "slt": [], "opt": []})}, "'T-1': .*not a list"),
        ({"query": json.dumps({"id": "T-1", **SINGLE})}, "judges the topic 'T-2'"),
        ({"code": CODE_MAP + "slt\tnode\t60003\tN!\n"}, "line 20: code .*60003.* second time"),
        ({"code": CODE_MAP + "slt\tnode\tx\tN!\n"}, "line 20: code is 'x'"),
        ({"code": CODE_MAP + "slt\tnode\n"}, "line 20: 2 fields"),
        ({"qrels": "topic\tformula_id\trel\nT-1\tA\t5\n"}, "line 2: 'A' has the relevance 5"),
        ({"qrels": "topic\tformula_id\trel\nT-1\tA\t1\nT-1\tA\t1\n"}, "line 3: .*a second one"),
        ({"qrels": "topic\tformula_id\trel\nT-1\tA\n"}, "line 2: 2 fields"),
        ({"qrels": "topic\tformula_id\trel\n"}, "no judgement"),
        ({"qrels": "a\tb\n"}, "no column topic, formula_id, rel"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_judged(write_judged(tmp_path, **files))


def test_rows_of_runs_that_cannot_be_read_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        "run\ttopic\tformula_id\trank\tscore",
        "r\tT-1\tA:1\t1\t0.5",
        "r\tT-1\tA:1\t2\t0.4",
        "r\tT-9\tA:1\t2\t0.4",
        "r\tT-1\tB:1\tx",
        "r\tT-1\tB:1\t3\tnan",
        "r\tT-1\tB:1\t3\thigh",
        's\tT-2\t"B:1\t3\t-1e3',
    ]
    folder = write_judged(tmp_path, peer="\n".join(rows))
    runs, counts = read_runs(folder / RUNS, ("T-1", "T-2"))
    assert runs == {"r": {"T-1": {"A:1": 0.5}}, "s": {"T-2": {'"B:1': -1000.0}}}
    assert counts == {"rows of runs left out": 5}
    for line, problem in (
        (3, "'A:1' occurs twice for 'T-1'"),
        (4, "no such topic: 'T-9'"),
        (5, "4 fields instead of 5"),
        (6, "the score is nan"),
        (7, "the score is 'high'"),
    ):
        assert f"line {line} left out: {problem}" in caplog.text
    folder = write_judged(tmp_path, peer=f"{rows[0]}\nr\tT-1\tA\rB\t1\t0.5\n")
    assert read_runs(folder / RUNS, ("T-1",))[0] == {"r": {"T-1": {"A\rB": 0.5}}}
    with pytest.raises(InputError, match="the columns are"):
        read_runs(write_judged(tmp_path, peer="a\tb\n") / RUNS, ("T-1",))
    with pytest.raises(InputError, match="has no run"):
        read_runs(write_judged(tmp_path, peer=rows[0]) / RUNS, ("T-1",))


def test_the_folder_is_named_or_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match="no folder"):
        data_folder()
    (tmp_path / "formulas").mkdir()
    assert data_folder() == tmp_path / "formulas"
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.delenv("RETRIEVAL_DATA")
    with pytest.raises(InputError, match=r"no folder to read(.|\n)*RETRIEVAL_DATA"):
        data_folder()
    with pytest.raises(InputError, match="There is no file"):
        read_judged(tmp_path)


@pytest.mark.skipif(not REAL.is_dir(), reason="needs formulas in the folder RETRIEVAL_DATA")
def test_the_real_graphs() -> None:
    judged = read_judged(REAL)
    assert (len(judged.formulas), len(judged.queries)) == (1198, 20)
    assert judged.in_small_pool.sum() == 1140
    assert judged.counts == {"judged formulas without trees": 1}
    assert sum(map(len, judged.qrels.values())) == 1202
    for formulas in (judged.formulas, judged.queries):
        for forest in (formulas.slt, formulas.opt):
            for i in range(0, len(forest), 19):
                tree = forest.tree(i)
                assert make_tree(tree.layout, tree.labels, tree.parents, tree.edge_labels) == tree
    # The rows of the files are the edges, end marks included.
    rows = [row for _, row in read_json_lines(REAL / GRAPHS, Counter())]
    for layout, forest in (("slt", judged.formulas.slt), ("opt", judged.formulas.opt)):
        marked = forest.with_end_marks().sizes - 1
        assert marked.tolist() == [len(row[layout]) for row in rows]
    runs, counts = read_runs(REAL / RUNS, judged.queries.ids)
    assert len(runs) == 7
    assert counts == {}
