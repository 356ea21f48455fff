"""The page in a browser: typing, searching, errors, a phone's width, accessibility."""

import shutil
import socket
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from experiments.serve.app import create_app
from experiments.serve.service import Service
from tests.experiments.serve.conftest import LIMITS

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium here", allow_module_level=True)

ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
expect = sync_api.expect
expect.set_options(timeout=30_000)
FRACTION = r"\frac{a}{b+c}"


@pytest.fixture(scope="module")
def address(formula_index, entity_index):
    """Of a server in a thread."""
    service = Service(formula_index, entity_index, LIMITS, processes=1)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(service), log_level="error", loop="asyncio")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    deadline = time.monotonic() + 300
    try:
        while not server.started or service.starting:
            assert thread.is_alive()
            assert not service.is_failed
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS.split(), timeout=60_000
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, address):
    """Opens pages that let nothing run but our script, and ask nobody but our server."""
    contexts, alerts, foreign = [], [], []

    def open_page(path="/", **settings):
        context = browser.new_context(base_url=address, **settings)
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda asked: address in asked.url or foreign.append(asked.url))
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert alerts == []
    assert foreign == []


def test_a_formula_is_rendered_as_one_types_and_searched_on_enter(open_page):
    page = open_page()
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type(FRACTION)
    page.wait_for_selector("#preview math mfrac")
    assert page.locator("#preview svg").count() == 2
    assert page.locator("#answers .answers").count() == 0
    page.keyboard.press("Enter")
    page.wait_for_selector("#answers .answers")
    assert page.locator("#answers li").count() == 7
    assert page.locator("#answers li").first.locator("mfrac").count() == 1
    expect(page.locator("#status")).to_contain_text("7 formulas")
    assert "q=%5Cfrac" in page.url
    page.get_by_label("Layout", exact=True).check()
    expect(page.locator("#preview svg")).to_have_count(1)
    page.wait_for_url("**trees=slt")
    page.go_back()
    expect(page.locator("#preview svg")).to_have_count(2)
    assert page.get_by_label("Both").is_checked()


def test_an_error_is_marked_and_goes_when_it_is_mended(open_page):
    page = open_page()
    page.fill("#q", r"a+\foo")
    page.wait_for_selector("#preview [role=alert]")
    assert page.locator("#preview mark").inner_text() == r"\foo"
    assert page.get_attribute("#q", "aria-invalid") == "true"
    page.fill("#q", "a+b")
    page.wait_for_selector("#preview math")
    assert page.get_attribute("#q", "aria-invalid") is None
    page.fill("#q", "")
    expect(page.locator("#preview *")).to_have_count(0)


def test_entities_are_found_with_their_sentences(open_page):
    page = open_page()
    page.get_by_role("link", name="Entities").click()
    page.fill("#q", "fourier")
    page.get_by_role("button", name="Search").click()
    page.wait_for_selector("#answers blockquote")
    assert page.locator("#answers li").count() == 8


def test_it_works_without_a_script(open_page):
    page = open_page(java_script_enabled=False)
    page.fill("#q", FRACTION)
    page.keyboard.press("Enter")
    page.wait_for_selector("#answers .answers")
    assert page.locator("#preview svg").count() == 2
    assert page.input_value("#q") == FRACTION


@pytest.mark.parametrize(
    "path", ["/", "/?q=%5Cfrac{a}{b%2Bc}", "/?q=%5Cfoo", "/entities?q=fourier"]
)
def test_pages_are_accessible_and_fit_a_phone(open_page, path):
    for scheme, width in (("light", 1100), ("dark", 375)):
        page = open_page(path, color_scheme=scheme, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = axe.Axe().run(page).response["violations"]
        serious = [of for of in found if of["impact"] in ("serious", "critical")]
        assert [(of["id"], of["nodes"][0]["html"]) for of in serious] == []


def test_the_keyboard_reaches_search_and_results(open_page):
    page = open_page("/?q=x")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "q"
    page.get_by_label("More like this: result 1").press("Enter")
    page.wait_for_url("**trees=fused")


@pytest.mark.parametrize("path", ["/?q=x", "/"])
def test_a_link_within_the_page_asks_nothing_and_keeps_what_was_typed(open_page, path):
    page = open_page(path)
    page.fill("#q", "a+b")
    page.wait_for_selector("#preview mo")
    asked = []
    page.on("request", lambda of: of.url.endswith("icon.svg") or asked.append(of.url))
    page.locator(".skip").press("Enter")
    page.wait_for_url("**#q")
    page.wait_for_function("new Promise((done) => setTimeout(() => done(true), 50))")
    assert page.input_value("#q") == "a+b"
    assert asked == []
