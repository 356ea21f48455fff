"""Operator trees of Content MathML and of parallel markup."""
# ruff: noqa: RUF001 (mathematical signs)

import time

import pytest

from gcl_jax.formulas import FormulaError, parse
from gcl_jax.formulas.expressions import MAX_NODES
from tests.gcl_jax.formulas.test_precedence import written


def content(inner: str) -> str:
    return written(parse(f"<math>{inner}</math>", "opt"))


SUBSCRIPT = '<csymbol cd="ambiguous">subscript</csymbol>'


@pytest.mark.parametrize(
    ("markup", "tree"),
    [
        ("<apply><plus/><ci>x</ci><cn>1</cn></apply>", "U!plus(V!x, N!1)"),
        ("<apply><ci>f</ci><ci>x</ci></apply>", "F!f(V!x)"),
        ("<apply><root/><ci>x</ci></apply>", "O!root(V!x, N!2)"),
        ("<apply><root/><degree><cn>3</cn></degree><ci>x</ci></apply>", "O!root(V!x, N!3)"),
        (f"<apply>{SUBSCRIPT}<ci>x</ci><ci>i</ci></apply>", "O!SUB(V!x, V!i)"),
        ("<apply><power/><ci>x</ci><cn>2</cn></apply>", "O!SUP(V!x, N!2)"),
        (
            f"<apply><apply>{SUBSCRIPT}<sum/><ci>i</ci></apply><ci>x</ci></apply>",
            "+!O(O!SUB(O!sum, V!i), V!x)",
        ),
        ("<vector><ci>a</ci><ci>b</ci></vector>", "M!V-2(V!a, V!b)"),
        (
            "<interval closure='open-closed'><cn>0</cn><cn>1</cn></interval>",
            "O!interval(O-C)(N!0, N!1)",
        ),
        ("<matrix><matrixrow><cn>1</cn><cn>2</cn></matrixrow></matrix>", "M!M-1x2(M!R(N!1, N!2))"),
        ("<cn type='rational'>1<sep/>2</cn>", "N!1/2"),
        ("<cn type='e-notation'>1<sep/>5</cn>", "N!1e5"),
        ("<cn type='complex-cartesian'>1<sep/>5</cn>", "N!1+i5"),
        ("<cn type='complex-polar'>1<sep/>5</cn>", "N!1∠5"),
        ("<apply><minus/><pi/><infinity/></apply>", "O!minus(V!π, C!infinity)"),
        ('<apply><csymbol cd="latexml">for-all</csymbol><ci>x</ci></apply>', "O!forall(V!x)"),
        ("<apply><ci>normal-→</ci><ci>a</ci><ci>b</ci></apply>", "F!normal-→(V!a, V!b)"),
        ("<apply><ci>→</ci><ci>𝑎</ci><ci>b</ci></apply>", "F!normal-→(V!a, V!normal-b)"),
        ("<apply><times/><mtext>if </mtext><qvar>*1*</qvar></apply>", "U!times(T!if, ?*1*)"),
        ("<ci><mover><mi>x</mi><mo>→</mo></mover></ci>", "F!normal-→(V!x)"),
        (
            '<cerror><csymbol cd="ambiguous">fragments</csymbol><csymbol cd="unknown">A</csymbol>'
            "<eq/></cerror>",
            "E!(O!fragments, -!a, U!eq)",
        ),
    ],
)
def test_elements(markup, tree):
    assert content(markup) == tree


@pytest.mark.parametrize("share", ['<share href="#.cmml"/>', '<share href="#b"/>'])
def test_relations_share_the_side_between_them(share):
    chain = (
        '<apply><and/><apply><eq/><ci>a</ci><ci id="b">b</ci></apply>'
        f"<apply><lt/>{share}<ci>c</ci></apply></apply>"
    )
    assert content(chain) == "U!and(U!eq(V!a, V!b), O!lt(V!b, V!c))"


def test_shares_that_multiply_are_refused():
    bomb = "<apply><and/>" + "".join(
        f'<apply id="a{i}"><plus/><share href="#a{i + 1}"/><share href="#a{i + 1}"/></apply>'
        for i in range(60)
    )
    with pytest.raises(FormulaError, match=f"more than {MAX_NODES} nodes"):
        content(f"{bomb}</apply>")
    with pytest.raises(FormulaError, match=f"more than {MAX_NODES} nodes"):
        content('<apply id="a"><plus/><apply><minus/><share href="#a"/></apply></apply>')


def test_a_share_of_a_wide_ancestor_is_refused_soon():
    start = time.process_time()
    with pytest.raises(FormulaError, match=f"more than {MAX_NODES} nodes"):
        content(
            '<apply id="r"><plus/><apply><plus/><share href="#r"/></apply>'
            + "<ci/>" * 20_000
            + "</apply>"
        )
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    ("markup", "tree"),
    [
        ('<apply><plus/><ci id="a">a</ci><share href="#a"/></apply>', "U!plus(V!a, V!a)"),
        ('<apply><plus/><share href="#b"/></apply>', "U!plus(W!)"),
        ('<share href="#b"/>', "W!"),
        ('<apply><share href="#b"/><ci>x</ci></apply>', "+!(W!, V!x)"),
        ('<list><ci id="f">f</ci><apply><share href="#f"/><ci>x</ci></apply></list>',
         "M!L-2(V!f, +!(V!f, V!x))"),
        ('<list><ci id="a">a</ci><share id="b" href="#a"/><apply><minus/><share href="#b"/>'
         "</apply></list>", "M!L-3(V!a, V!a, O!minus(V!a))"),
        ('<apply><plus/><share id="a" href="#b"/><share id="b" href="#a"/></apply>',
         "U!plus(W!, W!)"),
    ],
)  # fmt: skip
def test_shares_stand_anywhere(markup, tree):
    assert content(markup) == tree


def parallel(presentation: str, meaning: str) -> str:
    return (
        f"<semantics>{presentation}"
        f'<annotation-xml encoding="MathML-Content">{meaning}</annotation-xml>'
        '<annotation encoding="application/x-tex">x</annotation></semantics>'
    )


def test_parallel_markup_gives_each_tree_from_its_part():
    markup = f"<math>{parallel('<mi>x</mi>', '<ci>y</ci>')}</math>"
    assert parse(markup, "slt").labels == ("V!x",)
    assert parse(markup, "opt").labels == ("V!y",)
    empty = f"<math>{parallel('<mi>x</mi>', '')}</math>"
    assert parse(empty, "opt").labels == ("V!x",)


def test_private_symbols_are_read_as_they_are_presented():
    presentation = '<msub id="s"><mi id="j">J</mi><mi id="n">ν</mi></msub>'
    meaning = (
        '<apply xref="s"><csymbol cd="dlmf" xref="j">Bessel-J</csymbol>'
        '<csymbol cd="wikidata" xref="n">Q11567</csymbol></apply>'
    )
    assert content(parallel(presentation, meaning)) == "O!SUB(V!J, V!ν)"
    assert content('<csymbol cd="wikidata">Q11567</csymbol>') == "-!q11567"


def test_content_alone_has_no_layout():
    with pytest.raises(FormulaError, match="no layout"):
        parse("<math><ci>x</ci></math>", "slt")
    with pytest.raises(FormulaError, match="without an expression"):
        parse("<math><apply/></math>", "opt")
