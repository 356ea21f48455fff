"""Around the application: headers, a bound on bodies, counters. Plain ASGI."""

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from experiments.serve.limits import Limits
from experiments.serve.metrics import Metrics
from experiments.serve.problems import Problem, problem_response

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """The middleware.

    Args:
        app: what is guarded.
        limits: of a request's body and the time to send it.
        metrics: what is counted.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            try:
                body = await asyncio.wait_for(self._body(scope, receive), self._limits.seconds)
            except TimeoutError:
                problem = Problem(408, "request", "The request did not come in time.")
                await problem_response(problem)(scope, receive, send_with_headers)
            except Problem as problem:
                await problem_response(problem)(scope, receive, send_with_headers)
            else:
                await self._app(scope, _replayed(body, receive), send_with_headers)
        finally:
            route, method = _route(scope), _method(scope)
            self._metrics.requests.labels(route, method, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - started)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The body, which is small.

        Raises:
            Problem: it is not.
        """
        problem = Problem(
            413, "request-too-large", f"The request has more than {self._limits.body} bytes."
        )
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdecimal() or int(announced[:18]) > self._limits.body:
            raise problem
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._limits.body:
                raise problem
            more = message.get("more_body", False)
        return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body at once, then what else the connection says."""
    is_given = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _route(scope: Scope) -> str:
    """The pattern of a route, of which there are few, unlike paths."""
    if "route" in scope:
        return scope["route"].path
    path = scope["path"]
    if path.startswith("/static/"):
        return "/static"
    return path if path == "/openapi.json" else "unmatched"


def _method(scope: Scope) -> str:
    known = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
    return scope["method"] if scope["method"] in known else "other"
