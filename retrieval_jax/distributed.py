"""Several processes that train as one: their start, and what they tell each other.

A module is run as one of them by `python -m retrieval_jax.distributed MODULE ARGUMENTS`. Under
Slurm, on a TPU slice and on Kubernetes they find each other; elsewhere the options `--coordinator
HOST:PORT --processes N --process I` before the module say how. Process 0 alone prints, and writes
logs, metrics and results; all write their parts of checkpoints. A process that dies ends the others
in bounded time, with a message.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from retrieval_jax.errors import InputError, one_screen_errors

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class DistributedConfig:
    """How processes find each other; what is None is found out from the cluster.

    Attributes:
        coordinator: host:port at which process 0 listens.
        processes: how many there are.
        process: the number of this one, from 0.
        heartbeat: seconds of silence after which a process counts as dead and the others end.
        start: seconds within which all must have come.
    """

    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None
    heartbeat: int = 60
    start: int = 300

    def __post_init__(self) -> None:
        """Refuses half an answer.

        Raises:
            InputError: some of the three are given, but not all; a number out of range.
        """
        given = (self.coordinator, self.processes, self.process)
        if given == (None, None, None):
            return
        if None in given:
            raise InputError(
                "coordinator, processes and process are given together or not at all",
                "Give --coordinator HOST:PORT --processes N --process I, I from 0 to N - 1.",
            )
        assert self.processes is not None
        assert self.process is not None
        assert self.coordinator is not None
        if not 0 <= self.process < self.processes:
            raise InputError(
                f"process {self.process} of {self.processes}", "Number them from 0 to N - 1."
            )
        if not self.coordinator.rpartition(":")[2].isdigit():
            raise InputError(
                f"coordinator {self.coordinator!r} names no port", "Give host:port of process 0."
            )


def start(config: DistributedConfig) -> bool:
    """Joins this process with the others, before anything is computed.

    Returns:
        Whether there are others: False where nothing was given and no cluster is found.

    Raises:
        InputError: the others did not come in time.
    """
    # Its handler of SIGTERM would take the signal from `interruption.StopRequest`.
    jax.config.update("jax_enable_preemption_service", False)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    explicit = config.coordinator is not None
    if explicit:
        _await_coordinator(config)
    try:
        jax.distributed.initialize(
            config.coordinator,
            config.processes,
            config.process,
            cluster_detection_method="deactivate" if explicit else None,
            initialization_timeout=config.start,
            heartbeat_timeout_seconds=config.heartbeat,
            shutdown_timeout_seconds=config.heartbeat,
        )
    except ValueError as error:
        if not explicit and "coordinator_address" in str(error):
            return False
        raise InputError(f"no start of several processes: {error}", "See docs/launch.md.") from None
    except RuntimeError as error:
        raise InputError(
            f"the processes did not find each other: {str(error)[:500]}",
            "Did all of them start, with the same numbers?",
        ) from error
    return jax.process_count() > 1


def _await_coordinator(config: DistributedConfig) -> None:
    """Waits until process 0 listens; JAX's own wait would end without telling what was missing."""
    address, own = str(config.coordinator), f"process {config.process} of {config.processes}"
    print(f"{own}: waiting for the others, at most {config.start} s", file=sys.stderr, flush=True)
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + config.start
    while config.process != 0:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise InputError(
                    f"{own} found no process 0 at {address}: {error}",
                    "Is it running, and its port free and reachable from here?",
                ) from error
            time.sleep(0.2)


def is_main() -> bool:
    """Whether this process writes what one alone writes."""
    return jax.process_index() == 0


def spans_processes(mesh: Mesh) -> bool:
    """Whether the devices of `mesh` are of several processes."""
    return mesh.is_multi_process


def broadcast(value: T, source: int = 0) -> T:
    """The `value`, which JSON can hold, of process `source` on all; each must call it."""
    if jax.process_count() == 1:
        return value
    is_source = jax.process_index() == source
    content = json.dumps(value).encode() if is_source else b""
    length: Any = multihost_utils.broadcast_one_to_all(np.int32(len(content)), is_source)
    # Of few lengths, so that few programs are compiled; JSON does not mind blanks.
    size = max(1 << (int(length) - 1).bit_length(), 256)
    padded = np.frombuffer(content.ljust(size), np.uint8)
    received: Any = multihost_utils.broadcast_one_to_all(padded, is_source)
    return json.loads(np.asarray(received).tobytes())


def broadcast_array(array: np.ndarray) -> np.ndarray:
    """The `array` of process 0 on all; each must call it, with one of that shape and dtype."""
    if jax.process_count() == 1:
        return array
    return np.asarray(multihost_utils.broadcast_one_to_all(array))


