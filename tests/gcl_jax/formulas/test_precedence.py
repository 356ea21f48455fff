"""Operator trees of formulas without Content MathML."""
# ruff: noqa: RUF001 (mathematical signs)

import pytest

from gcl_jax.formulas import Tree, parse


def written(tree: Tree, node: int = 0) -> str:
    """The tree as `label(child, ...)`."""
    below = ", ".join(written(tree, child) for child in tree.children[node])
    return tree.labels[node] + (f"({below})" if below else "")


@pytest.mark.parametrize(
    ("formula", "tree"),
    [
        ("x", "V!x"),
        ("a+b+c", "U!plus(V!a, V!b, V!c)"),
        ("a-b+c", "U!plus(O!minus(V!a, V!b), V!c)"),
        ("a-b-c", "O!minus(V!a, V!b, V!c)"),
        ("-ab+c", "U!plus(O!minus(U!times(V!a, V!b)), V!c)"),
        (r"a\times bc", "U!times(V!a, V!b, V!c)"),
        ("a/bc", "U!times(O!divide(V!a, V!b), V!c)"),
        ("ax^2+bx=0", "U!eq(U!plus(U!times(V!a, O!SUP(V!x, N!2)), U!times(V!b, V!x)), N!0)"),
        ("a=b<c", "U!and(U!eq(V!a, V!b), O!lt(V!b, V!c))"),
        ("=b", "U!eq(W!, V!b)"),
        ("a=", "U!eq(V!a, W!)"),
        ("x_i^2", "O!SUP(O!SUB(V!x, V!i), N!2)"),
        ("x^*", "O!SUP(V!x, U!times)"),
        ("f'", "O!SUP(V!f, V!normal-′)"),
        ("n!", "O!factorial(V!n)"),
        (r"\sqrt{x}", "O!root(V!x, N!2)"),
        (r"\sqrt[3]{x}", "O!root(V!x, N!3)"),
        (r"\binom{n}{k}", "O!binomial(V!n, V!k)"),
        (r"\cfrac{1}{x}", "O!continued-fraction(N!1, V!x)"),
        (r"\bar x", "F!normal-¯(V!x)"),
        (r"\sin 2x\cos y", "U!times(F!sin(U!times(N!2, V!x)), F!cos(V!y))"),
        (r"\sin(x)y", "U!times(F!sin(V!x), V!y)"),
        (r"\log_2 n", "+!F(O!SUB(F!log, N!2), V!n)"),
        ("f(x)", "F!f(V!x)"),
        (r"\alpha(x)", "F!α(V!x)"),
        ("x(y+1)", "U!times(V!x, U!plus(V!y, N!1))"),
        ("f_c(x)", "+!V(O!SUB(V!f, V!c), V!x)"),
        (
            r"\sum_{i=1}^n x_i y+1",
            "U!plus(+!O(O!SUP(O!SUB(O!sum, U!eq(V!i, N!1)), V!n), "
            "U!times(O!SUB(V!x, V!i), V!y)), N!1)",
        ),
        (r"\int f\,dx", "O!int(U!times(V!f, O!differential-d(V!x)))"),
        (r"\lim_{x\to0}x", "+!O(O!SUB(O!limit, F!normal-→(V!x, N!0)), V!x)"),
        (r"\partial f/\partial x", "O!divide(O!partialdiff(V!f), O!partialdiff(V!x))"),
        (r"\frac{\mathrm{d}^2y}{\mathrm{d}x^2}", "O!derivative(V!y, V!x, N!2)"),
        ("(a,b)", "O!interval(O-O)(V!a, V!b)"),
        ("[a,b)", "O!interval(C-O)(V!a, V!b)"),
        ("(a,b,c)", "M!V-3(V!a, V!b, V!c)"),
        (r"\{a,b\}", "M!S-2(V!a, V!b)"),
        (r"\{x|x>0\}", "O!conditional-set(V!x, O!gt(V!x, N!0))"),
        ("|x|", "F!abs(V!x)"),
        (r"\lfloor x\rfloor", "F!floor(V!x)"),
        (r"\lfloor\lceil x\rceil\rfloor", "F!floor(F!ceiling(V!x))"),
        ("a,b,c", "M!L-3(V!a, V!b, V!c)"),
        ("a=1,b=2,c=3", "O!form-seq(U!eq(V!a, N!1), O!form-seq(U!eq(V!b, N!2), U!eq(V!c, N!3)))"),
        ("a=1,", "U!eq(V!a, N!1)"),
        (r"f:A\to B", "F!normal-:(V!f, F!normal-→(V!A, V!B))"),
        (r"\forall x\,x=x", "U!eq(O!forall(U!times(V!x, V!x)), V!x)"),
        (r"\nabla\times\mathbf{B}", "U!times(V!normal-∇, V!𝐁)"),
        (r"\mathrm{d}", "V!normal-d"),
        (r"\infty", "C!infinity"),
        ("x^{n+}", "O!SUP(V!x, O!limit-from(V!n, U!plus))"),
        (r"a\equiv b\pmod n", "U!equivalent(V!a, O!annotated(V!b, F!pmod(V!n)))"),
        (r"a+\left.x\right|_0^1", "U!plus(V!a, O!evaluated-at(V!x, N!0, N!1))"),
        (r"xy|_0^1=z", "U!eq(O!evaluated-at(U!times(V!x, V!y), N!0, N!1), V!z)"),
        ("P(A|B)", "F!P(O!conditional(V!A, V!B))"),
        (r"\int d^4x", "O!int(U!times(O!SUP(V!d, N!4), V!x))"),
        (r"a\pm b", "O!plus-or-minus(V!a, V!b)"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "M!M-2x2(M!R(N!1, N!2), M!R(N!3, N!4))"),
        (r"\begin{vmatrix}1\end{vmatrix}", "F!det(M!M-1x1(M!R(N!1)))"),
        (r"\begin{cases}a&b\\c&d\end{cases}", "O!cases(V!a, V!b, V!c, V!d)"),
        (r"\stackrel{a}{\to}", "O!SUP(V!normal-→, V!a)"),
        (r"a\stackrel{f}{\to}b", "+!V(O!SUP(V!normal-→, V!f), V!a, V!b)"),
        (r"\qvar{a}+1", "U!plus(?a, N!1)"),
    ],
)
def test_latex(formula, tree):
    assert written(parse(formula, "opt")) == tree


def test_long_chains_and_deep_nests_need_no_recursion():
    chain = parse("+".join(["x"] * 3_000), "opt")
    assert len(chain) == 3_001
    assert chain.edge_labels[-1] == "2999"
    sets = parse(r"\{x|" * 300 + "1" + r"\}" * 300, "opt")
    assert sets.depth == 300
    floors = parse(r"\lfloor " * 500 + "x" + r"\rfloor" * 500, "opt")
    assert floors.labels.count("F!floor") == 500
