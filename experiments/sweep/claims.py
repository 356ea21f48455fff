"""Claims: of several launchers on one folder, one runs a cell.

A claim is a file with its owner, on which the owner holds a lock of the operating system; a thread
touches it every few seconds. Who finds a claim asks:

1. Is it of the same machine, and is its lock free? Then its process is gone. Process numbers tell
   nothing: containers of one machine have the same, and a host name too.
2. Is it of an earlier life of this same Slurm job? Slurm runs a job once at a time, so that life is
   over.
3. Was it touched lately? Else it is stale: its machine is gone, or stands still.

Claims are taken under another lock, on local disks and on NFS. A process whose claim was taken by
another ends itself. Ages are read against the file system's own clock, as those of machines differ.
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
from typing import Any, TextIO

CLAIM = "claim.json"
HEARTBEAT_S = 10.0
STALE_S = 120.0


class Claim:
    """The right to run a cell, kept alive by a thread; a context manager.

    Args:
        folder: of the cell.
        owner: as `take` wrote it.
        file: the claim, locked while it is open.
        heartbeat_s: seconds between two signs of life.
    """

    def __init__(
        self, folder: Path, owner: dict[str, Any], file: TextIO, heartbeat_s: float
    ) -> None:
        self._folder, self._owner, self._file = folder, owner, file
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
        self._file.close()

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
    owner = {
        "host": socket.gethostname(),  # this and the next for people only
        "pid": os.getpid(),
        "machine": _machine(),
        "slurm": _slurm_job(),
        "id": uuid.uuid4().hex,
    }
    with _locked(folder):
        if is_claimed(folder, stale_s):
            return None
        partial = folder / f"{CLAIM}.{owner['id']}"
        file = partial.open("w", encoding="utf-8")
        # Locked before anybody can see it; the lock is the file's, whatever its name.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(json.dumps(owner))
        file.flush()
        partial.replace(folder / CLAIM)
    return Claim(folder, owner, file, heartbeat_s)


def is_claimed(folder: Path, stale_s: float = STALE_S) -> bool:
    """Whether a living process has the cell, as the module says it."""
    try:
        owner = _owner(folder)
        if owner is None:
            return False
        if owner.get("machine") == _machine() and not _is_locked(folder):
            return False
        if _is_earlier_life(owner.get("slurm"), _slurm_job()):
            return False
        return _now(folder) - (folder / CLAIM).stat().st_mtime < stale_s
    except FileNotFoundError:
        return False
    except OSError:  # rather wait than run it twice
        return True


def _owner(folder: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, ValueError):
        return json.loads((folder / CLAIM).read_text(encoding="utf-8"))
    return None


def _is_locked(folder: Path) -> bool:
    """Whether a process holds the claim's lock.

    Raises:
        OSError: it cannot be told.
    """
    with (folder / CLAIM).open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _machine() -> str:
    """What all containers of a machine share until it starts anew: the kernel's name for that."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def _slurm_job() -> dict[str, Any] | None:
    """The Slurm job that this process is of, and how often it was put back into the queue."""
    if "SLURM_JOB_ID" not in os.environ:
        return None
    job = [os.environ.get(f"SLURM_{name}", "") for name in ("CLUSTER_NAME", "JOB_ID")]
    return {"job": job, "restarts": int(os.environ.get("SLURM_RESTART_COUNT", "0"))}


def _is_earlier_life(before: dict[str, Any] | None, now: dict[str, Any] | None) -> bool:
    """Whether both are one job, put into the queue again in between."""
    if before is None or now is None:
        return False
    return before["job"] == now["job"] and before["restarts"] < now["restarts"]


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
