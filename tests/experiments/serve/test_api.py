"""The API in process: answers, limits, problem details, metrics, headers."""

import asyncio
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from starlette.testclient import TestClient

from experiments.serve.app import create_app
from tests.experiments.serve.conftest import LATEX, LIMITS

SEARCH = {"formula": r"\frac{a}{b+c}", "k": 3}


def assert_problem(response, status, kind, **members):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    record = response.json()
    assert record["status"] == status
    assert record["type"] == f"urn:problem:{kind}"
    assert record["title"]
    assert {name: record.get(name) for name in members} == members
    return record


def test_search_of_formulas(client):
    answer = client.post("/api/formulas/search", json=SEARCH).json()
    assert answer["encoder_is_trained"] is False
    assert [hit["rank"] for hit in answer["results"]] == [1, 2, 3]
    best = answer["results"][0]
    assert best["formula"] == SEARCH["formula"]
    assert best["score"] == pytest.approx(1, abs=1e-5)
    assert best["sources"][0] == "lib.f0"
    assert "<mfrac>" in best["mathml"]
    for trees in ("slt", "opt"):
        alone = client.post("/api/formulas/search", json=SEARCH | {"trees": trees}).json()
        assert alone["results"][0]["formula"] == SEARCH["formula"]


def test_parse_and_encode(client):
    parsed = client.post("/api/formulas/parse", json={"formula": r"\frac{a}{b}"}).json()
    assert parsed["slt"]["labels"] == ["O!divide", "V!a", "V!b"]
    assert parsed["slt"]["parents"] == [-1, 0, 0]
    assert parsed["opt"]["edges"] == ["", "0", "1"]
    assert parsed["opt"]["svg"].startswith("<svg")
    body = {"formulas": [r"\frac{a}{b}", "x"]}
    encoded = client.post("/api/formulas/encode", json=body).json()
    assert len(encoded["vectors"]) == 2
    assert {len(vector) for vector in encoded["vectors"]} == {encoded["dim"]}
    assert sum(x * x for x in encoded["vectors"][0]) == pytest.approx(1, abs=1e-4)


