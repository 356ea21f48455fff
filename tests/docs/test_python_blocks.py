"""The Python of the README and the documentation runs."""

import ast

import pytest

import docent_jax
from tests.docs.blocks import blocks, pages
from tests.docs.page_runs import OWN_ENTITIES, TUTORIAL, make_run, prepare, run_page

PYTHON = [block for page in pages() for block in blocks(page) if block.language == "python"]
RUN = sorted({block.page for block in PYTHON if block.runs})


@pytest.fixture(scope="module")
def reader_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as monkeypatch:
        prepare(folder, monkeypatch)
        make_run(monkeypatch)
        yield folder


def test_the_how_to_on_entities_makes_a_run_that_knows_them(reader_folder):
    assert docent_jax.load("runs/own").entities == ("kettle", "lamp", "radio", "toaster")


@pytest.mark.parametrize("page", [page for page in RUN if page != OWN_ENTITIES], ids=str)
def test_a_page_runs(reader_folder, page, capsys):
    run_page(page)
    if page == TUTORIAL:
        assert "O!divide\n  0 V!a\n  1 U!plus" in capsys.readouterr().out


@pytest.mark.parametrize(
    "block", [block for block in PYTHON if not block.runs], ids=lambda b: f"{b.page}:{b.line}"
)
def test_a_block_that_is_not_run_names_what_is_there(block):
    imports = [
        node
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    exec(compile(ast.Module(imports, []), str(block.page), "exec"), {})


def test_every_page_that_has_python_runs_some():
    assert {page.name for page in RUN} >= {"README.md", "tutorial.md", "own_entities.md"}
