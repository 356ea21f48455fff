"""LaTeX -> MathML: what people type, what is refused and where, what could break a converter."""

import pytest
from math_core import LatexToMathML

from gcl_jax.formulas import FormulaError, parse
from gcl_jax.formulas.latex import (
    MAX_COMMANDS,
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_OPEN,
    nesting,
    prepare,
    unclosed_delimiters,
)
from gcl_jax.formulas.macros import MACROS


def refused(formula: str) -> FormulaError:
    with pytest.raises(FormulaError) as error:
        parse(formula)
    return error.value


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("$x+1$", "x+1"),
        (r"\[x+1\]", "x+1"),
        ("$$x$$", "x"),
        ("x \\", "x"),
        ("a &lt; b", "a<b"),
        ("a...b", r"a\ldots b"),
        (r"x_0^'", "x_0'"),
        (r"\begin{align}a&=b\end{align}", r"\begin{aligned}a&=b\end{aligned}"),
        (r"\begin{alignat}{2}a&=b\end{alignat}", r"\begin{aligned}a&=b\end{aligned}"),
        (r"\begin{smallmatrix}a\end{smallmatrix}", r"\begin{matrix}a\end{matrix}"),
        (r"\begin{array}[t]{*{20}{c}}a&b\end{array}", r"\begin{matrix}a&b\end{matrix}"),
        (r"\begin{equation}x\label{a}\end{equation}", "x"),
        (r"\sqrt{x+1", r"\sqrt{x+1}"),
        (r"\Bigg\lbrack x\Bigg\rbrack", r"\Bigg[x\Bigg]"),
        ("a&b", r"\begin{aligned}a&b\end{aligned}"),
        (r"\operatorname{Log-\mathcal{N}}", r"\mathrm{Log-\mathcal{N}}"),
        ("x\x00y", "x y"),
    ],
)
def test_what_is_typed_is_read_as_meant(typed, meant):
    assert parse(typed) == parse(meant)


def test_every_macro_converts():
    converter = LatexToMathML(macros=MACROS, allow_unreliable_rendering=True)
    for name in MACROS:
        assert converter.convert_with_local_state(f"\\{name}{{x}}{{y}}", displaystyle=True)


def test_wildcards_have_names_and_the_private_use_area_stays_closed():
    assert prepare(r"\qvar{*1*}+?ab+\qvar{*1*}") == ("\ue000+\ue001+\ue000", ["*1*", "ab"])
    assert parse("\ue000+x").labels[0] == "V!\ufffd"
    assert parse(r"\text{Frequency \qvar{a}}").labels == ("T!Frequency", "?a")
    assert parse(r"\mathrm{a?x}").labels == ("V!a", "?x")
    assert parse(r"\mathrm{?b c}").labels[0] == "?b"
    # One script, one numerator.
    script = parse(r"x_{\text{a ?b}}")
    assert (script.labels, script.edge_labels) == (("V!x", "T!a", "?b"), ("", "b", "n"))
    half = parse(r"\frac{\text{a ?b}}{c}")
    assert half.labels == ("O!divide", "T!a", "?b", "V!c")
    assert half.edge_labels == ("", "o", "n", "u")
    assert parse("x=?").labels[-1] == "&quest;"


@pytest.mark.parametrize(
    ("formula", "reason", "position"),
    [
        (r"x+\foobar{y}", "Unknown command", 2),
        (r"αβ𝑥+\foobar", "Unknown command", 4),
        ("x^2^3", "Duplicate", 3),
        ("", "empty", 0),
        ("$ $", "empty", 0),
        (r"\newcommand{\a}{\a\a}\a", "expansions", 0),
        (r"\def\a{" + "x" * 5_000 + r"}" + r"\a" * 45, "expands to", 0),
        (r"\newcommand{\a}" + "{" * 21 + r"\a" + "}" * 21 + r"\a", "defines macros", 0),
        ("x" * (MAX_LENGTH + 1), "more than 20000", MAX_LENGTH),
        ("x" + "{" * (MAX_DEPTH + 1) + "}" * (MAX_DEPTH + 1), "deeper than 1000", MAX_DEPTH + 1),
        (r"\b" * (MAX_COMMANDS + 1), "more than 4000", 0),
        ("(" * (MAX_OPEN + 1), "nothing closes", 0),
        (r"{\bigl(}" * (MAX_OPEN + 1), "nothing closes", 0),
    ],
)
def test_refusals_say_why_and_where(formula, reason, position):
    error = refused(formula)
    assert reason in error.problem
    assert error.position == position


@pytest.mark.parametrize(
    "formula",
    [
        r"\frac{1}{" * MAX_DEPTH + "x" + "}" * MAX_DEPTH,
        "x^{" * MAX_DEPTH + "x" + "}" * MAX_DEPTH,
        r"\left(" * 900 + "x" + r"\right)" * 900,
        "(" * 900 + "x" + ")" * 900,
        r"\sqrt" * 2_000 + " x",
        r"\frac1" * 1_500 + "x",
        r"\begin{matrix}" * 200 + "1" + r"\end{matrix}" * 200,
        "+".join(f"x_{{{i}}}" for i in range(1_300)),
        "|" * 2_000,
        "x'" * 2_000,
        r"\{x|" * 300 + r"\}" * 300,
    ],
)
def test_long_and_deep_formulas_give_trees(formula):
    assert len(parse(formula, "slt")) > 100
    parse(formula, "opt")


def test_nesting_counts_groups_and_ignores_escaped_braces():
    assert nesting(r"\{{a{b}}\}") == (2, 4)
    assert nesting(r"\left(\begin{matrix}x\end{matrix}\right)")[0] == 3
    assert nesting(r"\leftarrow")[0] == 0


@pytest.mark.parametrize(
    ("formula", "unclosed"),
    [
        ("((x)", 1),
        ("[0,1)", 0),
        ("{(}{(})", 2),
        (r"\left(x\right]", 0),
        (r"\langle x\rangle\lvert y\rvert", 0),
        (r"\middle|", 1),
        (r"(x^)", 1),
        (r"(\hat)", 1),
    ],
)
def test_delimiters_that_nothing_closes_are_counted(formula, unclosed):
    assert unclosed_delimiters(formula) == unclosed
