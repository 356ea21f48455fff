"""The process that reads formulas: JSON lines in, JSON lines out.

Converters are native code, which a formula may hang or crash in spite of all caps. Here that costs
one process: an alarm that nothing handles ends it even in native code, and `converter` starts
another. `python -m experiments.serve.worker SECONDS`; needs no JAX.
"""

import json
import signal
import sys
from typing import Any

from experiments.serve.mathml import rendered
from gcl_jax.formulas import FormulaError
from gcl_jax.formulas.latex import latex_markup, nesting
from gcl_jax.formulas.markup import is_mathml, read_mathml
from gcl_jax.formulas.parsing import parse_both
from gcl_jax.formulas.trees import Tree
from retrieval_jax.errors import InputError
from retrieval_jax.processes import limit_memory

PICTURED_NODES = 150
"""Nodes of a tree that is drawn, at most."""

_LEVELS_PER_GROUP = 3
_WORKER_BYTES = 2 << 30


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What is asked of a formula.

    Args:
        request: `formula`, LaTeX or MathML; `task`, `markup` or `trees`; and, for trees, `depth`
            and `nodes`, what they may have.

    Returns:
        `mathml`; and, for trees, `slt` and `opt`, each with `labels`, `parents`, `edges`, `text`
        and `svg` ("" for large ones). Where there are none: `problem`, `remedy`, `position`.
    """
    try:
        return _answer(request)
    except FormulaError as error:
        return {"problem": error.reason, "remedy": error.remedy, "position": error.position}
    except InputError as error:
        return {"problem": error.problem, "remedy": error.remedy, "position": None}
    except (RecursionError, MemoryError) as error:
        remedy = "Give a smaller formula."
        problem = f"the formula is too much to read ({type(error).__name__})"
        return {"problem": problem, "remedy": remedy, "position": None}


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    formula = request["formula"]
    if request["task"] == "markup":
        return {"mathml": _markup(formula)}
    depth, place = nesting(formula)
    if depth > request["depth"]:
        raise FormulaError(
            f"groups nested {depth} deep, more than {request['depth']}", place, formula
        )
    slt, opt = parse_both(formula)
    largest = max(len(slt), len(opt))
    if largest > request["nodes"]:
        raise FormulaError(
            f"a tree of {largest} nodes, more than {request['nodes']}",
            0,
            formula,
            "Give a shorter formula, or a part of it.",
        )
    # Braces do not show all nesting: MathML has none, and `\sqrt\sqrt x` needs none.
    levels, most = max(_levels(slt), _levels(opt)), _LEVELS_PER_GROUP * request["depth"]
    if levels > most:
        raise FormulaError(f"a tree of {levels} levels, more than {most}", 0, formula)
    return {"mathml": _markup(formula), "slt": _described(slt), "opt": _described(opt)}


def _levels(tree: Tree) -> int:
    """Depth of a tree; the next sign and cell of a layout are on the level of the former."""
    level_edges = ("n", "e") if tree.layout == "slt" else ()
    levels = [0]
    for parent, edge in zip(tree.parents[1:], tree.edge_labels[1:], strict=True):
        levels.append(levels[parent] + (edge not in level_edges))
    return max(levels)


def _markup(formula: str) -> str:
    return rendered(read_mathml(formula) if is_mathml(formula) else latex_markup(formula))


def _described(tree: Tree) -> dict[str, Any]:
    is_small = len(tree) <= PICTURED_NODES
    return {
        "labels": tree.labels,
        "parents": tree.parents,
        "edges": tree.edge_labels,
        "text": str(tree) if is_small else "",
        "svg": tree.to_svg() if is_small else "",
    }


def main() -> None:
    """Answers until standard input ends; an empty line says that it can."""
    seconds = float(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the server's, which ends this one
    # A formula that wants all memory ends its own process only.
    limit_memory(_WORKER_BYTES)
    answer({"task": "trees", "formula": "x", "depth": 1, "nodes": 1})  # loads what it needs
    print(flush=True)
    for line in sys.stdin.buffer:
        _set_alarm(seconds)
        reply = json.dumps(answer(json.loads(line)))
        _set_alarm(0)
        sys.stdout.write(f"{reply}\n")
        sys.stdout.flush()


def _set_alarm(seconds: float) -> None:
    """Which ends this process; not on every system, and `converter` waits no longer either."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
