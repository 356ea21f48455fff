"""The page without a script: forms, results, errors; and nothing of the data is markup."""

import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from starlette.testclient import TestClient

from experiments.serve.app import create_app
from experiments.serve.problems import Problem
from tests.experiments.serve.conftest import EVIL

TAGS = re.compile(
    "html|head|meta|title|link|script|body|a|header|p|span|nav|main|h[123]|form|label|div|input"
    "|button|fieldset|legend|section|ol|ul|li|blockquote|footer|details|summary|figure|figcaption"
    "|code|mark|svg|path|rect|text|math"
    "|m(?:i|n|o|row|text|space|frac|sqrt|sup|sub|subsup|under|over|underover)"
)


class Reader(HTMLParser):
    """Gathers elements and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def attributes(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def assert_harmless(page: str) -> Reader:
    """Elements of ours only, one script, no handler, no inline style, no foreign address."""
    reader = Reader(page)
    assert [tag for tag, _ in reader.elements if not TAGS.fullmatch(tag)] == []
    assert [of["src"] for of in reader.attributes("script")] in ([], ["/static/page.js"])
    for _, attributes in reader.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            assert attributes.get(name, "/").startswith(("/", "#"))
    return reader


def test_the_empty_page_has_a_form_and_examples(client):
    reader = assert_harmless(client.get("/").text)
    (form,) = reader.attributes("form")
    assert (form["action"], form["method"]) == ("/", "get")
    assert [of["value"] for of in reader.attributes("input")] == ["", "fused", "slt", "opt"]
    assert "untrained" in reader.text
    assert sum(tag == "math" for tag, _ in reader.elements) == 4
    assert any(of.get("role") == "status" for of in reader.attributes("p"))


def test_a_search_shows_formula_trees_and_results(client):
    answer = client.get("/", params={"q": r"\frac{a}{b+c}", "trees": "fused"})
    assert answer.status_code == 200
    reader = assert_harmless(answer.text)
    assert [of["value"] for of in reader.attributes("input") if "checked" in of] == ["fused"]
    assert sum(tag == "svg" for tag, _ in reader.elements) == 2
    assert sum(tag == "li" for tag, _ in reader.elements) == 7
    assert "7 formulas, best first" in reader.text
    assert "1.000" in reader.text
    assert "lib.f0" in reader.text
    only = Reader(client.get("/", params={"q": r"\frac{a}{b+c}", "trees": "slt"}).text)
    assert sum(tag == "svg" for tag, _ in only.elements) == 1
    unknown = client.get("/", params={"q": "x+y", "trees": "bush"})
    assert unknown.status_code == 200


@pytest.mark.parametrize("trees", ["fused", "slt", "opt"])
def test_nothing_of_a_collection_is_markup(client, trees):
    queries = [
        "x",
        r"\text{<script>alert(1)</script>}+x",
        f"x+{EVIL}",
        '"><script>alert(1)</script>',
    ]
    for query in queries:
        for path in ("/", "/formulas/preview", "/formulas/answers"):
            assert_harmless(client.get(path, params={"q": query, "trees": trees}).text)
    page = client.get("/", params={"q": "x", "trees": trees}).text
    assert Reader(page).text.count(EVIL) >= 5  # as text: in the title and about each formula


def test_nothing_of_an_entity_is_markup(client):
    reader = assert_harmless(client.get("/entities", params={"q": f"fourier {EVIL}"}).text)
    assert reader.text.count(EVIL) >= 6
    assert "8 entities, best first" in reader.text
    assert len(reader.attributes("blockquote")) == 16


def test_an_error_is_shown_in_its_place(client):
    answer = client.get("/", params={"q": r"a + \foo b"})
    assert answer.status_code == 422
    assert r"a + <mark>\foo</mark> b" in answer.text
    assert "Position 4." in answer.text
    assert 'role="alert"' in answer.text
    assert 'aria-invalid="true"' in answer.text
    end = client.get("/formulas/preview", params={"q": r"\frac{a"})
    assert end.status_code == 422
    assert "<mark>␣</mark>" in end.text
    long = client.get("/entities", params={"q": "a" * 301})
    assert long.status_code == 422
    assert "more than 300" in long.text


def test_a_busy_server_is_no_fault_of_the_formula(service, monkeypatch):
    async def read(formula):
        raise Problem(503, "busy", "Too many queries wait already.", retry_after=1)

    monkeypatch.setattr(service, "read", read)
    client = TestClient(create_app(service))  # not entered, so not started
    answer = client.get("/formulas/answers", params={"q": "x"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "Too many queries" in answer.text
    assert client.get("/formulas/preview", params={"q": "x"}).text.strip() == ""


def test_parts_are_those_of_the_page(client):
    query = {"q": r"\sqrt{x}", "trees": "opt"}
    page = client.get("/", params=query).text
    for part in ("/formulas/preview", "/formulas/answers"):
        text = client.get(part, params=query).text
        assert "<html" not in text
        assert text.strip() in page
    assert client.get("/formulas/preview").text.strip() == ""
