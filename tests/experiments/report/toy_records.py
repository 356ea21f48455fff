"""Small results files, as experiments write them."""

PROVENANCE = {
    "command": "python -m experiments.x",
    "data_fingerprint": "0123456789abcdef0123",
    "git_revision": "abc",
    "versions": {"jax": "1"},
    "hardware": "2 cores of X, 8 GiB",
    "wall_s": 3600.0,
    "peak_mib": 512.0,
}


def difference_row(first, second, measure, difference, p, interval=(0.0, 1.0)):
    return {
        "first": first,
        "second": second,
        "measure": measure,
        "difference": difference,
        "interval_95": list(interval),
        "p_holm": p,
    }


def cell(mean, sd=0.0):
    return {"mean": mean, "sd": sd}


def heat_map_record(best="substitute_variables"):
    def of(base):
        both = {"partial": cell(base, 0.002), "full": cell(base / 2, 0.012)}
        return {size: {"all": both} for size in SIZES}

    layout = {name: of(0.75 if name == best else 0.5) for name in ROWS}
    sign = 1 if best == ROWS[0] else -1
    tests = []
    for measure, gain in (("partial", 0.25), ("full", 0.125)):
        for at in (*SIZES, "best"):
            names = [f"{name}, batch {SIZES[0] if at == 'best' else at}" for name in ROWS]
            tests.append(heat_map_row(*names, measure, at, sign * gain))
        for name in ROWS:
            ends = (f"{name}, batch {size}" for size in reversed(SIZES))
            tests.append(heat_map_row(*ends, measure, "batch sizes", 0.0, (-0.01, 0.01)))
    return {
        "experiment": "gcl heat map",
        "seeds": [0, 1, 2],
        "means": {"slt": layout},
        "significance": tests,
    }


def heat_map_row(first, second, measure, at, difference, interval=(0.0, 1.0)):
    row = difference_row(first, second, measure, difference, 0.01, interval)
    topics, queries = ("even", 10) if at == "best" else ("all", 20)
    return row | {"layout": "slt", "topics": topics, "queries": queries, "at": at}


SIZES, ROWS = ("256", "1024"), ("substitute_variables", "node_drop")
LTR = {
    "experiment": "ltr debian_clir",
    "data": "debian",
    "split": "test",
    "seeds": [0, 1],
    "provenance": PROVENANCE,
    "systems": {"text": {"test": {"en-de 40": cell(0.5, 0.01), "en-de 1000": cell(0.4)}}},
    "significance": [
        difference_row("text+meta", "text", "en-de 40", 0.01, 0.01),
        difference_row("text+meta", "text", "en-de 1000", 0.03, 0.2),
    ],
}
RANKING = {
    "experiment": "docent zero-shot ranking",
    "data": "films <i>, 3 queries",
    "seeds": [0],
    "provenance": PROVENANCE,
    "systems": {"BM25 (Lucene)": {"test": {"RR": cell(0.5)}}, "<b>": {"test": {"RR": cell(0.75)}}},
    "significance": [
        difference_row("DocEnt-Dual", "BM25 (Lucene)", "RR", 0.25, 0.01),
        difference_row("DocEnt-Dual + BM25", "BM25 (Lucene)", "RR", -0.25, 0.01),
        difference_row("DocEnt-Dual", "DocEnt-Hybrid", "RR", -0.125, 0.001),
        difference_row("DocEnt-Full", "DocEnt-Dual, encoder frozen", "RR", 0.5, 0.01),
        difference_row("DocEnt-Dual", "DocEnt-Full", "RR", 0.25, 0.01),
        difference_row("DocEnt-Hybrid", "DocEnt-Full", "RR", -0.125, 0.01),
    ],
}
SWEEP = {
    "experiment": "sweep x",
    "about": "Sizes.",
    "axes": ["size"],
    "rows": [
        {
            "choices": {"size": "4"},
            "cells": {"done": 2},
            "measures": {"dev RR": cell(0.5, 0.1), "loss": cell(-1.0)},
            "seconds": 61.5,
        },
        {"choices": {"size": "5"}, "cells": {"waiting": 2}, "measures": {}, "seconds": None},
    ],
    "budget": {"cells": 2, "timed": 2, "cpu_hours": 0.0342, "wall_hours": 0.02, "peak_mib": 2048.4},
}
