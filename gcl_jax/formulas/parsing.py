"""A formula as text -> its trees."""

import contextlib
from collections.abc import Iterator

from gcl_jax.formulas.content import content_tree
from gcl_jax.formulas.errors import FormulaError
from gcl_jax.formulas.latex import latex_markup
from gcl_jax.formulas.layout import layout_tree
from gcl_jax.formulas.markup import is_mathml
from gcl_jax.formulas.mathml import Markup, parallel_markup
from gcl_jax.formulas.precedence import operator_tree
from gcl_jax.formulas.presentation import read_row
from gcl_jax.formulas.trees import Layout, Tree


def parse(formula: str | bytes, layout: Layout = "slt") -> Tree:
    """The tree of a formula.

    Args:
        formula: LaTeX, with or without `$` around it, or MathML: Presentation, Content or both in
            parallel, with or without HTML around it. Wildcards are `\\\\qvar{x}` and `?x` in
            LaTeX, `qvar` elements in MathML. Bytes are UTF-8.
        layout: `slt` for how it is written, `opt` for what it computes: from Content MathML where
            the formula brings it, else by the strength of its operators.

    Raises:
        FormulaError: the formula cannot be read; says what is wrong and where.
    """
    text = _text(formula)
    if layout not in ("slt", "opt"):
        raise FormulaError(f"layout {layout!r}", remedy="Choose 'slt' or 'opt'.")
    with _own_errors():
        if is_mathml(text):
            markup = parallel_markup(text)
            remedy = "Ask for layout='opt', or give both kinds."
            return _slt(markup, remedy) if layout == "slt" else _opt(markup)
        row = read_row(latex_markup(text))
        return layout_tree(row) if layout == "slt" else operator_tree(row)


def parse_both(formula: str | bytes) -> tuple[Tree, Tree]:
    """Layout tree and operator tree of a formula, which is read once.

    Args:
        formula: see `parse`.

    Raises:
        FormulaError: see `parse`; and Content MathML alone, which has no layout.
    """
    text = _text(formula)
    with _own_errors():
        if is_mathml(text):
            markup = parallel_markup(text)
            return _slt(markup, "Both trees are asked for: give both kinds."), _opt(markup)
        row = read_row(latex_markup(text))
        return layout_tree(row), operator_tree(row)


@contextlib.contextmanager
def _own_errors() -> Iterator[None]:
    """Turns faults of this parser into refusals: one formula must not end a batch."""
    try:
        yield
    except FormulaError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FormulaError(
            f"cannot be read: internal error {type(error).__name__}: {error}",
            remedy="Leave it out, and report it: the parser is at fault.",
        ) from error


def _text(formula: str | bytes) -> str:
    if isinstance(formula, bytes):
        try:
            return formula.decode()
        except UnicodeDecodeError as error:
            raise FormulaError(f"not UTF-8: {error.reason}", error.start) from None
    if not isinstance(formula, str):
        raise FormulaError(
            f"not a text but {type(formula).__name__}", remedy="Give LaTeX or MathML as text."
        )
    if not formula.isascii():
        try:
            formula.encode()
        except UnicodeEncodeError as error:
            raise FormulaError("half a surrogate pair", error.start, formula) from None
    return formula


def _slt(markup: Markup, remedy: str) -> Tree:
    if markup.presentation is None:
        raise FormulaError("Content MathML alone has no layout", remedy=remedy)
    return layout_tree(read_row(markup.presentation))


def _opt(markup: Markup) -> Tree:
    if markup.content is not None:
        try:
            return content_tree(markup.content, markup.presented)
        except FormulaError:
            if markup.presentation is None:
                raise
    assert markup.presentation is not None
    return operator_tree(read_row(markup.presentation))