def test_search_and_encoding_of_texts(client):
    answer = client.post("/api/entities/search", json={"query": "fourier matrix", "k": 2}).json()
    assert [hit["rank"] for hit in answer["results"]] == [1, 2]
    assert all(len(hit["sentences"]) == 2 for hit in answer["results"])
    scores = [hit["score"] for hit in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    encoded = client.post("/api/entities/encode", json={"texts": ["fourier", "graph"]}).json()
    assert [len(vector) for vector in encoded["vectors"]] == [16, 16]


@pytest.mark.parametrize(
    ("body", "kind", "members"),
    [
        ({"formula": r"a+\foo"}, "formula", {"position": 2}),
        ({"formula": "x" * 301}, "formula-too-long", {"position": 300}),
        ({"formula": "{" * 20 + "x" + "}" * 20}, "formula", {"position": 19}),
        ({"formula": ""}, "request", {}),
        ({"formula": "x", "k": 0}, "request", {}),
        ({"formula": "x", "k": LIMITS.answers + 1}, "request", {}),
        ({"formula": "x", "trees": "bush"}, "request", {}),
        ({"formula": "x", "colour": "red"}, "request", {}),
        ({"formula": 5}, "request", {}),
        ({}, "request", {}),
        ([], "request", {}),
    ],
)
def test_formulas_that_are_refused(client, body, kind, members):
    assert_problem(client.post("/api/formulas/search", json=body), 422, kind, **members)


def test_other_requests_that_are_refused(client):
    post = client.post
    record = assert_problem(
        post("/api/formulas/encode", json={"formulas": ["x", r"\frac{a"]}), 422, "formula", index=1
    )
    assert record["position"] == 7
    assert_problem(post("/api/formulas/encode", json={"formulas": ["x"] * 4}), 422, "request")
    assert_problem(post("/api/formulas/encode", json={"formulas": []}), 422, "request")
    assert_problem(post("/api/entities/search", json={"query": "  "}), 422, "text")
    assert_problem(post("/api/entities/search", json={"query": "a" * 301}), 422, "text-too-long")
    too_long = {"texts": ["a", "b" * 301]}
    assert_problem(post("/api/entities/encode", json=too_long), 422, "text-too-long", index=1)
    assert_problem(post("/api/entities/search", content=b'{"query": "\\ud800"}'), 422, "request")
    assert_problem(post("/api/entities/search", content=b"{"), 422, "request")
    assert_problem(post("/api/entities/search", content=b"x" * 5_000), 413, "request-too-large")
    chunks = (b"x" * 1_000 for _ in range(6))
    assert_problem(post("/api/entities/search", content=chunks), 413, "request-too-large")
    assert_problem(client.get("/nowhere"), 404, "http")
    assert_problem(client.get("/api/entities/search"), 405, "http")
    assert client.get("/api/entities/search").headers["allow"] == "POST"


def test_the_description_has_routes_and_problems(client):
    described = client.get("/openapi.json").json()
    assert {"/api/formulas/search", "/api/entities/encode", "/health/ready", "/metrics"} <= set(
        described["paths"]
    )
    problem = described["paths"]["/api/formulas/search"]["post"]["responses"]["422"]
    assert list(problem["content"]) == ["application/problem+json"]
    assert "position" in described["components"]["schemas"]["ProblemDetails"]["properties"]


def test_metrics_count_requests_and_batches(client):
    def counters():
        text = client.get("/metrics").text
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")

    name = 'http_requests_total{method="POST",route="/api/entities/search",status="200"}'
    batches = 'device_batch_queries_count{model="entities"}'
    client.post("/api/entities/search", json={"query": "fourier"})
    before = counters()
    client.post("/api/entities/search", json={"query": "fourier"})
    client.get("/no/such/page")
    after = counters()
    assert float(after[name]) == float(before[name]) + 1
    assert float(after[batches]) == float(before[batches]) + 1
    assert float(after["ready"]) == 1
    assert 'http_requests_total{method="GET",route="unmatched",status="404"}' in after
    assert float(after["process_resident_memory_bytes"]) > 0


def assert_guarded(response):
    assert "script-src 'self'" in response.headers["content-security-policy"]
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"


def test_headers_forbid_what_is_not_ours(client):
    for path in ("/", "/static/page.js", "/health/live", "/nowhere"):
        assert_guarded(client.get(path))


def test_until_all_is_compiled_queries_are_told_to_come_again(service):
    client = TestClient(create_app(service))  # not entered, so not started
    assert client.get("/health/live").json() == {"status": "alive"}
    answer = client.get("/health/ready")
    assert_problem(answer, 503, "starting")
    assert answer.headers["retry-after"] == "2"
    assert_problem(client.post("/api/entities/search", json={"query": "fourier"}), 503, "starting")
    page = client.get("/")
    assert page.status_code == 503
    assert "Compiling" in page.text
    assert page.headers["retry-after"] == "2"


def test_a_fault_of_ours_is_a_problem_too(service):
    service.starting = ""
    service._entities._compute = lambda queries: [1 // 0 for _ in queries]
    client = TestClient(create_app(service), raise_server_exceptions=False)
    answer = client.post("/api/entities/search", json={"query": "fourier"})
    record = assert_problem(answer, 500, "internal")
    assert "ZeroDivisionError" not in record["detail"]
    assert_guarded(answer)


def test_a_start_that_fails_is_said(service, caplog):
    service.entities = None
    service.formulas = SimpleNamespace(warm_up=lambda: (1 // 0 for _ in "x"))
    asyncio.run(service.warm_up())
    assert "ZeroDivisionError" in caplog.text
    client = TestClient(create_app(service))
    assert_problem(client.get("/health/ready"), 503, "failed")
    page = client.get("/")
    assert page.status_code == 503
    assert "has failed" in page.text


def test_what_is_not_served_is_said(formula_index):
    from experiments.serve.service import Service

    service = Service(formula_index, None, LIMITS, processes=1)
    service.starting = ""
    client = TestClient(create_app(service))
    answer = client.post("/api/entities/search", json={"query": "fourier"})
    assert_problem(answer, 404, "not-served")
    assert len(LATEX) == len(formula_index)
