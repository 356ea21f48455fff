"""Claims: one living owner, whatever containers, machines and queues do."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from experiments.sweep import claims

HOLDER = """
import pathlib, sys, time
from experiments.sweep import claims
claims.take(pathlib.Path(sys.argv[1]), heartbeat_s=1000)
print("taken", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that has claimed the folder, and gives no sign of life for long."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        yield process
        process.kill()


def make_old(folder, seconds=2 * claims.STALE_S):
    old = time.time() - seconds
    os.utime(folder / claims.CLAIM, (old, old))


def test_a_claim_has_one_living_owner(tmp_path):
    with claims.take(tmp_path) as claim:
        assert claims.take(tmp_path) is None
        assert claims.is_claimed(tmp_path)
        # Without a sign of life it is stale, and another takes it; the first one notes its loss.
        make_old(tmp_path)
        assert not claims.is_claimed(tmp_path)
        with claims.take(tmp_path):
            claim.check()
            assert claim.lost
        assert not claims.is_claimed(tmp_path)
    assert claims.take(tmp_path, heartbeat_s=100).check() is None


def test_who_has_lost_a_claim_is_told_to_stop_but_not_by_a_bad_disk(tmp_path, monkeypatch):
    told = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: told.set())
    try:
        with claims.take(tmp_path, heartbeat_s=0.01) as claim:

            def unreadable(folder):
                raise PermissionError

            with monkeypatch.context() as patch:
                patch.setattr(claims, "_owner", unreadable)
                time.sleep(0.05)
                assert claims.is_claimed(tmp_path)
            assert not claim.lost and not told.is_set()
            (tmp_path / claims.CLAIM).write_text("{}")
            assert told.wait(5) and claim.lost
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_heartbeat_keeps_a_claim_fresh(tmp_path):
    with claims.take(tmp_path, heartbeat_s=0.01):
        make_old(tmp_path)
        for _ in range(200):
            if claims.is_claimed(tmp_path):
                break
            time.sleep(0.01)
        assert claims.is_claimed(tmp_path)


def test_a_claim_of_this_machine_lives_as_long_as_its_process(tmp_path, holder, monkeypatch):
    # In another container: the process has no such number there, or it is another's.
    monkeypatch.setattr(os, "kill", lambda pid, number: pytest.fail("asked for a process"))
    assert claims.is_claimed(tmp_path)
    assert claims.take(tmp_path) is None
    monkeypatch.undo()
    holder.kill()
    holder.wait()
    assert not claims.is_claimed(tmp_path)  # at once, though it is fresh
    with claims.take(tmp_path):
        assert claims.is_claimed(tmp_path)


def test_a_claim_of_another_machine_lives_until_it_is_stale(tmp_path, holder, monkeypatch):
    holder.kill()
    holder.wait()
    monkeypatch.setattr(claims, "_machine", lambda: "another")
    assert claims.is_claimed(tmp_path)
    make_old(tmp_path)
    assert not claims.is_claimed(tmp_path)


def test_where_locks_cannot_be_asked_for_a_claim_lives(tmp_path, monkeypatch):
    with claims.take(tmp_path):

        def without_locks(folder):
            raise OSError(37, "No locks available")

        monkeypatch.setattr(claims, "_is_locked", without_locks)
        assert claims.is_claimed(tmp_path)


def test_a_job_that_slurm_runs_again_takes_over_its_own_claim_only(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "_machine", lambda: "node1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "c")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    with claims.take(tmp_path) as first:
        monkeypatch.setattr(claims, "_machine", lambda: "node2")
        assert claims.is_claimed(tmp_path)  # another process of the same life, on another node
        monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
        monkeypatch.setenv("SLURM_JOB_ID", "8")
        assert claims.is_claimed(tmp_path)
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        with claims.take(tmp_path) as second:
            first.check()
            second.check()
            assert (first.lost, second.lost) == (True, False)
            owner = json.loads((tmp_path / claims.CLAIM).read_text())
            assert owner["slurm"] == {"job": ["c", "7"], "restarts": 1}
            assert claims.take(tmp_path) is None
