"""Parsing on all cores: formulas in, columns of trees out; what hangs or crashes costs itself only.

Each worker is a process of its own that a thread of this one feeds chunk by chunk and watches. A
formula that takes too long, and one that ends its process, is rejected, and the process replaced.
"""

import collections
import contextlib
import dataclasses
import hashlib
import importlib.metadata
import inspect
import itertools
import multiprocessing
import os
import queue
import signal
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from gcl_jax.formulas import parse_both
from gcl_jax.formulas.trees import Tree
from retrieval_jax.errors import InputError
from retrieval_jax.processes import available_cores, limit_memory

CHUNK = 256
"""Formulas that go to a worker at a time."""

_LIBRARIES = ("latex2mathml", "lxml", "math-core")
_CHUNKS_AHEAD = 4
_WORKER_BYTES = 4 << 30
_LOOK_EVERY = 0.25

Parse: TypeAlias = Callable[[str], tuple[Tree, Tree]]
"""Layout tree and operator tree of a formula; must be importable by name."""


@dataclasses.dataclass(frozen=True)
class ParsingOptions:
    """How a source is parsed.

    Attributes:
        processes: how many parse; None = one per available core.
        seconds: what a formula may take.
        parse: what parses a formula.
        progress: draw a progress bar, and say what was read.
    """

    processes: int | None = None
    seconds: float = 10.0
    parse: Parse = parse_both
    progress: bool = True


DEFAULT_OPTIONS = ParsingOptions()


class Columns(NamedTuple):
    """A tree as text and bytes, cheap to send and to store.

    Attributes:
        labels: of the nodes, a line each.
        parents: int32 in the machine's byte order.
        edges: labels of the edges from the parents, a line each.
    """

    labels: str
    parents: bytes
    edges: str


class Parsed(NamedTuple):
    """A formula's trees."""

    slt: Columns
    opt: Columns


Outcome: TypeAlias = Parsed | str
"""What became of a formula: its trees, or why it has none."""


def columns_of(tree: Tree) -> Columns:
    """The columns of a tree, whose labels hold no line breaks."""
    labels = "\n".join(tree.labels)
    if labels.count("\n") >= len(tree.labels):
        labels = "\n".join(label.replace("\n", " ") for label in tree.labels)
    return Columns(labels, array("i", tree.parents).tobytes(), "\n".join(tree.edge_labels))


def parser_fingerprint(parse: Parse) -> str:
    """Tells versions of a parser apart: the sources of its package, the libraries it may use."""
    digest = hashlib.sha256(parse.__qualname__.encode())
    for path in sorted(Path(inspect.getfile(parse)).parent.glob("*.py")):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    for library in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f"{library} {importlib.metadata.version(library)}\n".encode())
    return digest.hexdigest()[:12]


class ParserPool:
    """Worker processes that parse; a context manager.

    Args:
        processes: how many; None = one per available core.
        seconds: what a formula may take.
        parse: what they do.

    Raises:
        InputError: no process, or no time.
    """

    def __init__(
        self, processes: int | None = None, seconds: float = 10.0, parse: Parse = parse_both
    ) -> None:
        self._processes = available_cores() if processes is None else processes
        if self._processes < 1 or seconds <= 0:
            raise InputError(
                f"{self._processes} processes, {seconds} seconds for a formula",
                "Give one or more processes, and some time.",
            )
        self._seconds, self._parse = seconds, parse
        self._workers: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._all: list[_Worker] = []
        self._threads = ThreadPoolExecutor(self._processes)

    def parse(self, formulas: Iterable[str]) -> Iterator[Outcome]:
        """Parses formulas in bounded memory; outcomes come in the order of the formulas."""
        chunks = iter(formulas)
        pending: collections.deque[Future[list[Outcome]]] = collections.deque()
        for chunk in iter(lambda: list(itertools.islice(chunks, CHUNK)), []):
            pending.append(self._threads.submit(self._parse_chunk, chunk))
            if len(pending) >= _CHUNKS_AHEAD * self._processes:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()

    def _parse_chunk(self, chunk: Sequence[str]) -> list[Outcome]:
        worker = self._workers.get()
        try:
            return worker.parse(chunk)
        finally:
            self._workers.put(worker)

    def __enter__(self) -> "ParserPool":
        """Starts the processes."""
        for _ in range(self._processes):
            worker = _Worker(self._parse, self._seconds)
            self._all.append(worker)
            self._workers.put(worker)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """Ends them."""
        self._threads.shutdown(wait=error is None, cancel_futures=True)
        for worker in self._all:
            worker.stop()
        self._threads.shutdown()


class _StoppedError(Exception):
    """A worker's process ended, or was ended, at a formula of its chunk."""

    def __init__(self, at: int, reason: str) -> None:
        self.at, self.reason = at, reason


class _Worker:
    """A process that parses chunks, started anew where it ends."""

    def __init__(self, parse: Parse, seconds: float) -> None:
        self._parse, self._seconds = parse, seconds
        self._is_stopped = False
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        # Which formula of the chunk it is at; -1 until it has a chunk.
        self._at = context.RawValue("q", -1)
        self._process = context.Process(
            target=_work, args=(theirs, self._at, self._parse), daemon=True
        )
        self._process.start()
        theirs.close()

    def parse(self, formulas: Sequence[str]) -> list[Outcome]:
        """What becomes of some formulas."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(formulas):
            rest = formulas[len(outcomes) :]
            try:
                outcomes += self._attempt(rest)
            except _StoppedError as stopped:
                if self._is_stopped:
                    raise
                self._restart()
                # Those before it were parsed, and are lost with the process.
                outcomes += self.parse(rest[: stopped.at])
                outcomes.append(stopped.reason)
        return outcomes

    def _attempt(self, formulas: Sequence[str]) -> list[Outcome]:
        self._at.value = -1
        try:
            self._connection.send(formulas)
            at, since = -1, time.monotonic()
            while not self._connection.poll(_LOOK_EVERY):
                if self._at.value != at:
                    at, since = self._at.value, time.monotonic()
                elif at >= 0 and time.monotonic() - since > self._seconds:
                    raise _StoppedError(at, f"not parsed within {self._seconds:g} seconds")
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join(1)
            at = self._at.value
            if at < 0:
                raise InputError(
                    "A parsing process ended before it parsed anything (exit code "
                    f"{self._process.exitcode}).",
                    "Start the command from a script or module with a main guard, and leave it "
                    "enough memory.",
                ) from None
            reason = f"the process that parsed it ended (exit code {self._process.exitcode})"
            raise _StoppedError(at, reason) from None

    def _restart(self) -> None:
        self._end()
        self._start()

    def stop(self) -> None:
        """Ends the process for good."""
        self._is_stopped = True
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()


def _work(connection: Connection, at: Any, parse: Parse) -> None:
    """What a worker's process does: chunks in, outcomes out, until the other end is closed."""
    # The parent ends it, also by ending itself in the middle of a formula that hangs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A formula that wants all memory ends its own process only.
    limit_memory(_WORKER_BYTES)
    with contextlib.suppress(EOFError, OSError):
        while True:
            outcomes = []
            for place, formula in enumerate(connection.recv()):
                at.value = place
                outcomes.append(_outcome(formula, parse))
            connection.send(outcomes)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _outcome(formula: str, parse: Parse) -> Outcome:
    try:
        slt, opt = parse(formula)
        return Parsed(columns_of(slt), columns_of(opt))
    except InputError as error:
        return error.problem
    except Exception as error:  # MemoryError among them: one formula must not cost the others.
        return f"{type(error).__name__}: {error}"[:300]
