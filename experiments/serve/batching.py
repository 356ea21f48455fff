"""A queue to the device: queries that come together are computed together."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from experiments.serve.problems import Problem, busy

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Gathers queries for some milliseconds, or while the device is busy, and computes them.

    Args:
        compute: queries -> as many answers; runs in `executor`.
        executor: of one thread, since there is one device.
        batch: queries at a time.
        gather_ms: how long the first one waits for others.
        waiting: queries that may wait.
        observe: told the size of each batch.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Q]], Sequence[A]],
        executor: Executor,
        batch: int,
        gather_ms: float,
        waiting: int,
        observe: Callable[[int], object],
    ) -> None:
        self._compute, self._executor, self._observe = compute, executor, observe
        self._batch, self._gather = batch, gather_ms / 1000
        self._queue: asyncio.Queue[tuple[Q, asyncio.Future[A]]] = asyncio.Queue(waiting)
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Queries in the queue."""
        return self._queue.qsize()

    async def submit(self, query: Q) -> A:
        """The answer to a query.

        Raises:
            Problem: too many wait, or the server is being stopped.
        """
        if self._is_closed:
            raise Problem(503, "stopping", "The server is being stopped.", retry_after=5)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((query, future))
        except asyncio.QueueFull:
            raise busy() from None
        return await future

    async def close(self) -> None:
        """Answers what waits, and takes no more."""
        self._is_closed = True
        if self._task is not None:
            await self._queue.join()
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        while True:
            taken = await self._gathered()
            # Of a client that has gone, or waited too long, the future is cancelled.
            wanted = [(query, future) for query, future in taken if not future.done()]
            if wanted:
                await self._answer(wanted)
            for _ in taken:
                self._queue.task_done()

    async def _gathered(self) -> list[tuple[Q, asyncio.Future[A]]]:
        taken = [await self._queue.get()]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._gather
        while len(taken) < self._batch:
            try:
                taken.append(self._queue.get_nowait())
            except asyncio.QueueEmpty:
                left = deadline - loop.time()
                if left <= 0:
                    break
                await asyncio.sleep(min(left, 0.001))
        return taken

    async def _answer(self, wanted: list[tuple[Q, asyncio.Future[A]]]) -> None:
        self._observe(len(wanted))
        queries, futures = zip(*wanted, strict=True)
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._executor, self._compute, queries)
        except Exception as error:  # It is each client's, and the next batch may do better.
            for future in futures:
                if not future.done():
                    future.set_exception(error)
            return
        for future, found in zip(futures, answers, strict=True):
            if not future.done():
                future.set_result(found)
