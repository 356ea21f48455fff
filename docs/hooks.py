"""What the site generates when it is built: tables of results, trees of formulas, the reference.

`mkdocs.yml` names this file. Tables come from `experiments/results` and `benchmarks/results` as in
RESULTS.md; trees are those of `gcl_jax`; the reference has a page for each module, so that none is
forgotten.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from math_core import LatexToMathML
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import gcl_jax
from experiments import report

ROOT = Path(__file__).parent.parent
PACKAGES = ("retrieval_jax", "docent_jax", "gcl_jax", "ltr_jax", "mathsim_jax")
REFERENCE = "reference"
LAYOUTS = {"slt": "symbol layout tree", "opt": "operator tree"}
# A formula of a docstring, alone in its paragraph.
FORMULA = re.compile(r"<p>\$\$(.+?)\$\$</p>", re.DOTALL)
TREES = re.compile(r"^<!-- trees: (.+) -->$", re.MULTILINE)


def public_modules(package: Path) -> Iterator[str]:
    """Dotted names of a package's modules, itself first; those that begin with `_` are private."""
    for path in sorted(package.rglob("*.py"), key=lambda path: (path.name != "__init__.py", path)):
        *folders, name = path.relative_to(ROOT).with_suffix("").parts
        parts = folders if name == "__init__" else [*folders, name]
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts)


def page_of(module: str) -> str:
    """Path of a module's page below `docs`."""
    return f"{REFERENCE}/{module}.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the reference at the end of the navigation, a section for each package."""
    sections: list[Any] = [
        {package: [{name: page_of(name)} for name in public_modules(ROOT / package)]}
        for package in PACKAGES
    ]
    assert config.nav is not None
    config.nav = [*config.nav, {"Reference": sections}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the reference, which mkdocstrings fills from docstrings."""
    for package in PACKAGES:
        for module in public_modules(ROOT / package):
            page = f"# {module}\n\n::: {module}\n"
            files.append(File.generated(config, page_of(module), content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fills the blocks of results and benchmarks of a page, and draws its trees."""
    return TREES.sub(lambda match: drawn_trees(match[1]), report.fill(markdown))


def on_page_content(content: str, **_: Any) -> str:
    """Turns the formulas of docstrings into MathML, which browsers draw."""
    convert = LatexToMathML().convert_with_local_state
    return FORMULA.sub(
        lambda match: convert(html.unescape(match[1]), displaystyle=True),
        content,
    )


def drawn_trees(formula: str) -> str:
    """Both trees of a formula as pictures, in HTML."""
    figures = (
        f"<figure><figcaption>{name}</figcaption>"
        f"{gcl_jax.parse(formula, layout=layout).to_svg().strip()}</figure>"
        for layout, name in LAYOUTS.items()
    )
    return f'<div class="trees">{"".join(figures)}</div>'
