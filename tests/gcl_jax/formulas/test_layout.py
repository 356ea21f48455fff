"""Layout trees of LaTeX and of Presentation MathML, with the labels of Tangent."""
# ruff: noqa: RUF001 (mathematical signs)

import pytest

from gcl_jax.formulas import FormulaError, parse


def lines(formula: str) -> list[str]:
    return str(parse(formula)).split("\n")


@pytest.mark.parametrize(
    ("formula", "picture"),
    [
        ("x", "V!x"),
        ("x^2_i", "V!x|  a N!2|  b V!i"),
        ("x_i^2", "V!x|  a N!2|  b V!i"),
        (r"\frac{a}{b}+3.5", "O!divide|  o V!a|  u V!b|n +|n N!3.5"),
        (r"\sqrt[3]{x}", "O!root|  c N!3|  w V!x"),
        (r"\sum_{i=1}^n i", "∑|  o V!n|  u V!i|  n =|  n N!1|n V!i"),
        (r"\lim_{n\to\infty}x", "lim|  u V!n|  n →|  n V!∞|n V!x"),
        ("f(x,y)", "V!f|n M!()1x2|  w V!x|  n &comma;|    e V!y"),
        ("(a+b)^2", "M!()1x1|  w V!a|  n +|  n V!b|  a N!2"),
        (r"\left|x\right|", "M!||1x1|  w V!x"),
        ("|a|+|b|", "M!||1x1|  w V!a|n +|n M!||1x1|  w V!b"),
        ("[0,1)", "M!&lsqb;)1x2|  w N!0|  n &comma;|    e N!1"),
        (r"\lfloor x\rfloor", "⌊|n V!x|n ⌋"),
        (
            r"\begin{bmatrix}1&2\\3&4\end{bmatrix}",
            "M!&lsqb;&rsqb;2x2|  w N!1|    e N!2|      e N!3|        e N!4",
        ),
        (r"\begin{cases}a\\b\end{cases}", "{|n M!2x1|  w V!a|    e V!b"),
        (r"\bar x", "V!x|  o ¯"),
        (r"\overline{ab}", "M!1x1|  w V!a|  n V!b|  o ¯"),
        ("x''", "V!x|  a ′′"),
        ("x^*-y", "V!x|  a *|n -|n V!y"),
        (r"{}^{238}_{92}\mathrm{U}", "V!U|  c N!238|  d N!92"),
        (r"\text{if }x", "T!if|n V!x"),
        (r"\mathbf{B}\mathbb{RC}\mathfrak{P}", "V!𝐁|n V!ℝ|n V!ℂ|n V!𝔓"),
        (r"a\ldots b\cdots", "V!a|n V!…|n V!b|n V!⋯"),
        (r"\qvar{*1*}^2+?y", "?*1*|  a N!2|n +|n ?y"),
        (r"0.\overline{3}", "N!0.|n N!3|  o ¯"),
        ("a:=b", "V!a|n :=|n V!b"),
        (r"\text{so $x$ is}", "T!so|n V!x|n T!is"),
        ("x ?", "V!x|n &quest;"),
    ],
)
def test_latex(formula, picture):
    # "|" at the end of a line; fences of bars are doubled so that the picture can be split.
    expected = picture.replace("M!||", "M!\0\0").split("|")
    assert [line.replace("M!||", "M!\0\0") for line in lines(formula)] == expected


def math(inner: str) -> str:
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{inner}</math>'


@pytest.mark.parametrize(
    ("markup", "latex"),
    [
        ("<msup><mi>x</mi><mn>2</mn></msup>", "x^2"),
        ("<mrow><mo>(</mo><mi>𝑎</mi><mo>)</mo></mrow>", "(a)"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a,b)"),
        ("<mfenced open='[' close=')'><mi>a</mi><mi>b</mi></mfenced>", "[a,b)"),
        ("<mi>f</mi><mo>&ApplyFunction;</mo><mi>&alpha;</mi>", r"f\alpha"),
        ("<mmultiscripts><mi>U</mi><mprescripts/><mn>92</mn><none/></mmultiscripts>", "{}_{92}U"),
        (
            "<mstyle><mpadded><mi>x</mi></mpadded></mstyle><mspace/><mphantom><mi>y</mi></mphantom>",
            "x",
        ),
        ("<m:mi xmlns:m='http://www.w3.org/1998/Math/MathML'>x</m:mi>", "x"),
        ("<mrow><qvar name='a'/><mo>&minus;</mo><qvar>b</qvar></mrow>", r"\qvar{a}-\qvar{b}"),
        ("<mi>a</mi><mo>&</mo><mi>b</mi>", r"a\&b"),
    ],
)
def test_mathml_gives_the_tree_of_the_same_latex(markup, latex):
    assert parse(math(markup)) == parse(latex)


def test_constructs_with_missing_parts_are_rows():
    assert lines(math("<mfrac><mi>a</mi></mfrac>")) == ["V!a"]
    assert lines(math("<msubsup><mi>a</mi><mi>b</mi></msubsup>")) == ["V!a", "n V!b"]
    assert lines(math("<mtable><mtr><mtd/><mtd><mi>x</mi></mtd></mtr></mtable>")) == [
        "M!1x2",
        "  w W!",
        "    e V!x",
    ]


def test_scripts_find_their_place():
    assert lines("x{}_a^b") == ["V!x", "  a V!b", "  b V!a"]
    assert lines("T^a{}^b") == ["M!1x1", "  w V!T", "    a V!a", "  a V!b"]
    assert lines("+^2") == ["+", "  o N!2"]
    assert lines(r"\hat{\frac{a}{b}}") == [
        "M!1x1",
        "  w O!divide",
        "    o V!a",
        "    u V!b",
        "  o ^",
    ]


def test_wikipedia_dialect():
    assert parse(r"\R \isin \reals \and \part x \empty") == parse(
        r"\mathbb{R} \in \mathbb{R} \land \partial x \emptyset"
    )
    assert parse(r"\bold{B}") == parse(r"\mathbf{B}")
    assert parse(r"\mbox{if }x") == parse(r"\text{if }x")


def test_nothing_to_see_is_an_error():
    with pytest.raises(FormulaError, match="nothing that could be a node"):
        parse(r"\,\;")


@pytest.mark.parametrize(
    ("markup", "labels"),
    [
        ("<mmultiscripts><mrow/></mmultiscripts><mo>|</mo>", "|"),
        ("<mmultiscripts><mrow/><mprescripts/></mmultiscripts><mi>x</mi>", "V!x"),
        ("<mtr><mtd><mi>x</mi></mtd></mtr>", "V!x"),
        ("<mtable><mtr><mtr><mtd><mi>x</mi></mtd></mtr></mtr></mtable>", "M!1x1 V!x"),
        ("<mtr><mtr><mtd><mi>x</mi></mtd></mtr><mi>y</mi></mtr>", "V!x V!y"),
        ("<mtable><mtd><mi>x</mi></mtd></mtable>", "M!1x1 V!x"),
    ],
)
def test_what_stands_at_an_unusual_place_is_kept(markup, labels):
    assert " ".join(parse(math(markup)).labels) == labels
