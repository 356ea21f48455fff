"""The command: it serves, and ends cleanly when it is told to."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from experiments.serve.__main__ import Command, load
from experiments.serve.formulas import load_formulas
from retrieval_jax.errors import InputError


def test_it_ends_cleanly_at_a_signal(formula_index):
    run = Path(formula_index._searcher.store.location).parent
    command = [sys.executable, "-m", "experiments.serve", "--formulas", str(run)]
    command += ["--entities", "none", "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        try:
            assert server.stdout is not None
            url = next(line.split()[0] for line in server.stdout if line.startswith("http://"))
            with urllib.request.urlopen(f"{url}/health/live", timeout=60) as answer:
                assert answer.status == 200
            server.send_signal(signal.SIGTERM)
            _, errors = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == 0
    assert "Traceback" not in errors


def test_what_cannot_be_served_is_said(tmp_path, formula_index):
    with pytest.raises(InputError, match="nothing to serve"):
        load(Command(formulas="none", entities="none"))
    with pytest.raises(InputError, match="neither a run folder nor the store"):
        load_formulas(tmp_path / "nowhere", 10)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="has no collection"):
        load_formulas(tmp_path, 10)
    store = Path(formula_index._searcher.store.location)
    assert len(load_formulas(store, 10)) == len(formula_index)
