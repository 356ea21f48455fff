"""The documentation site builds without a warning, complete, and loads nothing from elsewhere."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from experiments.report import RESULTS
from experiments.report.unrun import RESULTS_FILES
from tests.docs.blocks import DOCS, ROOT

PACKAGES = ("retrieval_jax", "docent_jax", "gcl_jax", "ltr_jax", "mathsim_jax")
NEEDED = ("mkdocs", "material", "mkdocstrings_handlers.python", "math_core", "lxml")
ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
    r"|(?:url\(|@import )[\"']?(?:https?:)?//"
)


def is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    missing = [name for name in NEEDED if not is_there(name)]
    if missing:
        pytest.skip(f"needs the extras docs and gcl: no {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    return folder


def test_the_reference_has_every_public_module(site):
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name == "__init__.py" or not path.name.startswith("_")
    ]
    pages = {path.name.removesuffix(".html") for path in (site / "reference").glob("*.html")}
    assert pages == set(modules)
    losses = (site / "reference/retrieval_jax.losses.html").read_text(encoding="utf-8")
    assert 'id="retrieval_jax.losses.contrastive_loss"' in losses


def test_tables_and_trees_are_drawn(site):
    page = (site / "systems/gcl.html").read_text(encoding="utf-8")
    assert "query-weighted paths" in page
    assert page.count("</svg></figure>") == 2
    assert "<td>" in (site / "speed.html").read_text(encoding="utf-8")


def test_nothing_is_loaded_from_elsewhere(site):
    assert ELSEWHERE.search('<script defer src="https://example.org/x.js">')
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        found = ELSEWHERE.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found}"


def test_every_result_is_shown_on_some_page():
    shown = {
        name
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"<!-- results: ([\w-]+) -->", page.read_text(encoding="utf-8"))
    }
    recorded = {path.stem for path in RESULTS.glob("*.json")}
    # Ablations stand there before they are run, with their command.
    expected = recorded | set(RESULTS_FILES)
    assert shown == expected, "put <!-- results: NAME --> and <!-- end --> on the system's page"
