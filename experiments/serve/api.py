"""The JSON API."""

from typing import Annotated

import pydantic
from fastapi import APIRouter, Response

from experiments.serve.converter import Converted, TreeView
from experiments.serve.formulas import Trees
from experiments.serve.metrics import CONTENT_TYPE
from experiments.serve.problems import responses
from experiments.serve.service import Service

Wanted = Annotated[int, pydantic.Field(ge=1, description="How many answers, at most.")]
Text = Annotated[str, pydantic.Field(min_length=1)]


class Request(pydantic.BaseModel):
    """A request, in which a field that is not known is an error."""

    model_config = pydantic.ConfigDict(extra="forbid")


class FormulaSearch(Request):
    """What to search for."""

    formula: Text = pydantic.Field(description="LaTeX or MathML.", examples=[r"\frac{a}{b+c}"])
    trees: Trees = pydantic.Field("fused", description="Layout, operator trees, or both.")
    k: Wanted = 10


class FormulaText(Request):
    """What to read."""

    formula: Text = pydantic.Field(description="LaTeX or MathML.", examples=[r"\frac{a}{b+c}"])


class FormulaTexts(Request):
    """What to encode."""

    formulas: list[Text] = pydantic.Field(min_length=1, examples=[[r"\frac{a}{b+c}"]])
    trees: Trees = "fused"


class EntitySearch(Request):
    """What to search for."""

    query: Text = pydantic.Field(
        description="Plain English.", examples=["fast fourier transform of real input"]
    )
    k: Wanted = 10


class Texts(Request):
    """What to encode."""

    texts: list[Text] = pydantic.Field(min_length=1, examples=[["any text"]])


class FoundFormula(pydantic.BaseModel):
    """A formula of the collection."""

    rank: int
    score: float
    formula: str
    mathml: str = pydantic.Field(description="Empty for a formula that cannot be shown.")
    sources: list[str]
    about: str


class FoundFormulas(pydantic.BaseModel):
    """The best formulas, best first."""

    trees: Trees
    encoder_is_trained: bool
    collection: str
    results: list[FoundFormula]


class TreeNodes(pydantic.BaseModel):
    """A tree: labels of nodes in pre-order, parents (-1 for the root), labels of the edges."""

    labels: list[str]
    parents: list[int]
    edges: list[str]
    svg: str = pydantic.Field(description="A picture; empty for a large tree.")


class ParsedFormula(pydantic.BaseModel):
    """A formula that was read."""

    mathml: str
    slt: TreeNodes
    opt: TreeNodes


class Vectors(pydantic.BaseModel):
    """Vectors in the order of what was given."""

    dim: int
    vectors: list[list[float]]


class RankedEntity(pydantic.BaseModel):
    """An entity, with the sentences of its documents that are nearest to the query."""

    rank: int
    score: float
    entity: str
    sentences: list[str]


class RankedEntities(pydantic.BaseModel):
    """The best entities, best first."""

    collection: str
    results: list[RankedEntity]


class Health(pydantic.BaseModel):
    """How the server is."""

    status: str


def api_router(service: Service) -> APIRouter:
    """The routes of the API."""
    router = APIRouter()
    problems = responses(400, 404, 413, 422, 503)

    @router.post("/api/formulas/search", tags=["formulas"], responses=problems)
    async def search_formulas(request: FormulaSearch) -> FoundFormulas:
        """Ranks the formulas of the collection for a formula."""
        converted = await service.read(request.formula)
        hits = await service.search_formulas(converted, request.trees, request.k)
        assert service.formulas is not None
        results = [FoundFormula(rank=i, **hit._asdict()) for i, hit in enumerate(hits, 1)]
        return FoundFormulas(
            trees=request.trees,
            encoder_is_trained=service.formulas.is_trained,
            collection=service.formulas.title,
            results=results,
        )

    @router.post("/api/formulas/parse", tags=["formulas"], responses=problems)
    async def parse_formula(request: FormulaText) -> ParsedFormula:
        """Reads a formula: its MathML, its layout tree and its operator tree."""
        converted: Converted = await service.read(request.formula)
        return ParsedFormula(
            mathml=converted.mathml, slt=_nodes(converted.slt), opt=_nodes(converted.opt)
        )

    @router.post("/api/formulas/encode", tags=["formulas"], responses=problems)
    async def encode_formulas(request: FormulaTexts) -> Vectors:
        """Encodes formulas as queries: their products with stored vectors are the scores."""
        vectors = await service.encode_formulas(request.formulas, request.trees)
        return Vectors(dim=vectors.shape[1], vectors=vectors.tolist())

    @router.post("/api/entities/search", tags=["entities"], responses=problems)
    async def search_entities(request: EntitySearch) -> RankedEntities:
        """Ranks entities for a text."""
        found = await service.search_entities(request.query, request.k)
        assert service.entities is not None
        results = [RankedEntity(rank=i, **of._asdict()) for i, of in enumerate(found, 1)]
        return RankedEntities(collection=service.entities.title, results=results)

    @router.post("/api/entities/encode", tags=["entities"], responses=problems)
    async def encode_texts(request: Texts) -> Vectors:
        """Encodes texts, to be compared with the vectors of entities."""
        vectors = await service.encode_texts(request.texts)
        return Vectors(dim=vectors.shape[1], vectors=vectors.tolist())

    @router.get("/health/live", tags=["operation"])
    async def live() -> Health:
        """Whether the process answers."""
        return Health(status="alive")

    @router.get("/health/ready", tags=["operation"], responses=responses(503))
    async def ready() -> Health:
        """Whether everything is loaded and compiled."""
        service.check_ready()
        return Health(status="ready")

    @router.get("/metrics", tags=["operation"], response_class=Response)
    async def metrics() -> Response:
        """Counters in Prometheus' text format."""
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router


def _nodes(view: TreeView) -> TreeNodes:
    tree = view.tree
    return TreeNodes(
        labels=list(tree.labels),
        parents=list(tree.parents),
        edges=list(tree.edge_labels),
        svg=view.svg,
    )
