"""What a page shows of a formula is MathML and nothing else."""

from xml.etree import ElementTree

import pytest

pytest.importorskip("math_core", reason="the extra `gcl` is not installed")

from experiments.serve.mathml import rendered
from gcl_jax.formulas.latex import latex_markup
from gcl_jax.formulas.markup import read_mathml


def test_a_formula_is_shown_as_the_converter_has_it():
    assert rendered(latex_markup(r"\frac{a}{b}")) == (
        '<math display="block"><mfrac><mi>a</mi><mi>b</mi></mfrac></math>'
    )
    big = rendered(latex_markup(r"\Big|"))
    assert 'stretchy="true"' in big
    assert 'minsize="1.623em"' in big


def test_styles_become_classes():
    markup = rendered(latex_markup(r"\begin{aligned}a&=b\end{aligned}"))
    assert '<mtd class="right"><mi>a</mi></mtd><mtd class="left">' in markup
    assert " style=" not in markup
    assert '<menclose class="boxed">' in rendered(latex_markup(r"\boxed{x}"))


def test_wildcards_have_names():
    assert '<mi class="wildcard">?x</mi>' in rendered(latex_markup(r"?x + \qvar{y}"))


@pytest.mark.parametrize(
    "inside",
    [
        '<mi onclick="alert(1)" href="javascript:alert(1)" style="x:expression(alert(1))">a</mi>',
        "<script>alert(1)</script><mi>a</mi>",
        '<maction actiontype="statusline"><mi>a</mi></maction><mi>a</mi>',
        "<mtext><img src='x' onerror='alert(1)'/></mtext><mi>a</mi>",
        '<mi mathvariant="alert(1)">a</mi><mspace width="1em;alert(1)"/>',
        "<semantics><mi>a</mi><annotation-xml encoding='text/html'><script>alert(1)</script>"
        "</annotation-xml></semantics>",
        "<mi>a</mi><style>alert(1)</style><iframe src='alert(1)'/>",
        "<mglyph src='http://alert(1)'/><mi>a</mi>",
        '<mi class="alert(1)" id="q">a</mi>',
    ],
)
def test_nothing_else_reaches_the_page(inside):
    markup = rendered(read_mathml(f"<math>{inside}</math>"))
    assert "alert" not in markup
    assert "<mi>a</mi>" in markup
    assert {e.tag for e in ElementTree.XML(markup).iter()} <= {
        "math",
        "mi",
        "mtext",
        "mspace",
        "mrow",
    }


def test_text_is_escaped():
    markup = rendered(latex_markup(r"\text{<script>alert(1)</script> \& more}"))
    assert "<script" not in markup
    assert "".join(ElementTree.XML(markup).itertext()).count("<script>alert(1)</script>") == 1


def test_what_is_too_large_or_deep_is_not_shown():
    assert rendered(latex_markup("x^2+" * 4_900)) == ""
    assert rendered(latex_markup("{" * 100 + "x" + "}" * 100)) != ""
    assert rendered(latex_markup(r"\sqrt{" * 450 + "x" + "}" * 450)) == ""
