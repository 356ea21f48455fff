"""A folder in which the pages' Python runs: what a reader has at that point, on a tiny encoder."""

import importlib
import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from retrieval_jax.pretrained import DEFAULT_ENCODER, ENCODER_PACKAGES
from tests import bert_folders
from tests.docs.blocks import ROOT, blocks

OWN_ENTITIES = Path("docs/howto/own_entities.md")
TUTORIAL = Path("docs/tutorial.md")
TINY_PARAMS = bert_folders.tiny_params
THINGS = {"kettle": "water", "toaster": "bread", "lamp": "light", "radio": "music"}
QUERIES = 300


def run_page(path: Path) -> dict:
    """Runs a page's blocks one after the other in one namespace, as one script.

    Args:
        path: of the page, relative to the project.
    """
    namespace = {"__name__": "__main__"}
    for block in blocks(ROOT / path):
        if block.language == "python" and block.runs:
            # Line numbers of errors are those of the page.
            source = "\n" * block.line + block.text
            exec(compile(source, str(block.page), "exec"), namespace)
    return namespace


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lays out what the pages name, and goes there."""
    package, inside = "tiny_encoder_of_the_pages", "model"
    monkeypatch.setattr(bert_folders, "tiny_params", _random_params)
    bert_folders.write_tiny_bert(folder / package / inside, words=THINGS.values())
    (folder / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(ENCODER_PACKAGES, DEFAULT_ENCODER, (package, inside))
    monkeypatch.chdir(folder)
    _write_entities(folder)
    _write_languages(folder)


def _random_params(config, seed, mlm_head) -> dict:
    """As `tiny_params`, without compiling anything."""
    shapes = jax.eval_shape(lambda: TINY_PARAMS(config, seed, mlm_head))
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: rng.normal(0, 0.1, a.shape).astype(np.float32), shapes)


def make_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The how-to's run stands in for the quickstart's, with its entities in a store."""
    run_page(OWN_ENTITIES)
    Path("runs/quickstart").symlink_to("own")
    command = "entities --run runs/quickstart --output runs/entities --format store"
    monkeypatch.setattr(sys, "argv", ["docent_jax", *command.split()])
    importlib.import_module("docent_jax.__main__").main()


def _write_entities(folder: Path) -> None:
    rows = [
        {"name": name, "sentences": [f"{word} number {i} is here" for i in range(6)]}
        for name, word in THINGS.items()
    ]
    _write_json_lines(folder / "entities.jsonl", rows)
    queries = [
        {"text": f"more {word}", "entity": name, "split": split}
        for split in ("dev", "test")
        for name, word in THINGS.items()
    ]
    _write_json_lines(folder / "queries.jsonl", queries)


def _write_json_lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_languages(folder: Path) -> None:
    numbers = range(QUERIES)
    tables = {
        "queries": [(f"q{i}", f"query word{i % 7} chess", f"games,c{i % 5}") for i in numbers],
        "documents": [(f"d{i}", f"texto palabra{i % 7} juego", f"games,c{i % 5}") for i in numbers],
        "qrels": [
            (f"q{i}", f"d{j}", r) for i in numbers for j, r in ((i, 2), ((i + 7) % QUERIES, 1))
        ],
        "categories": [("games", f"c{i}") for i in range(5)],
    }
    for name, rows in tables.items():
        text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
