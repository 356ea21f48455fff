"""MathML from anywhere: no entities but characters, nothing read from elsewhere, errors placed."""
# ruff: noqa: RUF001 (mathematical signs)

import pytest

from gcl_jax.formulas import FormulaError, parse
from gcl_jax.formulas.markup import is_mathml, read_mathml


def test_markup_is_told_from_latex():
    assert is_mathml(" <math><mi>x</mi></math>")
    assert is_mathml('\ufeff<?xml version="1.0"?><html><m:math/></html>')
    assert is_mathml("<apply><plus/></apply>")
    assert not is_mathml("a<b")
    assert not is_mathml("text <math>x")
    assert not is_mathml("<x")


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<math><mi>&alpha;</mi></math>", "α"),
        ("<math><mi>&#x3b1;&#945;</mi></math>", "αα"),
        ("<math><mo>&lt;</mo></math>", "<"),
        ("<math><mo>a & b</mo></math>", "a & b"),
        ("<math><mi>&bogus;</mi></math>", "&bogus;"),
        ("<math><mi>&#0;\x01x</mi></math>", "\ufffd\ufffdx"),
        ("<math><mi><![CDATA[x<y]]></mi></math>", "x<y"),
        ("<math><!-- c --><?pi x?><mi>x</mi></math>", "x"),
        ('<!DOCTYPE math SYSTEM "file:///etc/passwd"><math><mi>x</mi></math>', "x"),
        ("<p>before <m:math xmlns:m='urn:m'><m:mi>x</m:mi></m:math> after & so on", "x"),
        ('<math xlink:href="a" xml:id="b"><mi a:b="c:d=e">x</mi></math>', "x"),
    ],
)
def test_characters_and_surroundings(markup, text):
    assert "".join(read_mathml(markup).itertext()) == text


@pytest.mark.parametrize(
    "markup",
    [
        '<!DOCTYPE m [<!ENTITY a "x">]><math><mi>&a;</mi></math>',
        '<!DOCTYPE m [<!ENTITY x SYSTEM "file:///etc/passwd">]><math><mi>&x;</mi></math>',
        '<math><!ENTITY a "x"><mi>&a;</mi></math>',
    ],
)
def test_declared_entities_are_refused(markup):
    with pytest.raises(FormulaError, match="a declaration of entities") as error:
        parse(markup)
    assert markup[error.value.position :].startswith("<!")


def test_xinclude_reads_nothing():
    markup = (
        '<math xmlns:xi="http://www.w3.org/2001/XInclude">'
        '<xi:include href="/etc/passwd" parse="text"/></math>'
    )
    assert "root" not in "".join(read_mathml(markup).itertext())


@pytest.mark.parametrize(
    ("markup", "problem"),
    [
        ("<math><mi>x</math>", "mismatch"),
        ("<math>\n<mi>x</mi>", r"line 2"),
        ("<math>" + "<mrow>" * 300 + "</mrow>" * 300 + "</math>", "depth"),
        ("<math>" + "x" * 1_000_001 + "</math>", "more than 1000000"),
        ("<math a='1' a='2'/>", "redefined"),
    ],
)
def test_what_is_not_well_formed_says_where(markup, problem):
    with pytest.raises(FormulaError, match=problem):
        read_mathml(markup)
