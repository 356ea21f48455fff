"""Worker processes: order, memory, and formulas that hang, crash, or cannot be parsed."""

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gcl_jax.datasets.parsing import (
    CHUNK,
    Columns,
    Outcome,
    Parsed,
    ParserPool,
    columns_of,
    parser_fingerprint,
)
from gcl_jax.formulas import parse_both
from gcl_jax.formulas.trees import Tree
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_formulas import chain


def test_outcomes_come_in_order_with_the_reasons_of_what_failed() -> None:
    formulas = [f"x{i}" for i in range(3 * CHUNK)]
    formulas[5], formulas[CHUNK + 1] = "E", "B"
    with ParserPool(2, parse=chain) as pool:
        outcomes = list(pool.parse(formulas))
        assert list(pool.parse([])) == []
    assert outcomes[5] == "'E' is wrong"
    assert outcomes[CHUNK + 1] == "ZeroDivisionError: a bug"
    for formula, outcome in zip(formulas, outcomes, strict=True):
        if formula not in "EB":
            assert outcome == Parsed(*map(columns_of, chain(formula)))


def test_what_hangs_or_kills_its_process_costs_itself_only() -> None:
    formulas = ["a", "H", "b", "K", "K", "c", "E"]
    with ParserPool(1, seconds=2.0, parse=chain) as pool:
        start = time.monotonic()
        outcomes = list(pool.parse(formulas))
        assert time.monotonic() - start < 60
        # The pool still works.
        assert list(pool.parse(["d"])) == [Parsed(*map(columns_of, chain("d")))]
    assert [isinstance(outcome, Parsed) for outcome in outcomes] == [
        formula in "abc" for formula in formulas
    ]
    assert outcomes[1] == "not parsed within 2 seconds"
    assert outcomes[3] == outcomes[4] == "the process that parsed it ended (exit code -9)"


def test_an_endless_input_is_read_no_further_than_needed() -> None:
    read = itertools.count()
    formulas = (f"x{next(read)}" for _ in itertools.count())
    with ParserPool(1, parse=chain) as pool:
        assert len(list(itertools.islice(pool.parse(formulas), 3))) == 3
    assert next(read) <= 4 * CHUNK


def test_the_pool_ends_its_processes_when_its_user_fails() -> None:
    stopped = []

    def read(outcomes: Iterator[Outcome]) -> None:
        try:
            next(outcomes)
        except Exception as error:
            stopped.append(error)

    with pytest.raises(KeyError), ParserPool(1, seconds=3600, parse=chain) as pool:
        reader = threading.Thread(target=read, args=(pool.parse(["a", *["H"] * 5 * CHUNK]),))
        reader.start()
        while pool._all[0]._at.value < 1:
            time.sleep(0.1)
        raise KeyError
    reader.join(30)
    assert len(stopped) == 1
    assert not pool._all[0]._process.is_alive()


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "from gcl_jax.datasets.parsing import ParserPool\n"
        "from tests.gcl_jax.toy_formulas import chain\n"
        "if __name__ == '__main__':\n"
        "    with ParserPool(1, seconds=3600, parse=chain) as pool:\n"
        "        assert len(list(pool.parse(['a']))) == 1\n"
        "        print(pool._all[0]._process.pid, flush=True)\n"
        "        list(pool.parse(['H']))\n"
    )
    folders = str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    parent = subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    time.sleep(0.5)
    os.kill(worker, 0)
    parent.kill()
    parent.communicate()
    for _ in range(100):
        if not _is_running(worker):
            return
        time.sleep(0.1)
    raise AssertionError("the worker outlived its parent")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_parsers_are_told_apart() -> None:
    assert parser_fingerprint(chain) == parser_fingerprint(chain)
    assert len({parser_fingerprint(chain), parser_fingerprint(parse_both)}) == 2


def test_columns() -> None:
    tree = Tree("slt", ("V!x", "T!a\nb"), (-1, 0), ("", "n"))
    columns = columns_of(tree)
    assert columns == Columns("V!x\nT!a b", np.array([-1, 0], np.int32).tobytes(), "\nn")


@pytest.mark.parametrize("settings", [{"processes": 0}, {"seconds": 0}])
def test_settings_are_checked(settings) -> None:
    with pytest.raises(InputError):
        ParserPool(**settings)
