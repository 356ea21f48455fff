"""The collection that is there without any: formulas in the docstrings of installed libraries."""

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

import gcl_jax
from docent_jax.datasets.docstrings import clean_docstring
from docent_jax.datasets.public_objects import PublicObject, publicity
from docent_jax.datasets.python_api import (
    DEFAULT_PACKAGES,
    collect_importable,
    python_api_config,
)
from gcl_jax.config import Config, DataConfig
from gcl_jax.data import Formulas, forest_of
from gcl_jax.datasets.parsing import parser_fingerprint
from gcl_jax.encoding import index_formulas
from gcl_jax.formulas import FormulaError, Tree, parse_both
from gcl_jax.inference import FINGERPRINT_VERSION, distinct_ids
from gcl_jax.model import init_params, make_encoder
from gcl_jax.pretraining import PACKAGE, VOCABULARY, fingerprint, model_vocabulary
from gcl_jax.scoring import document_vectors
from retrieval_jax.checkpoints import Checkpoints
from retrieval_jax.config import to_dict
from retrieval_jax.errors import InputError
from retrieval_jax.kept import content_name, keep
from retrieval_jax.runs import create_run
from retrieval_jax.store import EmbeddingStore

CONFIG = Config(data=DataConfig(min_count=1))
"""Of the encoder: the package's, but for rare symbols, which are known too."""

LEAST_NODES = 3
"""Of a formula's layout tree: names of variables alone are not worth finding."""

MAX_SOURCES = 20
"""Objects that are named for a formula, at most."""

_DIRECTIVE = re.compile(r"^([ \t]*)\.\. math::[ \t]*(.*)$")
_OPTION = re.compile(r"\s*:[\w-]+:")
_ROLE = re.compile(r":math:`([^`]+)`")
_PUNCTUATION = re.compile(r"(?:\s|\\[,;]|[.,;])+$")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class SourcedFormula(NamedTuple):
    """A formula of docstrings.

    Attributes:
        latex: as written, white space joined.
        sources: dotted names of the objects whose docstrings have it.
        about: summary line of the first.
    """

    latex: str
    sources: tuple[str, ...]
    about: str


def formulas_of_docstring(docstring: str) -> Iterator[str]:
    """The formulas of `.. math::` directives and `:math:` roles, in reStructuredText.

    Paragraphs of a directive are formulas of their own, as Sphinx has it; some are empty.
    """
    lines = docstring.expandtabs().split("\n")
    place = 0
    while place < len(lines):
        directive = _DIRECTIVE.match(lines[place])
        place += 1
        if directive is None:
            continue
        indent, block = len(directive[1]), [directive[2]]
        while place < len(lines) and _is_deeper(lines[place], indent):
            block.append("" if _OPTION.match(lines[place]) else lines[place].strip(" "))
            place += 1
        for paragraph in re.split(r"\n\s*\n", "\n".join(block)):
            yield _joined(paragraph)
    for role in _ROLE.finditer(docstring):
        yield _joined(role[1])


def _joined(latex: str) -> str:
    """On one line, without the punctuation of the sentence that it stood in."""
    return _PUNCTUATION.sub("", re.sub(r"[ \t\r\n]+", " ", latex).strip(" "))


def _is_deeper(line: str, indent: int) -> bool:
    return not line.strip() or len(line) - len(line.lstrip()) > indent


def gather(objects: Sequence[PublicObject]) -> list[SourcedFormula]:
    """The different formulas of objects' docstrings, in order.

    Formulas with control characters, which a docstring that is not raw makes of `\\frac`, are
    left out.
    """
    objects_of: dict[str, list[PublicObject]] = {}
    for item in objects:
        for formula in dict.fromkeys(formulas_of_docstring(item.docstring)):
            if formula and not _CONTROL.search(formula):
                objects_of.setdefault(formula, []).append(item)
    summary = functools.cache(_summary)
    sourced = []
    for formula, items in objects_of.items():
        items = sorted(items, key=lambda item: publicity(item.paths[0]))[:MAX_SOURCES]
        names = tuple(item.paths[0] for item in items)
        sourced.append(SourcedFormula(formula, names, summary(items[0].docstring)))
    return sourced


def _summary(docstring: str) -> str:
    """The first sentence; a formula at its end has left a colon or a comma before the full stop."""
    return re.sub(r"[:,;]+\s*\.$", ".", clean_docstring(docstring).summary)


def prepare(folder: Path, packages: Sequence[str] = DEFAULT_PACKAGES) -> Path:
    """Makes a run folder with an untrained path encoder and an indexed collection, or finds it.

    The encoder hashes the paths of both trees: nothing is learnt.

    Args:
        folder: of such collections; each is named by the versions of its packages, and by the
            encoder and the parser.
        packages: import names of installed packages.

    Returns:
        The run folder; its store is the folder `store` in it.

    Raises:
        InputError: a package that is not installed, or no formula in any docstring.
    """
    made_by = content_name(
        [repr(CONFIG), parser_fingerprint(parse_both), f"stores {FINGERPRINT_VERSION}"]
    )
    name = f"{python_api_config(packages).name}-{made_by[:12]}"

    def write(run: Path) -> None:
        print(f"formulas in the docstrings of {', '.join(packages)}: made once, in a minute or so")
        objects, _ = collect_importable(packages)
        build(run, gather(objects))

    return keep(folder, name, write)


def build(path: Path, sourced: Sequence[SourcedFormula], config: Config = CONFIG) -> None:
    """Writes a run folder with a fresh encoder, and its store with the formulas that parse.

    Args:
        path: run folder, empty or absent.
        sourced: the formulas.
        config: of the encoder.

    Raises:
        InputError: no formula parses.
    """
    read = [(formula, trees) for formula in sourced if (trees := _trees(formula.latex))]
    if not read:
        raise InputError("no formula of the collection can be read", "Name other packages.")
    slt, opt = (forest_of([trees[layout] for _, trees in read]) for layout in range(2))
    formulas = Formulas(tuple(distinct_ids([of.sources[0] for of, _ in read])), slt, opt)

    vocabulary = model_vocabulary(formulas, config)
    tables = index_formulas(formulas, vocabulary, config.model.layout, config.data)
    run = create_run(path, PACKAGE, config, fingerprint(tables, vocabulary))
    dim = config.model.hidden
    run.write_json(VOCABULARY, to_dict(vocabulary) | {"feature_dim": dim})
    encoder = make_encoder(config.model, vocabulary, dim)
    with Checkpoints(path) as checkpoints:
        checkpoints.save_best(0, init_params(encoder, jax.random.key(config.training.seed)))

    searcher = gcl_jax.load(path)
    encoded = searcher.encode_formulas(formulas)
    vectors = document_vectors(encoded, config.model.document_exponent)
    store = EmbeddingStore.create(path / "store", vectors.shape[1], searcher.fingerprint)
    metadata = [
        {"formula": of.latex, "sources": list(of.sources), "about": of.about} for of, _ in read
    ]
    store.add(formulas.ids, vectors, metadata)


def _trees(latex: str) -> tuple[Tree, Tree] | None:
    """Both trees of a formula that is worth finding."""
    try:
        slt, opt = parse_both(latex)
    except FormulaError:
        return None
    return (slt, opt) if len(slt) >= LEAST_NODES else None
