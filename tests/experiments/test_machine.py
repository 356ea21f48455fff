"""What a process took: its memory and its time, as the system counts them."""

import sys
import types

from experiments import machine


def test_the_most_memory_is_that_of_the_process_or_as_the_system_counts_it(monkeypatch):
    monkeypatch.setattr(machine, "_read_proc", lambda name: "VmPeak:\t  9 kB\nVmHWM:\t  2560 kB\n")
    assert (machine.peak_mib(), machine.seconds_since_start()) == (2.5, None)
    usage = types.SimpleNamespace(ru_maxrss=3 * 2**20)
    monkeypatch.setattr(machine, "_read_proc", lambda name: "")
    monkeypatch.setattr(machine.resource, "getrusage", lambda who: usage)
    assert machine.peak_mib() == (3.0 if sys.platform == "darwin" else 3072.0)
