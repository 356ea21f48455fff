"""NTCIR-12's formula browsing task: judged formulas and queries as coded graphs, judgements, runs.

Zanibbi et al., "NTCIR-12 MathIR task overview", 2016; the graphs and the smaller pool are those of
later papers. Files of a folder:

| file | content |
|---|---|
| ntcir12_judged_graphs.jsonl.xz | a formula a line: id, in_1140, and its trees (slt, opt) as rows [type1, value1, node1, type2, value2, node2, edge] of integers |
| ntcir12_query_graphs.jsonl.xz | the queries in the same coding |
| ntcir12_code_map.tsv | tree, kind (node, edge), code, symbol |
| ntcir12_qrels_concrete20.tsv | topic, formula_id, rel (0 to 4) |
| ntcir12_peer_runs.tsv.xz | published runs: run, topic, formula_id, rank, score |
"""  # noqa: E501

import dataclasses
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gcl_jax.data import END_MARK, Formulas, forest_of
from gcl_jax.formulas.trees import Layout, Tree, opt_edge, tree_from_edges
from retrieval_jax import data_folders
from retrieval_jax.errors import InputError
from retrieval_jax.rankings import FLOAT32_MAX, Qrels, Ranking
from retrieval_jax.text_files import (
    integer,
    read_json_lines,
    read_lines,
    read_table,
    require_file,
)

GRAPHS, QUERIES = "ntcir12_judged_graphs.jsonl.xz", "ntcir12_query_graphs.jsonl.xz"
CODES, QRELS = "ntcir12_code_map.tsv", "ntcir12_qrels_concrete20.tsv"
RUNS = "ntcir12_peer_runs.tsv.xz"
_LAYOUTS: tuple[Layout, Layout] = ("slt", "opt")
_RUN_COLUMNS = ("run", "topic", "formula_id", "rank", "score")
_log = logging.getLogger(__name__)

Codes = Mapping[tuple[str, str, int], str]
"""(layout, `node` or `edge`, code) -> symbol."""


@dataclasses.dataclass(frozen=True, eq=False)
class JudgedFormulas:
    """What the 20 topics without wildcards are evaluated on.

    Attributes:
        formulas: the judged formulas: the pool.
        in_small_pool: bool `[formulas]`, whether papers after 2024 keep it.
        queries: those of the topics.
        qrels: topic -> formula -> relevance, 0 to 4; may judge a formula that has no tree.
        counts: what was read, skipped and not found, by reason.
    """

    formulas: Formulas
    in_small_pool: np.ndarray
    queries: Formulas
    qrels: Qrels
    counts: dict[str, int]


def data_folder(folder: Path | None = None) -> Path:
    """The folder of these files: as given, else `formulas` in the folder RETRIEVAL_DATA names.

    Raises:
        InputError: neither, or it does not exist.
    """
    return data_folders.present_folder("formulas", folder, "`--folder`", GRAPHS)


def read_judged(folder: Path) -> JudgedFormulas:
    """Reads the judged formulas, queries and judgements of a folder.

    A formula whose rows are no tree is left out, logged and counted.

    Raises:
        InputError: a file is missing or damaged, a query is no tree, an id occurs twice, or a topic
            is judged whose query is not there.
    """
    counts: Counter[str] = Counter()
    codes = read_codes(_file(folder, CODES))
    formulas, rows = _read_graphs(_file(folder, GRAPHS), codes, counts)
    queries, _ = _read_graphs(_file(folder, QUERIES), codes, None)
    qrels = read_qrels(_file(folder, QRELS))
    for topic in qrels:
        if topic not in queries.ids:
            raise InputError(
                f"{folder / QRELS} judges the topic {topic!r}, which {QUERIES} has not.",
                "Give files of one collection.",
            )
    known = set(formulas.ids)
    counts["judged formulas without trees"] = len(
        {formula for of_topic in qrels.values() for formula in of_topic} - known
    )
    for row in rows:
        if not isinstance(row.get("in_1140"), bool):
            raise InputError(
                f"{folder / GRAPHS}: in_1140 of {row['id']!r} is {row.get('in_1140')!r}.",
                "It must be true or false.",
            )
    small = np.array([row["in_1140"] for row in rows], bool)
    return JudgedFormulas(formulas, small, queries, qrels, dict(counts))


