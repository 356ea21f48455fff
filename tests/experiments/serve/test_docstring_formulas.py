"""Formulas of docstrings: how they are found, and the run that is made of them."""

import subprocess
import sys

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from docent_jax.datasets.public_objects import PublicObject
from experiments.serve.docstring_formulas import (
    SourcedFormula,
    build,
    formulas_of_docstring,
    gather,
)
from retrieval_jax.errors import InputError

DOCSTRING = r"""Computes it.

    .. math::
       :label: one

        f(x) = \int_0^x
            g(t) dt,

        g(t) = t^2

    where :math:`g` is :math:`a
    + b` and

    .. math:: a^2 \, .

    Not a formula: ``:math:`` or .. math:: x.
"""


def test_directives_and_roles_are_found():
    assert list(formulas_of_docstring(DOCSTRING)) == [
        "",
        r"f(x) = \int_0^x g(t) dt",
        "g(t) = t^2",
        "a^2",
        "g",
        "a + b",
    ]


def test_equal_formulas_are_one_with_all_their_sources():
    objects = [
        PublicObject(("pkg.deep.inside.f",), "Summary of f.\n\n:math:`a+b` :math:`a+b`"),
        PublicObject(("pkg.g",), "Summary of g.\n\n:math:`a+b` and :math:`\frac{1}{2}`"),
    ]
    (only,) = gather(objects)
    assert only.latex == "a+b"
    assert only.sources == ("pkg.g", "pkg.deep.inside.f")
    assert only.about == "Summary of g."


def test_a_summary_that_ends_in_a_formula_ends_in_a_full_stop_alone():
    (only,) = gather([PublicObject(("pkg.f",), "Elementwise division: :math:`\\frac{a}{b}`.")])
    assert only.about == "Elementwise division."


def test_a_collection_without_a_formula_is_refused(tmp_path):
    objects = [PublicObject(("pkg.f",), r"Summary. :math:`\frac{` and :math:`x`")]
    with pytest.raises(InputError, match="no formula"):
        build(tmp_path / "run", gather(objects))


def test_a_formula_finds_itself_by_all_trees(formula_index):
    from experiments.serve.formulas import FormulaQuery
    from gcl_jax.formulas import parse_both

    assert len(formula_index) == 7
    assert formula_index.trees == ("fused", "slt", "opt")
    assert not formula_index.is_trained
    for trees in formula_index.trees:
        query = FormulaQuery(*parse_both(r"x^2+y^2=z^2"), trees)
        (answer,) = formula_index.compute([query])
        assert formula_index.stored(int(answer.rows[0])).formula == r"x^2+y^2=z^2"
        assert answer.scores[0] == pytest.approx(1, abs=1e-5)
        assert answer.scores[1] < 0.99


def test_equal_formulas_leave_the_answer_to_others(tmp_path):
    import asyncio

    from experiments.serve.formulas import load_formulas
    from experiments.serve.limits import Limits
    from experiments.serve.service import Service
    from gcl_jax.config import Config, DataConfig, ModelConfig

    often = [SourcedFormula("x+y", (f"lib.f{i}", "lib.all"), f"About {i}.") for i in range(300)]
    others = [SourcedFormula(f"x+y+{i}", ("lib.other",), "") for i in range(12)]
    config = Config(data=DataConfig(min_count=1), model=ModelConfig(dim=16, depth=2))
    build(tmp_path / "run", [*others[:6], *often, *others[6:]], config)
    index = load_formulas(tmp_path / "run", 10)
    assert len(index) == 13

    async def found():
        service = Service(index, None, Limits(answers=10), processes=1)
        await service.warm_up()
        try:
            return await service.search_formulas(await service.read("x+y"), "fused", 10)
        finally:
            await service.close()

    hits = asyncio.run(found())
    assert len({hit.formula for hit in hits}) == len(hits) == 10
    assert hits[0].formula == "x+y"
    assert hits[0].about == "About 0."
    assert len(hits[0].sources) == 301


def test_scores_are_those_of_the_package(formula_index):
    import numpy as np

    from experiments.serve.formulas import FormulaQuery
    from gcl_jax.formulas import parse_both

    searcher = formula_index._searcher
    expected = searcher.search(r"\frac{a}{x}", 7)
    query = FormulaQuery(*parse_both(r"\frac{a}{x}"), "fused")
    (answer,) = formula_index.compute([query])
    rows = [formula_index.stored(int(row)).formula for row in answer.rows]
    assert rows == [found.formula for found in expected]
    np.testing.assert_allclose(answer.scores, [found.score for found in expected], atol=1e-5)
    one_tree = [formula_index.compute([query._replace(trees=trees)])[0] for trees in ("slt", "opt")]
    by_row = [dict(zip(of.rows.tolist(), of.scores, strict=True)) for of in one_tree]
    for row, score in zip(answer.rows.tolist(), answer.scores, strict=True):
        if all(row in of for of in by_row):
            assert score == pytest.approx(sum(of[row] for of in by_row) / 2, abs=1e-5)


def test_the_worker_needs_no_jax():
    code = "import sys, experiments.serve.worker; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
