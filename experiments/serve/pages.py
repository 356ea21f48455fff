"""The page: whole for a browser without scripts, and in parts for the script of ours."""

import re
from typing import Any

import jinja2
from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from experiments.serve.converter import Converted
from experiments.serve.formulas import Trees
from experiments.serve.problems import Problem
from experiments.serve.service import Service

ANSWERS = 10

FORMULA_EXAMPLES = (
    r"\int_0^\infty t^{x-1} e^{-t} dt",
    r"\frac{1}{\sqrt{2\pi}} e^{-x^2/2}",
    r"\sum_{k=0}^n \binom{n}{k} p^k (1-p)^{n-k}",
    r"A = U \Sigma V^H",
)
ENTITY_EXAMPLES = (
    "fast fourier transform of real input",
    "find the roots of a polynomial given its coefficients",
    "draw random samples from a bell-shaped distribution",
)
TREES: dict[Trees, str] = {"fused": "Both", "slt": "Layout", "opt": "Operators"}

_COMMAND = re.compile(r"\\[A-Za-z]+")
_BEFORE, _AFTER = 40, 60
_NOTHING = "␣"


def page_router(service: Service) -> APIRouter:
    """The routes of the page."""
    router = APIRouter(default_response_class=HTMLResponse)
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("experiments.serve"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"checked": _checked, "cut_at": _cut_at}

    answers = min(ANSWERS, service.limits.answers)

    def answer(name: str, **values: Any) -> HTMLResponse:
        values = {"service": service, "problem": None} | values
        problem: Problem | None = values["problem"]
        status, headers = (problem.status, problem.headers) if problem else (200, None)
        return HTMLResponse(templates.get_template(name).render(values), status, headers)

    def not_ready() -> HTMLResponse | None:
        try:
            service.check_ready()
        except Problem as problem:
            return answer("starting.html", problem=problem)
        return None

    async def formula_values(query: str, trees: str, searches: bool) -> dict[str, Any]:
        """What templates show of a formula: how it was read, and what was found."""
        chosen = _chosen(service, trees)
        values: dict[str, Any] = {"query": query, "trees": chosen, "labels": TREES}
        values |= {"converted": None, "hits": None}
        if not query.strip():
            return values
        try:
            converted: Converted = await service.read(query)
            values["converted"] = converted
            if searches:
                values["hits"] = await service.search_formulas(converted, chosen, answers)
        except Problem as problem:
            values["problem"] = problem
        return values

    async def entity_values(query: str) -> dict[str, Any]:
        values: dict[str, Any] = {"query": query, "hits": None}
        if query.strip():
            try:
                values["hits"] = await service.search_entities(query, answers)
            except Problem as problem:
                values["problem"] = problem
        return values

    @router.get("/")
    async def formulas(q: str = "", trees: str = "") -> HTMLResponse:
        if waits := not_ready():
            return waits
        if service.formulas is None:
            return await entities(q)
        values = await formula_values(q, trees, searches=True)
        examples = [(latex, await service.render(latex)) for latex in FORMULA_EXAMPLES]
        return answer("formulas.html", examples=examples, **values)

    @router.get("/formulas/preview")
    async def preview(q: str = "", trees: str = "") -> HTMLResponse:
        values = await formula_values(q, trees, searches=False)
        return answer("preview.html", **values)

    @router.get("/formulas/answers")
    async def formula_answers(q: str = "", trees: str = "") -> HTMLResponse:
        values = await formula_values(q, trees, searches=True)
        return answer("formula_answers.html", **values)

    @router.get("/entities")
    async def entities(q: str = "") -> HTMLResponse:
        if waits := not_ready():
            return waits
        values = await entity_values(q)
        return answer("entities.html", examples=ENTITY_EXAMPLES, **values)

    @router.get("/entities/answers")
    async def entity_answers(q: str = "") -> HTMLResponse:
        values = await entity_values(q)
        return answer("entity_answers.html", **values)

    return router


def _chosen(service: Service, trees: str) -> Trees:
    """The trees that are asked for, if there are such; else the first ones."""
    known: tuple[Trees, ...] = service.formulas.trees if service.formulas else ("fused",)
    return known[known.index(trees)] if trees in known else known[0]


def _cut_at(formula: str, position: int) -> tuple[str, str, str]:
    """What stands before a fault, the character or command at fault, and what comes after."""
    fault = _COMMAND.match(formula, position)
    end = fault.end() if fault else position + 1
    start, stop = max(position - _BEFORE, 0), end + _AFTER
    before = ("…" if start else "") + formula[start:position]
    after = formula[end:stop] + ("…" if len(formula) > stop else "")
    return before, formula[position:end] or _NOTHING, after


def _checked(markup: str) -> Markup:
    """Marks what `mathml.rendered` or `Tree.to_svg` has written as fit for a page."""
    return Markup(markup)
