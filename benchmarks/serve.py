"""The search server under load, and under nonsense.

COMMAND   python -m benchmarks.serve load --url http://127.0.0.1:8000 --clients 50 --seconds 60
          python -m benchmarks.serve fuzz --url http://127.0.0.1:8000 --requests 10000
HARDWARE  2 CPU cores, the server beside it: python -m experiments.serve

`load`: clients that search, each in turn for a formula and for entities, as fast as they are
answered. `fuzz`: schemathesis' requests from the API's description, and formulas that have hung or
crashed converters; no answer may be a 500, none may be missing, and the server's memory may not
grow. Either prints a JSON line.
"""

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import json
import random
import statistics
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import tyro

from benchmarks.measure import give_record
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.runs import provenance_record

FORMULAS = (
    r"\int_0^\infty t^{x-1} e^{-t} dt",
    r"\frac{1}{\sqrt{2\pi}} e^{-x^2/2}",
    r"\sum_{k=0}^n \binom{n}{k} p^k (1-p)^{n-k}",
    "A = U \\Sigma V^H",
    r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}",
    r"\lim_{n \to \infty} \left(1 + \frac{x}{n}\right)^n",
)
TEXTS = (
    "fast fourier transform of real input",
    "find the roots of a polynomial given its coefficients",
    "draw random samples from a bell-shaped distribution",
    "solve a sparse linear system",
    "smooth an image with a gaussian",
)
NASTY = (
    "{" * 900,
    "{" * 900 + "x" + "}" * 900,
    r"\left(" * 300,
    "(" * 1000,
    r"\sqrt" * 400,
    r"\frac" * 300 + "ab",
    "^" * 1000,
    "x_" * 600 + "x",
    r"\def\a{\a\a}\a",
    r"\newcommand{\b}{\b}\b",
    r"\def\a{xxxxxxxxxx}\def\b{\a\a\a\a\a\a\a\a}\def\c{\b\b\b\b\b\b\b\b}\c\c\c",
    r"\begin{array}{" + "c" * 900 + "}x",
    r"\begin{matrix}" * 100,
    "<math>" + "<mrow>" * 300,
    "<math><mi>&lol;</mi></math>",
    '<!DOCTYPE x [<!ENTITY a "b">]><math>&a;</math>',
    "<math><script>alert(1)</script></math>",
    r"\text{<img src=x onerror=alert(1)>}",
    "\x00\x01\x02",
    "\u202e\u2066x\ufffe",
    "\U0001f600" * 500,
    "%" * 1000,
    "&" * 1000,
    "$" * 1001,
    "\\" * 999,
    r"\qvar{" * 100,
    "?x" * 500,
    " ",
)
_MEMORY = "process_resident_memory_bytes "
_WARM_SHARE = 0.2


@dataclasses.dataclass(frozen=True)
class Load:
    """Search as many clients.

    Attributes:
        url: of the server.
        clients: at the same time.
        seconds: how long.
        output: JSON file to write; the line is printed in any case.
    """

    url: str = "http://127.0.0.1:8000"
    clients: int = 50
    seconds: float = 60.0
    output: Path | None = None


@dataclasses.dataclass(frozen=True)
class Fuzz:
    """Send nonsense.

    Attributes:
        url: of the server.
        requests: how many.
        seed: of what is sent.
        growth_mib: by which the server's memory may grow after the first fifth.
        output: JSON file to write; the line is printed in any case.
    """

    url: str = "http://127.0.0.1:8000"
    requests: int = 10_000
    seed: int = 0
    growth_mib: float = 50.0
    output: Path | None = None


@one_screen_errors
def main() -> None:
    """Does what the command line says."""
    command: Load | Fuzz = tyro.cli(
        Annotated[Load, tyro.conf.subcommand("load")]
        | Annotated[Fuzz, tyro.conf.subcommand("fuzz")],
        prog="python -m benchmarks.serve",
        description=__doc__,
    )
    started = time.perf_counter()
    kind = "load" if isinstance(command, Load) else "fuzz"
    found = asyncio.run(load(command)) if isinstance(command, Load) else fuzz(command)
    record = {
        "benchmark": f"serve_{kind}",
        "settings": {
            name: value
            for name, value in dataclasses.asdict(command).items()
            if name not in ("url", "output")
        },
        **found,
        "seconds": round(time.perf_counter() - started, 1),
        "provenance": provenance_record(""),
    }
    give_record(record, command.output)
    if kind == "fuzz" and not found["passed"]:
        raise SystemExit(1)


async def load(command: Load) -> dict[str, Any]:
    """Latencies in ms by what was asked, throughput, and errors.

    Raises:
        InputError: the package of clients is not installed, or the server is not ready.
    """
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise InputError(
            "the package httpx2 is not installed", "pip install -e '.[test]'"
        ) from error
    latencies: dict[str, list[float]] = collections.defaultdict(list)
    errors: collections.Counter[str] = collections.Counter()
    limits = httpx2.Limits(max_connections=command.clients)
    async with httpx2.AsyncClient(base_url=command.url, timeout=30, limits=limits) as client:
        try:
            (await client.get("/health/ready")).raise_for_status()
        except httpx2.HTTPError as error:
            raise InputError(f"{command.url} is not ready: {error}", "Start the server.") from error
        end = time.perf_counter() + command.seconds

        async def search(number: int) -> None:
            for turn in itertools.count(number):
                if time.perf_counter() >= end:
                    return
                path, body = _search(turn)
                start = time.perf_counter()
                try:
                    answer = await client.post(path, json=body)
                    if answer.status_code != 200:
                        errors[str(answer.status_code)] += 1
                        continue
                except httpx2.HTTPError as error:
                    errors[type(error).__name__] += 1
                    continue
                latencies[path.split("/")[2]].append(1000 * (time.perf_counter() - start))

        await asyncio.gather(*(search(number) for number in range(command.clients)))
    everything = [of for values in latencies.values() for of in values]
    return {
        "requests_per_second": round(len(everything) / command.seconds, 1),
        "errors": dict(errors),
        "latency_ms": {
            name: _percentiles(values) for name, values in (*latencies.items(), ("all", everything))
        },
    }


