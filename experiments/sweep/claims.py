"""Claims: of several launchers on one folder, one runs a cell.

A claim is a file with its owner; a thread of the owner touches it every few seconds, so that one
which was left by a killed process, or by a machine that is gone, is seen to be stale. Claims are
taken under a lock of the operating system, which ends with its process; it works on local disks and
on NFS. A process whose claim was taken by another ends itself. Ages are read against the file
system's own clock, as those of machines differ.
"""

import fcntl
import json
import os
import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CLAIM = "claim.json"
HEARTBEAT_S = 10.0
STALE_S = 120.0


class Claim:
    """The right to run a cell, kept alive by a thread; a context manager.

    Args:
        folder: of the cell.
        owner: as `take` wrote it.
        heartbeat_s: seconds between two signs of life.
    """

    def __init__(self, folder: Path, owner: dict[str, Any], heartbeat_s: float) -> None:
        self._folder, self._owner = folder, owner
        self._stop, self.lost = threading.Event(), False
        self._thread = threading.Thread(target=self._beat, args=(heartbeat_s,), daemon=True)
        self._thread.start()

    def _beat(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            with suppress(OSError):  # a full or absent disk: perhaps the next time
                self.check()
            if self.lost:  # training saves, then ends; the other one goes on
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def check(self) -> None:
        """Gives a sign of life; notes in `lost` that the claim is another's, or gone.

        Raises:
            OSError: it cannot be read or touched now, which says nothing of whose it is.
        """
        with _locked(self._folder):
            if _owner(self._folder) == self._owner:
                os.utime(self._folder / CLAIM)
            else:
                self.lost = True

    def release(self) -> None:
        """Gives the claim back, if it is still ours."""
        self._stop.set()
        self._thread.join()
        with suppress(OSError), _locked(self._folder):  # what is left is stale soon
            if _owner(self._folder) == self._owner:
                (self._folder / CLAIM).unlink()

    def __enter__(self) -> "Claim":
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Releases the claim."""
        self.release()


def take(folder: Path, heartbeat_s: float = HEARTBEAT_S, stale_s: float = STALE_S) -> Claim | None:
    """Claims a cell's folder; None if a living process has it.

    Args:
        folder: of the cell.
        heartbeat_s: seconds between two signs of life.
        stale_s: without one for so long, a claim is as good as none.
    """
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "id": uuid.uuid4().hex}
    with _locked(folder):
        if is_claimed(folder, stale_s):
            return None
        partial = folder / f"{CLAIM}.{owner['id']}"
        partial.write_text(json.dumps(owner), encoding="utf-8")
        partial.replace(folder / CLAIM)
    return Claim(folder, owner, heartbeat_s)


def is_claimed(folder: Path, stale_s: float = STALE_S) -> bool:
    """Whether a living process has the cell: a fresh claim whose process, if it is of this
    machine, is there.
    """
    try:
        owner = _owner(folder)
    except OSError:  # rather wait than run it twice
        return True
    if owner is None:
        return False
    if owner.get("host") == socket.gethostname() and not _is_running(int(owner["pid"])):
        return False
    with suppress(FileNotFoundError):
        return _now(folder) - (folder / CLAIM).stat().st_mtime < stale_s
    return False


def _owner(folder: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, ValueError):
        return json.loads((folder / CLAIM).read_text(encoding="utf-8"))
    return None


def _is_running(pid: int) -> bool:
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def _now(folder: Path) -> float:
    """The time by the clock of the file system."""
    probe = folder / f".clock.{uuid.uuid4().hex}"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
