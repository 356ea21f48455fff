"""The web application: `create_app(service)` puts the API and the pages around loaded models."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from experiments.serve.api import api_router
from experiments.serve.guard import HEADERS, Guard
from experiments.serve.pages import page_router
from experiments.serve.problems import ProblemDetails, add_handlers
from experiments.serve.service import Service

_STATIC = Path(__file__).parent / "static"


def create_app(service: Service) -> FastAPI:
    """The application; it warms the service up when it starts, and closes it when it ends."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        warming = asyncio.create_task(service.warm_up())
        yield
        warming.cancel()
        await asyncio.wait([warming])
        await service.close()

    app = FastAPI(
        title="Retrieval with structure",
        description="Search of formulas and entities. Errors are problem details (RFC 9457).",
        version="1",
        lifespan=lifespan,
        # Their pages load scripts from elsewhere, which the policy of ours forbids.
        docs_url=None,
        redoc_url=None,
    )
    add_handlers(app, HEADERS)
    app.add_middleware(Guard, limits=service.limits, metrics=service.metrics)
    app.include_router(api_router(service))
    app.include_router(page_router(service), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_STATIC))

    described = app.openapi

    def with_problems() -> dict[str, Any]:
        """The description, with the schema that `problems.responses` refers to."""
        schema = described()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas["ProblemDetails"] = ProblemDetails.model_json_schema()
        return schema

    app.openapi = with_problems
    return app