def _search(turn: int) -> tuple[str, dict[str, Any]]:
    if turn % 2:
        return "/api/entities/search", {"query": TEXTS[turn // 2 % len(TEXTS)]}
    return "/api/formulas/search", {"formula": FORMULAS[turn // 2 % len(FORMULAS)]}


def _percentiles(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"requests": len(values)}
    cuts = statistics.quantiles(values, n=100)
    return {"requests": len(values), "p50": round(cuts[49], 1), "p99": round(cuts[98], 1)}


def fuzz(command: Fuzz) -> dict[str, Any]:
    """How many answers had which status, and how the server's memory grew.

    Raises:
        InputError: schemathesis is not installed, or the server is not there.
    """
    try:
        import httpx2
        import schemathesis  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise InputError(
            f"the package {error.name!r} is not installed", "pip install -e '.[bench]'"
        ) from error
    statuses: collections.Counter[str] = collections.Counter()
    memory: list[int] = []
    generated, source = _generated(command), random.Random(command.seed)
    with httpx2.Client(base_url=command.url, timeout=30) as client:
        for number in range(command.requests):
            request = _nasty(source) if number % 2 else next(generated)
            try:
                statuses[str(client.request(**request).status_code)] += 1
            except httpx2.InvalidURL:
                statuses["not sent"] += 1
            except httpx2.HTTPError as error:
                statuses[type(error).__name__] += 1
            if number % max(command.requests // 50, 1) == 0:
                memory.append(_memory(client.get("/metrics").text))
        memory.append(_memory(client.get("/metrics").text))
    first = max(memory[: max(int(_WARM_SHARE * len(memory)), 1)])
    growth = (memory[-1] - first) / 2**20
    failed = [name for name in statuses if name[:1] != "4" and name not in _FINE]
    return {
        "statuses": dict(statuses),
        "memory_mib": [round(of / 2**20) for of in memory[:: max(len(memory) // 10, 1)]],
        "growth_mib": round(growth, 1),
        "passed": not failed and growth <= command.growth_mib,
    }


# 503: too many at once, or a device that is busy.
_FINE = ("200", "503", "not sent")


def _nasty(source: random.Random) -> dict[str, Any]:
    """A request for a nasty formula, or for pieces of two."""
    formula = source.choice(NASTY)
    if source.random() < 0.5:
        other = source.choice((*NASTY, *FORMULAS))
        formula = formula[: source.randint(0, 50)] + other[source.randint(0, 20) :]
    path = source.choice(["/", "/formulas/preview", "/formulas/answers", "/entities"])
    if source.random() < 0.4:
        return {"method": "GET", "url": path, "params": {"q": formula}}
    path = source.choice(["search", "parse"])
    return {"method": "POST", "url": f"/api/formulas/{path}", "json": {"formula": formula}}


def _generated(command: Fuzz) -> Iterator[dict[str, Any]]:
    """schemathesis' requests, right and wrong ones, without end."""
    import schemathesis  # pyright: ignore[reportMissingImports]

    with urllib.request.urlopen(f"{command.url}/openapi.json", timeout=30) as answer:
        schema = schemathesis.openapi.from_dict(json.load(answer))
    operations = [cast(Any, result).ok() for result in schema.get_all_operations()]
    modes = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    for seed in itertools.count(command.seed):
        for operation, mode in itertools.product(operations, modes):
            yield from _drawn(operation.as_strategy(generation_mode=mode), seed)


def _drawn(strategy: Any, seed: int) -> list[dict[str, Any]]:
    """Some requests of one kind."""
    import hypothesis
    from hypothesis.errors import Unsatisfiable

    requests: list[dict[str, Any]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=20,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),  # pyright: ignore[reportArgumentType]
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(case=strategy)
    def draw(case: Any) -> None:
        requests.append(_request(case))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(Unsatisfiable):
            draw()
    return requests


def _request(case: Any) -> dict[str, Any]:
    """A case as httpx2 sends it."""
    sent = case.as_transport_kwargs(base_url="http://base")
    path = sent["url"].removeprefix("http://base")
    names = ("params", "json", "headers", "cookies")
    content = sent.get("data")
    kept = {name: sent[name] for name in names if sent.get(name)}
    if isinstance(content, str | bytes):
        kept["content"] = content
    return {"method": sent["method"], "url": path, **kept}


def _memory(metrics: str) -> int:
    line = next(line for line in metrics.splitlines() if line.startswith(_MEMORY))
    return int(float(line.removeprefix(_MEMORY)))


if __name__ == "__main__":
    main()
