"""The command: it serves, and ends cleanly when it is told to."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

import gcl_jax
from experiments.serve.__main__ import Command, load, serve
from experiments.serve.formulas import load_formulas
from retrieval_jax.errors import InputError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_without_an_error_at_either_signal(number, capsys):
    import uvicorn

    async def app(scope, receive, send):
        raise AssertionError  # nobody asks

    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))

    def stop():
        deadline = time.monotonic() + 60
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    stopper = threading.Thread(target=stop)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stopper.start()
        serve(server, listening)
    stopper.join()
    assert "/health/ready" in capsys.readouterr().out


def test_it_ends_cleanly_at_ctrl_c(formula_index):
    run = Path(formula_index._searcher.store.location).parent
    command = [sys.executable, "-m", "experiments.serve", "--formulas", str(run)]
    command += ["--entities", "none", "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        killer = threading.Timer(200, server.kill)
        killer.start()
        try:
            assert server.stdout is not None
            url = next(line.split()[0] for line in server.stdout if line.startswith("http://"))
            with urllib.request.urlopen(f"{url}/health/live", timeout=60) as answer:
                assert answer.status == 200
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=60)
        finally:
            killer.cancel()
            server.kill()
    assert server.returncode == 0
    assert "Traceback" not in errors


def test_a_quickstart_that_is_not_finished_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "quickstart").mkdir(parents=True)
    with pytest.raises(InputError, match="nothing to serve"):
        load(Command(formulas="none"))
    assert "no entities: " in capsys.readouterr().out
    with pytest.raises(InputError, match="quickstart"):
        load(Command(formulas="none", entities="runs/quickstart"))


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


def test_the_share_of_layout_trees_that_training_chose_is_served(tmp_path, formula_index):
    run = shutil.copytree(Path(formula_index._searcher.store.location).parent, tmp_path / "run")
    (run / "results.json").write_text('{"slt_weight": 0.8}')
    with pytest.raises(InputError, match="was made by encoder"):  # with .5
        load(Command(formulas=str(run), entities="none"))
    load(Command(formulas=str(run), entities="none", slt_weight=0.5))
    (tmp_path / "f.txt").write_text("x^2")
    shutil.rmtree(run / "store")
    gcl_jax.index(tmp_path / "f.txt", run, run / "store", tmp_path / "data")
    for path in (run, run / "store"):
        load(Command(formulas=str(path), entities="none"))
