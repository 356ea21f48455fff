"""Results of experiments: summaries over seeds, paired differences, provenance, and their files.

A *record* is what a results file holds: `experiment`, `data`, `config` (or `configs`), `seeds`,
`provenance`, and what the experiment found.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from experiments.machine import hardware, peak_mib, seconds_since_start
from retrieval_jax.config import to_dict
from retrieval_jax.errors import InputError
from retrieval_jax.runs import RunFolder, provenance_record, without_machine_paths
from retrieval_jax.significance import bootstrap_interval, holm, paired_randomisation

PerQuery = Mapping[str, Mapping[str, float]]
"""Query id -> measure -> value, of one run."""


def summarise(values: Iterable[float]) -> dict[str, float]:
    """Mean and sample standard deviation, `{"mean": ..., "sd": ...}`; of one value the sd is 0."""
    values = [float(value) for value in values]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "sd": spread}


def summarise_measures(
    runs: Sequence[Mapping[str, float]], measures: Iterable[str] | None = None
) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over runs of each measure.

    Args:
        runs: measure -> value, one a seed (or a split).
        measures: which; by default those of the first run.
    """
    return {m: summarise(run[m] for run in runs) for m in (measures or runs[0])}


def mean_and_sd(value: Mapping[str, float], digits: int = 3) -> str:
    """A summary as text: the mean, with its standard deviation where there is one."""
    spread = f" ± {value['sd']:.{digits}f}" if value.get("sd") else ""
    return f"{value['mean']:.{digits}f}{spread}"


def query_values(systems: Mapping[str, Sequence[PerQuery]], measure: str) -> dict[str, np.ndarray]:
    """Values of systems on the same queries, as `differences` takes them.

    A query's value is its mean over a system's runs, so that the runs of one query do not count as
    independent of each other.

    Args:
        systems: system -> its runs.
        measure: one of theirs.

    Returns:
        System -> `[queries]`, queries in sorted order.

    Raises:
        InputError: a system without runs, or runs that judge other queries.
    """
    for name, runs in systems.items():
        if not runs:
            raise InputError(f"{name} has no runs", "Give one or more of each system.")
    judged = {tuple(sorted(run)) for runs in systems.values() for run in runs}
    if len(judged) > 1:
        raise InputError(
            f"the runs of {', '.join(systems)} do not judge the same queries"
            f" ({', '.join(map(str, sorted(map(len, judged))))} of them)",
            "Give runs that were evaluated on the same split.",
        )
    queries = next(iter(judged), ())
    return {
        name: np.mean([[run[query][measure] for query in queries] for run in runs], axis=0)
        for name, runs in systems.items()
    }


def differences(
    values: Mapping[str, ArrayLike], pairs: Sequence[tuple[str, str]], measure: str
) -> list[dict[str, Any]]:
    """Paired tests of systems on the same queries, Holm-corrected over the pairs.

    Args:
        values: system -> `[queries]`, in one order of queries, as `query_values` gives them.
        pairs: (first, second), each tested for first - second.
        measure: what the values are.

    Returns:
        A row a pair: `first`, `second`, `measure`, `queries`, `difference` of the means,
        `interval_95` by bootstrap over queries, `p` by paired randomisation, `p_holm`.
    """
    arrays = {name: np.asarray(of, dtype=np.float64) for name, of in values.items()}
    raw = [paired_randomisation(arrays[first], arrays[second]) for first, second in pairs]
    rows = []
    for (first, second), p, adjusted in zip(pairs, raw, holm(raw), strict=True):
        difference = arrays[first] - arrays[second]
        rows.append(
            {
                "first": first,
                "second": second,
                "measure": measure,
                "queries": len(difference),
                "difference": float(difference.mean()),
                "interval_95": list(bootstrap_interval(difference)),
                "p": p,
                "p_holm": adjusted,
            }
        )
    return rows


def one_family(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of several calls of `differences`, Holm-corrected over all of them together."""
    adjusted = holm([row["p"] for row in rows])
    return [{**row, "p_holm": p} for row, p in zip(rows, adjusted, strict=True)]


def provenance(data_fingerprint: str) -> dict[str, Any]:
    """What a result was made with and what it took: call it when everything is computed.

    Returns:
        `retrieval_jax.runs.provenance_record` (command, revision, versions, devices, data) and
        `hardware`, `wall_s` since the process started (None where the system does not tell) and
        `peak_mib`, the most memory that the process held.
    """
    return {
        **provenance_record(data_fingerprint),
        "hardware": hardware(),
        "wall_s": seconds_since_start(),
        "peak_mib": peak_mib(),
    }


def make_record(
    experiment: str,
    data: str,
    config: Any,
    seeds: Sequence[int],
    data_fingerprint: str,
    found: Mapping[str, Any],
) -> dict[str, Any]:
    """A record of what an experiment found, with its provenance.

    Args:
        experiment: its name, by which the report knows the record.
        data: in words: what it is, how many queries, which pool.
        config: a dataclass, or several by name; folders of this machine are taken out.
        seeds: of the runs.
        data_fingerprint: hash of the data.
        found: further entries: systems, significance, ...
    """
    several = isinstance(config, Mapping)
    described = {k: to_dict(v) for k, v in config.items()} if several else to_dict(config)
    described = _portable(described)
    return {
        "experiment": experiment,
        "data": data,
        "configs" if several else "config": described,
        "seeds": list(seeds),
        "provenance": provenance(data_fingerprint),
        **found,
    }


def _portable(value: Any) -> Any:
    """The same, ready for JSON, without folders of this machine."""
    if isinstance(value, Mapping):
        return {name: _portable(of) for name, of in value.items()}
    if isinstance(value, list):
        return [_portable(item) for item in value]
    return without_machine_paths(str(value)) if isinstance(value, str | Path) else value


def write_record(path: Path | None, record: Mapping[str, Any]) -> None:
    """Writes a record as JSON, whole or not at all, making its folder; nothing without a path.

    Raises:
        InputError: it cannot be written.
    """
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        RunFolder(path.parent, "experiments").write_json(path.name, record)


def read_record(path: Path, experiment: str | None = None) -> dict[str, Any]:
    """Reads a record.

    Args:
        path: the file.
        experiment: whose it must be; None = any.

    Raises:
        InputError: absent, no JSON, no record, or of another experiment.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}", "Run its experiment first.") from error
    if not isinstance(record, dict) or "experiment" not in record:
        raise InputError(f"{path} holds no results of an experiment", "Give a results file.")
    if experiment not in (None, record["experiment"]):
        raise InputError(
            f"{path} holds no results of {experiment}, but of {record['experiment']}",
            "Give the right file.",
        )
    return record
