"""Errors as problem details (RFC 9457), for the API, and for pages, which show them inline."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import pydantic
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):  # noqa: N818 RFC 9457 calls it so
    """Something that a client is told instead of an answer.

    Args:
        status: of HTTP.
        kind: what identifies the problem, a word or two with hyphens.
        detail: what is wrong.
        remedy: what to do about it.
        position: where in the formula, in characters from 0.
        index: which of several formulas or texts.
        retry_after: seconds after which to come again.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        remedy: str = "",
        position: int | None = None,
        index: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.remedy = status, kind, detail, remedy
        self.position, self.index, self.retry_after = position, index, retry_after

    def record(self) -> dict[str, Any]:
        """The members of the problem details object."""
        members = {
            "type": f"urn:problem:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "remedy": self.remedy or None,
            "position": self.position,
            "index": self.index,
        }
        return {name: value for name, value in members.items() if value is not None}

    @property
    def headers(self) -> dict[str, str]:
        """When to come again."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class ProblemDetails(pydantic.BaseModel):
    """What is wrong, and where (RFC 9457)."""

    type: str = pydantic.Field(examples=["urn:problem:formula"])
    title: str
    status: int
    detail: str
    remedy: str | None = None
    position: int | None = pydantic.Field(
        None, description="Where in the formula, in characters from 0."
    )
    index: int | None = pydantic.Field(None, description="Which of the formulas or texts.")


def busy() -> Problem:
    """What a client is told where too many wait."""
    return Problem(503, "busy", "Too many queries wait already.", "Come again.", retry_after=1)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of problems with these statuses."""
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def problem_response(problem: Problem) -> JSONResponse:
    """The answer of HTTP."""
    return JSONResponse(
        problem.record(), problem.status, headers=problem.headers, media_type=MEDIA_TYPE
    )


def add_handlers(app: FastAPI, headers: Mapping[str, str]) -> None:
    """Makes all errors of an application problem details.

    Args:
        app: the application.
        headers: of the answer to a fault, which no middleware sees.
    """

    @app.exception_handler(Problem)
    async def of_ours(request: Request, problem: Problem) -> JSONResponse:
        del request
        return problem_response(problem)

    @app.exception_handler(RequestValidationError)
    async def of_requests(request: Request, error: RequestValidationError) -> JSONResponse:
        del request
        return problem_response(invalid(error.errors()))

    @app.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> JSONResponse:
        del request
        problem = Problem(error.status_code, "http", str(error.detail))
        answer = problem_response(problem)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def of_others(request: Request, error: Exception) -> JSONResponse:
        del request, error  # logged by the server, with its traceback
        answer = problem_response(Problem(500, "internal", "The server failed at this request."))
        answer.headers.update(headers)
        return answer


def invalid(errors: Any) -> Problem:
    """What a request lacks, without what it holds."""
    first: Mapping[str, Any] = next(iter(errors), {})
    place = ".".join(str(part) for part in first.get("loc", ()) if part != "body")
    place = place.encode("ascii", "replace").decode()[:80]
    detail = (
        f"{place}: {first.get('msg', 'invalid')}" if place else str(first.get("msg", "invalid"))
    )
    return Problem(422, "request", detail)
