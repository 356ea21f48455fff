"""Queries that come together: gathered, bounded, and answered as each alone."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from experiments.serve.batching import Batcher
from experiments.serve.entities import EntityQuery
from experiments.serve.formulas import FormulaQuery
from experiments.serve.problems import Problem
from gcl_jax.formulas import parse_both


def run(work, compute, batch=8, waiting=64):
    sizes = []

    async def whole():
        with ThreadPoolExecutor(1) as executor:
            batcher = Batcher(compute, executor, batch, 20.0, waiting, sizes.append)
            result = await work(batcher)
            await batcher.close()
            return result

    return asyncio.run(whole()), sizes


def test_queries_are_gathered_and_get_their_own_answers():
    async def work(batcher):
        return await asyncio.gather(*(batcher.submit(i) for i in range(20)))

    answers, sizes = run(work, lambda queries: [10 * q for q in queries])
    assert answers == [10 * i for i in range(20)]
    assert sizes == [8, 8, 4]


def test_a_fault_is_that_of_its_batch():
    def compute(queries):
        return [1 // q for q in queries]

    async def work(batcher):
        first = await asyncio.gather(batcher.submit(0), batcher.submit(1), return_exceptions=True)
        return first, await batcher.submit(1)

    (first, later), _ = run(work, compute)
    assert [type(error) for error in first] == [ZeroDivisionError] * 2
    assert later == 1


def test_too_many_are_told_to_come_again():
    gate = threading.Event()

    def compute(queries):
        gate.wait()
        return queries

    async def work(batcher):
        first = [asyncio.create_task(batcher.submit(i)) for i in range(1)]
        await asyncio.sleep(0.1)
        more = [asyncio.create_task(batcher.submit(i)) for i in range(3)]
        await asyncio.sleep(0.01)
        gate.set()
        return await asyncio.gather(*first, *more, return_exceptions=True)

    answers, _ = run(work, compute, waiting=2)
    assert answers[:3] == [0, 0, 1]
    assert isinstance(answers[3], Problem)
    assert answers[3].status == 503
    assert answers[3].headers == {"Retry-After": "1"}


def test_a_client_that_has_gone_costs_nothing_and_the_end_answers_what_waits():
    computed = []

    def compute(queries):
        computed.extend(queries)
        return queries

    async def work(batcher):
        gone = asyncio.create_task(batcher.submit("gone"))
        await asyncio.sleep(0)
        gone.cancel()
        waits = asyncio.create_task(batcher.submit("waits"))
        await asyncio.sleep(0)
        await batcher.close()
        with pytest.raises(Problem, match="being stopped"):
            await batcher.submit("late")
        return await waits

    assert run(work, compute)[0] == "waits"
    assert computed == ["waits"]


def test_formulas_together_get_what_each_gets_alone(formula_index):
    latex = [rf"\frac{{{a}}}{{{b}+1}}" for a in "abcxyz" for b in "abcxyz"] + ["x" * 40, r"a+b"]
    kinds = ("fused", "slt", "opt")
    queries = [FormulaQuery(*parse_both(of), kinds[i % 3]) for i, of in enumerate(latex)]
    together = formula_index.compute(queries)
    for query, answer in zip(queries, together, strict=True):
        (alone,) = formula_index.compute([query])
        np.testing.assert_allclose(answer.vector, alone.vector, atol=1e-5)
        np.testing.assert_allclose(answer.scores, alone.scores, atol=1e-5)


def test_texts_together_get_what_each_gets_alone(entity_index):
    texts = ["fourier", "the matrix of a value", "random " * 12, "sparse array"] * 9
    together = entity_index.compute([EntityQuery(text, 3) for text in texts])
    for text, answer in zip(texts, together, strict=True):
        (alone,) = entity_index.compute([EntityQuery(text, 3)])
        np.testing.assert_allclose(answer.vector, alone.vector, atol=1e-5)
        assert [of.score for of in answer.entities] == pytest.approx(
            [of.score for of in alone.entities], abs=1e-5
        )
        assert all(len(of.sentences) == 2 for of in answer.entities)


def test_nothing_is_compiled_after_the_warm_up(formula_index, entity_index, caplog):
    for index in (formula_index, entity_index):
        assert len(list(index.warm_up())) > 2
    rng = np.random.default_rng(0)
    words = ("the", "fourier", "matrix", "sparse", "of", "a")
    with jax.log_compiles():
        for count in (1, 2, 5, 30):
            texts = [" ".join(rng.choice(words, rng.integers(1, 15))) for _ in range(count)]
            entity_index.compute([EntityQuery(text, 2) for text in texts])
            latex = ["+".join(rng.choice(list("abc"), rng.integers(1, 25))) for _ in range(count)]
            formula_index.compute([FormulaQuery(*parse_both(of), "fused") for of in latex])
    compiled = [of.getMessage() for of in caplog.records if "Compiling" in of.getMessage()]
    assert compiled == []
