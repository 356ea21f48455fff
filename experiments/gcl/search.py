r"""Searches a collection of formulas for one written in LaTeX or MathML.

COMMAND   python -m experiments.gcl.search '\frac{a}{b+c}' --run runs/gcl --collection FILE
TIME      the first call with a collection parses and encodes it; then seconds
HARDWARE  a CPU core

The collection is a file as `python -m gcl_jax parse` reads it: a formula a line, a table or JSON
lines. It is put into a store, by default in the run folder, which then holds it and nothing else; a
store that does already is not filled again. Without --collection the store is searched as it is.
--html also writes the answers as a page, formulas rendered by the browser.
"""

import dataclasses
import html
from collections.abc import Sequence
from pathlib import Path

import tyro

import gcl_jax
from experiments.serve.mathml import rendered
from gcl_jax.datasets.formula_files import Format
from gcl_jax.formulas.latex import latex_markup
from gcl_jax.formulas.markup import is_mathml, read_mathml
from gcl_jax.inference import FoundFormula, print_answers
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
td, th {{ padding: .4em 1em; text-align: left; border-bottom: 1px solid #ccc; }}
</style>
<h1>{query}</h1>
<table>
<tr><th>rank<th>score<th>formula<th>id</tr>
{rows}
</table>
</html>
"""


@dataclasses.dataclass(frozen=True)
class Command:
    """What to search for and where.

    Attributes:
        query: LaTeX or MathML.
        run: run folder of a trained encoder.
        collection: file of formulas; the store then holds exactly these, and what else was in it is
            deleted. None = search the store as it is.
        format: of the collection; by default what its name tells.
        column: column or field that holds the formula; by default a usual name, such as latex.
        id_column: column or field that holds the id; by default a usual name, else the line's
            number.
        store: folder or URL of the store; None = `store` in the run folder.
        slt_weight: share of layout trees in the score, from 0 to 1, as the store was made with;
            None = as training chose it (the run's results.json), else .5.
        data_dir: where parsed formulas are kept.
        k: answers.
        html: page to write.
    """

    query: tyro.conf.Positional[str]
    run: Path
    collection: Path | None = None
    format: Format | None = None
    column: str | None = None
    id_column: str | None = None
    store: str | None = None
    slt_weight: float | None = None
    data_dir: Path = Path("data")
    k: int = 10
    html: Path | None = None


@one_screen_errors
def main() -> None:
    """Searches as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.gcl.search")
    quiet_libraries()
    store = str(command.run / "store") if command.store is None else command.store
    if command.collection is None:
        searcher = gcl_jax.load(command.run, store, command.slt_weight)
    else:
        searcher = gcl_jax.index(
            command.collection,
            command.run,
            store,
            command.data_dir,
            command.slt_weight,
            format=command.format,
            column=command.column,
            id_column=command.id_column,
        )
    answers = searcher.search(command.query, command.k)
    print_answers(command.query, answers)
    if command.html is not None:
        command.html.write_text(page(command.query, answers), encoding="utf-8")


def page(query: str, answers: Sequence[FoundFormula]) -> str:
    """The answers as an HTML page."""
    rows = "\n".join(
        f"<tr><td>{rank}<td>{score:.4f}<td>{shown(formula)}<td>{html.escape(name)}</tr>"
        for rank, (name, formula, score) in enumerate(answers, 1)
    )
    return PAGE.format(title=html.escape(query), query=shown(query), rows=rows)


def shown(formula: str) -> str:
    """A formula as MathML for a page, or as code where it cannot be read or is too large."""
    try:
        math = read_mathml(formula) if is_mathml(formula) else latex_markup(formula)
    except InputError:
        math = None
    markup = "" if math is None else rendered(math)
    return markup or f"<code>{html.escape(formula)}</code>"


if __name__ == "__main__":
    main()