def read_codes(path: Path) -> dict[tuple[str, str, int], str]:
    """Reads the code map.

    Raises:
        InputError: a malformed row, or a code that occurs twice.
    """
    codes: dict[tuple[str, str, int], str] = {}
    for number, row in read_table(path, ("tree", "kind", "code", "symbol"), Counter()):
        key = row["tree"], row["kind"], integer(row, "code", path, number)
        if key in codes:
            raise InputError(
                f"{path}, line {number}: code {key} occurs a second time.", "Remove one of them."
            )
        codes[key] = row["symbol"]
    return codes


def decode_graph(layout: Layout, rows: Sequence[Any], codes: Codes) -> Tree:
    """The tree of a coded graph; end marks are left out.

    A code that the map has not stays a symbol of its own: `V!#123`.

    Args:
        layout: `slt` or `opt`.
        rows: [type1, value1, node1, type2, value2, node2, edge] of integers, an edge each.
        codes: the code map.

    Raises:
        InputError: no rows, a malformed one, a node with two labels or two parents, two roots, or a
            cycle.
    """
    labels: dict[int, str] = {}
    edges: list[tuple[int, int, str]] = []
    for number, row in enumerate(rows):
        is_row = isinstance(row, list) and len(row) == 7
        if not is_row or not all(type(code) is int for code in row):
            raise _graph_error(f"row {number} is {str(row)[:80]}, not seven integers")
        for type_code, value_code, node in (row[:3], row[3:6]):
            label = _label(layout, type_code, value_code, codes)
            if labels.setdefault(node, label) != label:
                raise _graph_error(f"node {node} is {labels[node]!r}, in row {number} {label!r}")
        edges.append((row[2], row[5], _edge(layout, row[6], codes)))
    marks = {node for node, label in labels.items() if label == END_MARK}
    nodes = [node for node in sorted(labels) if node not in marks]
    if not nodes:
        raise _graph_error("it has no nodes")
    places = {node: place for place, node in enumerate(nodes)}
    for parent, _, _ in edges:
        if parent in marks:
            raise _graph_error(f"the end mark {parent} has a child")
    return tree_from_edges(
        layout,
        [labels[node] for node in nodes],
        [(places[a], places[b], edge) for a, b, edge in edges if b not in marks],
    )


def _label(layout: Layout, type_code: int, value_code: int, codes: Codes) -> str:
    kind = codes.get((layout, "node", type_code), f"#{type_code}")
    # Signs of layout trees have no value.
    return kind + (codes.get((layout, "node", value_code), f"#{value_code}") if value_code else "")


def _edge(layout: Layout, code: int, codes: Codes) -> str:
    symbol = codes.get((layout, "edge", code), f"#{code}")
    child = symbol.removeprefix("child")
    return opt_edge(int(child)) if child != symbol and child.isdecimal() else symbol


def _graph_error(problem: str) -> InputError:
    return InputError(
        f"not a coded tree: {problem}",
        "Rows are [type1, value1, node1, type2, value2, node2, edge], an edge of one tree each.",
    )


def _file(folder: Path, name: str) -> Path:
    return require_file(folder / name, f"The folder must hold {name}.")


