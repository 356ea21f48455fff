"""Reading formulas in processes of their own."""

import asyncio
import dataclasses
import os
import signal

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from experiments.serve.converter import Converter
from experiments.serve.limits import Limits
from experiments.serve.problems import Problem
from experiments.serve.worker import answer
from gcl_jax.formulas import parse
from retrieval_jax.errors import InputError

LIMITS = Limits(length=300, depth=10, nodes=60)


def run(work, limits=LIMITS):
    async def whole():
        converter = Converter(limits, processes=1)
        try:
            return await work(converter)
        finally:
            await converter.close()

    return asyncio.run(whole())


def test_a_formula_has_markup_trees_and_pictures():
    converted = run(lambda converter: converter.read(r"\frac{a}{b}"))
    assert "<mfrac>" in converted.mathml
    assert converted.slt.tree == parse(r"\frac{a}{b}", "slt")
    assert converted.opt.tree == parse(r"\frac{a}{b}", "opt")
    assert converted.opt.svg.startswith("<svg")
    assert "O!divide" in converted.opt.text


@pytest.mark.parametrize(
    ("formula", "detail", "position"),
    [
        (r"a+\foo", 'Unknown command "\\foo".', 2),
        (r"\frac{a", 'Expected closing token "}"', 7),
        ("{" * 20 + "x" + "}" * 20, "nested 20 deep", 19),
        ("x" * 301, "301 characters, more than 300", 300),
        ("x+" * 70 + "y", "nodes, more than 60", 0),
        ("<math><mi>x", "Not well-formed", 0),
        ("  ", "empty", 0),
    ],
)
def test_what_cannot_be_read_is_a_problem_with_its_place(formula, detail, position):
    with pytest.raises(Problem) as error:
        run(lambda converter: converter.read(formula))
    assert error.value.status == 422
    assert detail in error.value.detail
    assert error.value.position == position


@pytest.mark.parametrize(
    ("before", "x", "after"), [("<msqrt>", "<mi>x</mi>", "</msqrt>"), (r"\sqrt", " x", "")]
)
def test_depth_is_bounded_where_there_are_no_braces(before, x, after):
    def asked(count):
        formula = before * count + x + after * count
        if after:
            formula = f"<math>{formula}</math>"
        return answer({"task": "trees", "formula": formula, "depth": 10, "nodes": 100})

    assert "problem" not in asked(30)
    assert asked(31)["problem"] == "a tree of 31 levels, more than 30"
    assert "problem" not in answer(
        {"task": "trees", "formula": "x+" * 45 + "y", "depth": 10, "nodes": 100}
    )


def test_levels_below_the_50th_argument_of_an_operator_count():
    def asked(signs):
        terms = ["y"] * 52
        terms[49] = "-" * signs + "x"
        formula = "+".join(terms)
        return answer({"task": "trees", "formula": formula, "depth": 10, "nodes": 200})

    assert parse("+".join("y" * 50), "opt").edge_labels[-1] == "n"
    assert "problem" not in asked(29)
    assert asked(30)["problem"] == "a tree of 31 levels, more than 30"


def test_too_many_formulas_are_told_to_come_again():
    async def work(converter):
        reads = [asyncio.create_task(converter.read(of)) for of in "abc"]
        await asyncio.sleep(0)  # one is read, two wait
        for more in (converter.read, converter.render):
            with pytest.raises(Problem) as error:
                await more("x")
            assert (error.value.status, error.value.kind) == (503, "busy")
            assert error.value.headers == {"Retry-After": "1"}
        reads[2].cancel()
        await asyncio.sleep(0)
        assert "<mi>x</mi>" in (await converter.read("x")).mathml
        await asyncio.gather(*reads[:2])
        await converter.warm_up()

    run(work, dataclasses.replace(LIMITS, waiting=2))


def test_a_formula_that_takes_too_long_costs_its_process_only():
    async def work(converter):
        for _ in range(2):
            with pytest.raises(Problem, match="could not be read within"):
                await converter.read("x")
        assert await converter.render("x") == ""

    run(work, dataclasses.replace(LIMITS, parse_seconds=1e-5))


def test_a_process_that_ended_is_started_anew():
    async def work(converter):
        await converter.render("x")
        process = converter._workers[0]._process
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        assert "<mi>y</mi>" in await converter.render("y")
        assert await converter.render(r"\frac{") == ""

    run(work)


def test_a_start_outlives_the_query_that_waits_for_it():
    async def work(converter):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(converter.render("x"), 0.01)
        starting = converter._workers[0]._starting
        assert "<mi>x</mi>" in await converter.render("x")
        assert converter._workers[0]._starting is starting

    run(work)


def test_limits_are_positive():
    with pytest.raises(InputError, match=r"limits\.depth is 0"):
        Limits(depth=0)
