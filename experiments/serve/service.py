"""What the server does, whatever asks for it: reading, encoding and searching, within limits."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from experiments.serve.batching import Batcher
from experiments.serve.converter import Converted, Converter
from experiments.serve.entities import EntityAnswer, EntityIndex, EntityQuery, FoundEntity
from experiments.serve.formulas import FormulaAnswer, FormulaIndex, FormulaQuery, Trees
from experiments.serve.limits import Limits
from experiments.serve.metrics import Metrics
from experiments.serve.problems import Problem

A = TypeVar("A")
Q = TypeVar("Q")

_log = logging.getLogger(__name__)


class FormulaHit(NamedTuple):
    """A formula that was found.

    Attributes:
        formula: LaTeX or MathML, as the collection has it.
        mathml: for a page; "" where it cannot be shown.
        score: of the encoder.
        sources: where it stands.
        about: a line on the first source, or "".
    """

    formula: str
    mathml: str
    score: float
    sources: tuple[str, ...]
    about: str


class Service:
    """Loaded models behind their queues; made before the server, warmed up and closed by it.

    Args:
        formulas: encoder and collection, or None.
        entities: ranker, or None.
        limits: of queries.
        processes: that read formulas.

    Attributes:
        formulas: as given.
        entities: as given.
        limits: as given.
        metrics: counters.
        starting: what is being compiled; "" once everything is.
        is_failed: whether the start has failed, so that nothing more will come.
    """

    def __init__(
        self,
        formulas: FormulaIndex | None,
        entities: EntityIndex | None,
        limits: Limits,
        processes: int = 2,
    ) -> None:
        self.formulas, self.entities, self.limits = formulas, entities, limits
        self.metrics = Metrics()
        self.starting, self.is_failed = "waiting to start", False
        self._converter = Converter(limits, processes)
        self._device = ThreadPoolExecutor(1, "device")
        self._formulas = self._entities = None
        if formulas is not None:
            self._formulas = self._batcher("formulas", formulas.compute)
        if entities is not None:
            self._entities = self._batcher("entities", entities.compute)

    def _batcher(self, name: str, compute: Callable[[Sequence[Q]], Sequence[A]]) -> Batcher[Q, A]:
        limits, metrics = self.limits, self.metrics
        batcher = Batcher(
            compute,
            self._device,
            limits.batch,
            limits.gather_ms,
            limits.waiting,
            metrics.batches.labels(name).observe,
        )
        metrics.waiting.labels(name).set_function(lambda: batcher.waiting)
        return batcher

    async def warm_up(self) -> None:
        """Compiles what queries need; the server is ready after it, or says that it failed."""
        try:
            await self._warm_up()
        except Exception:  # Whatever it is, nobody waits for this task.
            _log.exception("the start has failed at: %s", self.starting)
            self.is_failed = True

    async def _warm_up(self) -> None:
        loop = asyncio.get_running_loop()
        for index in filter(None, (self.formulas, self.entities)):
            steps = index.warm_up()
            while step := await loop.run_in_executor(self._device, next, steps, ""):
                self.starting = step
        self.starting = "processes that read formulas"
        await self._converter.warm_up()
        self.starting = ""
        self.metrics.ready.set(1)

    async def close(self) -> None:
        """Answers what was asked, then ends threads and processes."""
        for batcher in filter(None, (self._formulas, self._entities)):
            await batcher.close()
        await self._converter.close()
        self._device.shutdown(cancel_futures=True)

    def check_ready(self) -> None:
        """Refuses queries until all is compiled.

        Raises:
            Problem: not yet, or never, since the start has failed.
        """
        if self.is_failed:
            raise Problem(503, "failed", "The start has failed.", "See the log of the server.")
        if self.starting:
            raise Problem(503, "starting", f"Starting: {self.starting}.", retry_after=2)

    async def read(self, formula: str) -> Converted:
        """Reads a formula.

        Raises:
            Problem: it cannot be read; with the position.
        """
        async with self._timed():
            return await self._converter.read(formula)

    async def render(self, formula: str) -> str:
        """A formula as MathML for a page; "" where it cannot be shown."""
        async with self._timed():
            return await self._converter.render(formula)

    async def search_formulas(self, converted: Converted, trees: Trees, k: int) -> list[FormulaHit]:
        """Finds formulas; equal ones are one, with the sources of all.

        Raises:
            Problem: no formulas are served, not by these trees, more answers than allowed, too many
                queries, or no time left.
        """
        index = self._has_formulas(trees)
        self._check_answers(k)
        async with self._timed():
            found = await self._encoded(converted, trees)
            return await self._hits(index, found, k)

    async def _hits(self, index: FormulaIndex, found: FormulaAnswer, k: int) -> list[FormulaHit]:
        hits = []
        for row, score in zip(found.rows[:k].tolist(), found.scores[:k].tolist(), strict=True):
            formula, sources, about = index.stored(row)
            mathml = await self._converter.render(formula)
            hits.append(FormulaHit(formula, mathml, score, sources, about))
        return hits

    async def encode_formulas(self, formulas: Sequence[str], trees: Trees) -> np.ndarray:
        """Vectors of formulas as queries, float32 `[formulas, dim]`.

        Raises:
            Problem: as `read` and `search_formulas`.
        """
        self._has_formulas(trees)
        self._check_items(len(formulas))
        converted = []
        async with self._timed():
            for index, formula in enumerate(formulas):
                try:
                    converted.append(await self._converter.read(formula))
                except Problem as problem:
                    problem.index = index
                    raise
            found = await asyncio.gather(*(self._encoded(of, trees) for of in converted))
        return np.stack([answer.vector for answer in found])

    async def search_entities(self, text: str, k: int) -> tuple[FoundEntity, ...]:
        """Ranks entities for a text.

        Raises:
            Problem: no entities are served, an empty or too long text, more answers than allowed,
                too many queries, or no time left.
        """
        self._check_answers(k)
        async with self._timed():
            return (await self._ranked(text, k)).entities

    async def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, float32 `[texts, dim]`.

        Raises:
            Problem: as `search_entities`.
        """
        self._check_items(len(texts))
        async with self._timed():
            found = await asyncio.gather(*(self._ranked(of, 1, i) for i, of in enumerate(texts)))
        return np.stack([answer.vector for answer in found])

    def _has_formulas(self, trees: Trees) -> FormulaIndex:
        if self.formulas is None:
            raise Problem(404, "not-served", "No formulas are served here.")
        if trees not in self.formulas.trees:
            known = ", ".join(self.formulas.trees)
            raise Problem(
                422, "trees", f"The encoder does not read {trees} trees.", f"Ask: {known}."
            )
        return self.formulas

    async def _encoded(self, converted: Converted, trees: Trees) -> FormulaAnswer:
        assert self._formulas is not None
        self.check_ready()
        query = FormulaQuery(converted.slt.tree, converted.opt.tree, trees)
        return await self._formulas.submit(query)

    async def _ranked(self, text: str, k: int, index: int | None = None) -> EntityAnswer:
        if self._entities is None:
            raise Problem(404, "not-served", "No entities are served here.")
        if not text.strip():
            raise Problem(
                422, "text", "The text is empty.", "Describe what you look for.", None, index
            )
        if len(text) > self.limits.length:
            raise Problem(
                422,
                "text-too-long",
                f"The text has {len(text)} characters, more than {self.limits.length}.",
                "Give a sentence or two.",
                index=index,
            )
        self.check_ready()
        return await self._entities.submit(EntityQuery(text, k))

    def _check_answers(self, k: int) -> None:
        if k > self.limits.answers:
            raise Problem(422, "request", f"k is {k}, more than {self.limits.answers}.")

    def _check_items(self, count: int) -> None:
        if count > self.limits.items:
            raise Problem(422, "request", f"{count} items, more than {self.limits.items}.")

    @contextlib.asynccontextmanager
    async def _timed(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.limits.seconds):
                yield
        except TimeoutError:
            raise Problem(
                503,
                "too-slow",
                f"There was no answer within {self.limits.seconds:g} seconds.",
                "Come again later.",
                retry_after=5,
            ) from None
