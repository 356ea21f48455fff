"""The machine that an experiment runs on, and what its process took of it."""

import os
import platform
import re
import resource
import sys
from pathlib import Path


def hardware() -> str:
    """The processor, the cores that this process may use, and the memory, in words."""
    found = re.search(r"^model name\s*:\s*(.+)$", _read_proc("cpuinfo"), re.MULTILINE)
    name = found[1] if found else platform.processor() or platform.machine()
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cores} cores of {name}, {gib:.0f} GiB"


def seconds_since_start() -> float | None:
    """Wall time of this process so far, on Linux."""
    uptime = _read_proc("uptime").split()
    # The fields of `stat` after the command's name, which may hold spaces, in parentheses.
    fields = _read_proc("self/stat").rpartition(")")[2].split()
    if not uptime or len(fields) < 20:
        return None
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return round(float(uptime[0]) - started, 1)


def resident_mib(field: str, process: int | str = "self") -> float:
    """MiB that a process holds now (`VmRSS`) or held at most (`VmHWM`); 0 where nothing tells.

    Not `ru_maxrss`: a child's starts at what its parent held.
    """
    found = re.search(rf"^{field}:\s+(\d+) kB$", _read_proc(f"{process}/status"), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def peak_mib() -> float:
    """MiB that this process has held at most."""
    peak = resident_mib("VmHWM")
    if not peak:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak /= 2**20 if sys.platform == "darwin" else 2**10
    return round(peak, 1)


def _read_proc(name: str) -> str:
    try:
        return (Path("/proc") / name).read_text(encoding="utf-8")
    except OSError:
        return ""
