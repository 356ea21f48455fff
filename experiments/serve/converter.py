"""Formulas to markup and trees, in worker processes that may hang or crash without harm."""

import asyncio
import contextlib
import json
import os
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

from experiments.serve.limits import Limits
from experiments.serve.problems import Problem, busy
from gcl_jax.formulas.trees import Tree

_KEPT = 4_096
_LONGEST_REPLY = 1 << 24
_START_SECONDS = 60.0
_ROOT = str(Path(__file__).parents[2])


class TreeView(NamedTuple):
    """A tree, and what is shown of it.

    Attributes:
        tree: the tree.
        svg: its picture; "" of a large one.
        text: a node a line; "" of a large one.
    """

    tree: Tree
    svg: str
    text: str


class Converted(NamedTuple):
    """A formula that was read.

    Attributes:
        mathml: for a page; "" where it is too large to show.
        slt: its layout tree.
        opt: its operator tree.
    """

    mathml: str
    slt: TreeView
    opt: TreeView


class Converter:
    """Worker processes of `worker`, started by `warm_up` or when first needed, and anew when ended.

    Args:
        limits: of formulas.
        processes: how many.
    """

    def __init__(self, limits: Limits, processes: int = 2) -> None:
        self._limits = limits
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        self._waiting = 0
        self._workers = [_Worker(limits.parse_seconds) for _ in range(processes)]
        for worker in self._workers:
            self._idle.put_nowait(worker)
        self._rendered: OrderedDict[str, str] = OrderedDict()

    async def read(self, formula: str) -> Converted:
        """Reads a query.

        Args:
            formula: LaTeX or MathML.

        Raises:
            Problem: it is too long, too deep, takes too long or cannot be read, with the position;
                or too many wait.
        """
        limits = self._limits
        self._check_room()
        if len(formula) > limits.length:
            raise Problem(
                422,
                "formula-too-long",
                f"The formula has {len(formula)} characters, more than {limits.length}.",
                "Give a shorter formula, or a part of it.",
                limits.length,
            )
        request = {"task": "trees", "depth": limits.depth, "nodes": limits.nodes}
        reply = await self._ask(request | {"formula": formula})
        if "problem" in reply:
            reason = reply["problem"]
            raise Problem(
                422, "formula", reason[:1].upper() + reason[1:], reply["remedy"], reply["position"]
            )
        return Converted(reply["mathml"], _view("slt", reply["slt"]), _view("opt", reply["opt"]))

    async def render(self, formula: str) -> str:
        """A formula of a collection as MathML for a page; "" where it cannot be shown.

        Raises:
            Problem: too many wait, or the process does not start.
        """
        if formula in self._rendered:
            self._rendered.move_to_end(formula)
            return self._rendered[formula]
        self._check_room()
        try:
            reply = await self._ask({"task": "markup", "formula": formula})
        except Problem as problem:
            if problem.status != 422:
                raise
            return ""  # not kept: a process has ended, perhaps of something else
        markup = reply.get("mathml", "")
        self._rendered[formula] = markup
        if len(self._rendered) > _KEPT:
            self._rendered.popitem(last=False)
        return markup

    def _check_room(self) -> None:
        """Refuses a formula that would have to wait with too many others."""
        if self._idle.empty() and self._waiting >= self._limits.waiting:
            raise busy()

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._waiting += 1
        try:
            worker = await self._idle.get()
        finally:
            self._waiting -= 1
        try:
            return await worker.ask(request)
        finally:
            self._idle.put_nowait(worker)

    async def warm_up(self) -> None:
        """Starts all processes, which takes longer than a query may.

        Raises:
            Problem: one does not start.
        """
        request = {"task": "markup", "formula": "x"}
        await asyncio.gather(*(self._ask(request) for _ in self._workers))

    async def close(self) -> None:
        """Ends the processes."""
        for worker in self._workers:
            await worker.end()


class _Worker:
    """A process, and how to talk with it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Asks once: a formula that has ended a process gets no other to end."""
        if self._starting is not None and self._starting.done() and not self._is_alive():
            await self.end()  # ended since, of something else
        self._starting = self._starting or asyncio.create_task(self._start())
        # A start may take longer than a query may, whose end is not that of the start.
        process = await asyncio.shield(self._starting)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()
            # Its own alarm comes first.
            line = await asyncio.wait_for(process.stdout.readline(), self._seconds + 1.0)
        except BaseException as error:  # Cancelled too: its reply must not meet the next question.
            await self.end()
            if not isinstance(error, OSError | ValueError | TimeoutError):
                raise
            line = b""
        if line.endswith(b"\n"):
            return json.loads(line)
        await self.end()
        raise Problem(
            422,
            "formula-not-read",
            f"The formula could not be read within {self._seconds:g} seconds.",
            "Give a simpler formula.",
        )

    def _is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def _start(self) -> asyncio.subprocess.Process:
        paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "experiments.serve.worker",
            str(self._seconds),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_REPLY,
            close_fds=False,  # then it is spawned, not forked from a process with many threads
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        )
        assert process.stdout is not None
        with contextlib.suppress(TimeoutError):
            if await asyncio.wait_for(process.stdout.readline(), _START_SECONDS):
                return process
        await _kill(process)
        raise Problem(
            503, "not-started", "The process that reads formulas did not start.", retry_after=5
        )

    async def end(self) -> None:
        """Ends the process, if there is one."""
        starting, self._starting = self._starting, None
        if starting is not None and not starting.done():
            starting.cancel()
            await asyncio.wait([starting])
        process, self._process = self._process, None
        if process is not None:
            await _kill(process)


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _view(layout: Any, reply: dict[str, Any]) -> TreeView:
    tree = Tree(layout, tuple(reply["labels"]), tuple(reply["parents"]), tuple(reply["edges"]))
    return TreeView(tree, reply["svg"], reply["text"])