def on_main(work: Callable[[], object]) -> None:
    """Runs `work` on process 0 while the others wait; its `InputError` is raised on all."""
    failed: list[str] | None = None
    if is_main():
        try:
            work()
        except InputError as error:
            failed = [error.problem, error.remedy]
    failed = broadcast(failed)
    if failed is not None:
        raise InputError(*failed)


def main_first(work: Callable[[], T]) -> T:
    """Runs `work`, which leaves something on the disk, on process 0 before it runs on the others.

    Raises:
        InputError: from `work`.
    """
    results: list[T] = []
    on_main(lambda: results.append(work()))
    return results[0] if results else work()


def local_copy(tree: Any, mesh: Mesh) -> Any:
    """Whole arrays on the first device of this process, of arrays placed on `mesh`.

    For evaluations, which each process does alone and which take all parameters. What every device
    holds already is not copied. The rest is gathered, one array after the other: besides those of
    the result no device holds more than one whole.
    """
    gather = _gather(mesh)

    def whole(array: jax.Array) -> jax.Array:
        array = array if array.is_fully_replicated else gather(array)
        return array.addressable_data(0)

    return jax.tree.map(whole, tree)


@functools.lru_cache(maxsize=8)
def _gather(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
    """Copies an array whole to every device; kept, so that each shape is compiled once."""
    return jax.jit(lambda array: array, out_shardings=NamedSharding(mesh, PartitionSpec()))


class StopAgreement:
    """Whether some process was told to stop, so that all learn it after the same step.

    What one knows reaches all by a collective of each step, read `DELAY` steps later: the loop
    does not wait for the devices, only that far ahead of them it does not run.

    Args:
        mesh: where the training runs; of one process, nothing is exchanged.
    """

    DELAY = 2

    def __init__(self, mesh: Mesh) -> None:
        self._sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        self._max = jax.jit(jnp.max, out_shardings=NamedSharding(mesh, PartitionSpec()))
        self._is_alone = not spans_processes(mesh)
        self._devices = len(mesh.local_devices)
        self._pending: deque[jax.Array] = deque()

    def __call__(self, received: signal.Signals | None) -> signal.Signals | None:
        """Takes what this process received so far, once a step; gives what counts for all."""
        if self._is_alone:
            return received
        self._pending.append(self._exchanged(received))
        if len(self._pending) <= self.DELAY:
            return None
        return _signal(self._pending.popleft())

    def at_end(self, received: signal.Signals | None) -> signal.Signals | None:
        """As a call, after the last step: waits for what all have received until now."""
        return received if self._is_alone else _signal(self._exchanged(received))

    def _exchanged(self, received: signal.Signals | None) -> jax.Array:
        own = np.full(self._devices, received or 0, np.int32)
        return self._max(jax.make_array_from_process_local_data(self._sharding, own))


def _signal(number: jax.Array) -> signal.Signals | None:
    return signal.Signals(int(number)) if int(number) else None


def main(args: Sequence[str] | None = None) -> None:
    """Runs a module as one of several processes."""
    module, module_args, joined = _join(args)
    sys.argv = [module, *module_args]
    with contextlib.ExitStack() as stack:
        if joined and not is_main():
            silent = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(silent))
        if joined:
            stack.enter_context(_ending_at_once())
        runpy.run_module(module, run_name="__main__", alter_sys=True)


@one_screen_errors
def _join(args: Sequence[str] | None) -> tuple[str, list[str], bool]:
    """Starts as the command line says; gives the module, its arguments, whether others are there.

    Raises:
        InputError: as `start`.
    """
    parser = argparse.ArgumentParser("python -m retrieval_jax.distributed", allow_abbrev=False)
    parser.add_argument("--coordinator", metavar="HOST:PORT", help="where process 0 listens")
    parser.add_argument("--processes", type=int, metavar="N", help="how many there are")
    parser.add_argument("--process", type=int, metavar="I", help="the number of this one, from 0")
    for field in ("heartbeat", "start"):
        default = getattr(DistributedConfig, field)
        parser.add_argument(f"--{field}", type=int, default=default, metavar="SECONDS")
    parser.add_argument("module", help="for example experiments.docent.pretrain")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="of the module")
    options = vars(parser.parse_args(args))
    module, module_args = options.pop("module"), options.pop("args")
    return module, module_args, start(DistributedConfig(**options))


@contextlib.contextmanager
def _ending_at_once() -> Iterator[None]:
    """Ends the process on an error without waiting for the others, so that they end as well."""
    try:
        yield
    except Exception:
        traceback.print_exc()
        print(
            f"process {jax.process_index()} of {jax.process_count()} ended by this error. If it is"
            " of a connection, another one died: see its log. Once the cause is removed, the same"
            " command goes on from the last checkpoint.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)


if __name__ == "__main__":
    main()