def _read_graphs(
    path: Path, codes: Codes, skipped: Counter[str] | None
) -> tuple[Formulas, list[dict[str, Any]]]:
    """Formulas and their lines; what is no tree is counted, or refused without a counter."""
    kept: dict[str, tuple[dict[str, Any], tuple[Tree, Tree]]] = {}
    for number, row in read_json_lines(path, Counter()):
        name = row.get("id")
        if not isinstance(name, str) or not name or name in kept:
            raise InputError(
                f"{path}, line {number}: the id is {name!r}{' again' if name in kept else ''}.",
                "Give each formula an id of its own.",
            )
        try:
            slt, opt = (decode_graph(of, _rows(row, of), codes) for of in _LAYOUTS)
        except InputError as error:
            if skipped is None:
                raise InputError(
                    f"{path}, line {number}, {name!r}: {error.problem}", error.remedy
                ) from None
            _log.warning("%s, line %d, %r left out: %s", path, number, name, error.problem)
            skipped["formulas left out that are no tree"] += 1
            continue
        kept[name] = row, (slt, opt)
    if not kept:
        raise InputError(f"{path} has no formula.", "Give the file as it was published.")
    slts, opts = zip(*(trees for _, trees in kept.values()), strict=True)
    return Formulas(tuple(kept), forest_of(slts), forest_of(opts)), [
        row for row, _ in kept.values()
    ]


def _rows(row: Mapping[str, Any], layout: Layout) -> list[Any]:
    rows = row.get(layout)
    if not isinstance(rows, list) or not rows:
        raise _graph_error(f"{layout} is {str(rows)[:80]}, not a list of rows")
    return rows


def read_qrels(path: Path) -> Qrels:
    """Reads the judgements.

    Raises:
        InputError: a malformed row, a relevance outside 0 to 4, or a formula judged twice for one
            topic.
    """
    qrels: Qrels = {}
    for number, row in read_table(path, ("topic", "formula_id", "rel"), Counter()):
        relevance = integer(row, "rel", path, number)
        of_topic = qrels.setdefault(row["topic"], {})
        if not 0 <= relevance <= 4 or row["formula_id"] in of_topic:
            raise InputError(
                f"{path}, line {number}: {row['formula_id']!r} has the relevance {relevance} for "
                f"{row['topic']!r}{', a second one' if row['formula_id'] in of_topic else ''}.",
                "Give each formula of a topic one relevance from 0 to 4.",
            )
        of_topic[row["formula_id"]] = relevance
    if not qrels:
        raise InputError(f"{path} has no judgement.", "Give the file as it was published.")
    return qrels


def read_runs(path: Path, topics: Sequence[str]) -> tuple[dict[str, Ranking], dict[str, int]]:
    """Reads the published runs, name -> ranking.

    A malformed row, and one of a topic that is not among `topics`, is left out, logged and counted.

    Returns:
        The runs and the counts.

    Raises:
        InputError: no such file, a column is missing, or nothing can be read.
    """
    runs: dict[str, Ranking] = {}
    skipped: Counter[str] = Counter()
    known = set(topics)
    lines = read_lines(require_file(path, f"The folder must hold {path.name}."), skipped)
    header = next(lines, (1, ""))[1].rstrip("\r").split("\t")
    if tuple(header) != _RUN_COLUMNS:
        raise InputError(
            f"{path}, line 1: the columns are {header}.", f"They must be {_RUN_COLUMNS}."
        )
    for number, line in lines:
        row = line.rstrip("\r").split("\t")
        problem = _run_problem(row, known, runs)
        if problem:
            _log.warning("%s, line %d left out: %s", path, number, problem)
            skipped["rows of runs left out"] += 1
            continue
        name, topic, formula, _, score = row
        runs.setdefault(name, {}).setdefault(topic, {})[formula] = float(score)
    if not runs:
        raise InputError(f"{path} has no run.", "Give the file as it was published.")
    return runs, dict(skipped)


def _run_problem(row: Sequence[str], topics: set[str], runs: Mapping[str, Ranking]) -> str:
    """What is wrong with a row of a run, "" if nothing."""
    if len(row) != len(_RUN_COLUMNS):
        return f"{len(row)} fields instead of {len(_RUN_COLUMNS)}"
    name, topic, formula, _, score = row
    if topic not in topics:
        return f"no such topic: {topic!r}"
    if formula in runs.get(name, {}).get(topic, {}):
        return f"{formula!r} occurs twice for {topic!r}"
    try:
        return "" if abs(float(score)) <= FLOAT32_MAX else f"the score is {score}"
    except ValueError:
        return f"the score is {score!r}"
