"""A small folder of NTCIR-12's files, in their formats."""

import json
import lzma
from pathlib import Path

CODE_MAP = """tree\tkind\tcode\tsymbol
slt\tnode\t0\t(no value: untyped operator)
slt\tnode\t60003\tV!
slt\tnode\t60006\t0!
slt\tnode\t60007\t
slt\tnode\t60020\t=
slt\tnode\t60027\tx
slt\tnode\t60012\tM!
slt\tedge\t501\tn
slt\tedge\t506\ta
opt\tnode\t60000\tU!
opt\tnode\t60004\t0!
opt\tnode\t60005\t
opt\tnode\t60006\tV!
opt\tnode\t60007\tx
opt\tnode\t60019\teq
opt\tedge\t500\tchild0
opt\tedge\t501\tchild1
opt\tedge\t511\tchild11
"""

# x = x^#9, and a formula of one node.
EQUATION = {
    "slt": [
        [60003, 60027, 0, 60020, 0, 1, 501],
        [60020, 0, 1, 60003, 60027, 2, 501],
        [60003, 60027, 2, 60003, 9, 3, 506],
        [60003, 9, 3, 60006, 60007, 4, 501],
        [60003, 60027, 2, 60006, 60007, 5, 501],
    ],
    "opt": [
        [60000, 60019, 0, 60006, 60007, 1, 500],
        [60006, 60007, 1, 60004, 60005, 2, 500],
        [60000, 60019, 0, 8, 9, 3, 511],
        [8, 9, 3, 60004, 60005, 4, 500],
    ],
}
SINGLE = {
    "slt": [[60003, 60027, 0, 60006, 60007, 1, 501]],
    "opt": [[60006, 60007, 0, 60004, 60005, 1, 500]],
}


def write_judged(folder: Path, **files: str) -> Path:
    """Two judged formulas, two queries; `files` are other contents, by the names' first letters."""
    folder.mkdir(parents=True, exist_ok=True)
    graphs = [
        {"id": "A:1", "in_1140": True, **EQUATION},
        {"id": "B:2", "in_1140": False, **SINGLE},
    ]
    queries = [{"id": "T-1", **SINGLE}, {"id": "T-2", **EQUATION}]
    contents = {
        "judged": "\n".join(map(json.dumps, graphs)),
        "query": "\n".join(map(json.dumps, queries)),
        "code": CODE_MAP,
        "qrels": "topic\tformula_id\trel\nT-1\tA:1\t0\nT-1\tB:2\t4\nT-1\tC:3\t2\nT-2\tA:1\t1\n",
        "peer": "run\ttopic\tformula_id\trank\tscore\nr\tT-1\tA:1\t1\t0.5\nr\tT-1\tZ:9\t2\t.25\n",
        **files,
    }
    names = {
        "judged": "ntcir12_judged_graphs.jsonl.xz",
        "query": "ntcir12_query_graphs.jsonl.xz",
        "code": "ntcir12_code_map.tsv",
        "qrels": "ntcir12_qrels_concrete20.tsv",
        "peer": "ntcir12_peer_runs.tsv.xz",
    }
    for name, text in contents.items():
        content = text.encode()
        is_packed = names[name].endswith(".xz")
        (folder / names[name]).write_bytes(lzma.compress(content) if is_packed else content)
    return folder


ARTICLE = """<?xml version="1.0" encoding="UTF-8"?>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body><p>Let
<math id="./Toy_article:0" xmlns="http://www.w3.org/1998/Math/MathML" alttext="x &lt; y">
<semantics><mi>x</mi></semantics></math> and <mathematics/> <math/>
<math alttext="b"
 class="c"><mi>b</mi></math></p></body></html>
"""
