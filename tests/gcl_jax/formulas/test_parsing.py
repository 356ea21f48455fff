"""Whatever comes in, a tree or a `FormulaError` goes out: cases, properties, mutated formulas."""
# ruff: noqa: RUF001 (mathematical signs)

import itertools
import json
import lzma
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gcl_jax.formulas import FormulaError, Tree, make_tree, parse, parse_both, parsing

DATA = Path(os.environ.get("RETRIEVAL_DATA", "")) / "formulas"
WIKIPEDIA = DATA / "enwiki_formulas.tsv.xz"
needs_data = pytest.mark.skipif(
    not WIKIPEDIA.is_file(), reason="needs formulas in the folder RETRIEVAL_DATA"
)

PIECES = [
    *("{", "}", "\\", "(", ")", "[", "]", "|", "^", "_", "&", "\\\\", "$", "%", "#", "~", "'", ","),
    *(";", "!", "=", "-", "<", ">", "d", ".", "x", "1", " ", "\0", "\ue000", "𝑥", "é", "?x"),
    *(r"\left", r"\right", r"\frac", r"\sqrt", r"\text{", r"\qvar{", r"\over", r"\sum", r"\int"),
    *(r"\lfloor", r"\rangle", r"\middle|", r"\{", r"\}", r"\operatorname{", r"\mathrm{d}"),
    *("mod", r"\bmod", r"\mathrm{"),
    *(
        r"\begin{matrix}",
        r"\end{matrix}",
        r"\limits",
        r"\not",
        r"\hat",
        r"\newcommand{\a}",
        "&amp;",
    ),
]
TAGS = [
    *("mi", "mn", "mo", "mrow", "mfrac", "msub", "msup", "msubsup", "munder", "mover", "msqrt"),
    *("mroot", "mtable", "mtr", "mtd", "mfenced", "mmultiscripts", "mprescripts", "mtext", "none"),
    *("apply", "ci", "cn", "plus", "csymbol", "share", "cerror", "matrix", "matrixrow", "interval"),
    *("semantics", "annotation-xml", "merror", "menclose", "mphantom", "qvar", "root", "degree"),
]


def check(formula: object) -> tuple[Tree, Tree] | None:
    """The trees of a formula, which must be trees; None where it is refused."""
    try:
        slt, opt = parse_both(formula)  # pyright: ignore[reportArgumentType]
    except FormulaError as error:
        assert error.problem
        assert "internal error" not in error.problem
        assert error.remedy
        return None
    for tree in (slt, opt):
        assert make_tree(tree.layout, tree.labels, tree.parents, tree.edge_labels) == tree
    # A node of a layout tree has one child for each edge.
    assert len(set(zip(slt.parents, slt.edge_labels, strict=True))) == len(slt)
    for label in (*slt.labels, *opt.labels):
        assert not any("\ue000" <= sign <= "\uf8ff" for sign in label)
        assert not label.startswith("share ")
    return slt, opt


def test_both_trees_are_those_of_each_layout():
    for formula in (r"\frac{a}{b}=f(x)", "<math><mi>x</mi><mo>+</mo><mi>y</mi></math>"):
        assert parse_both(formula) == (parse(formula, "slt"), parse(formula, "opt"))
    assert parse("α".encode()) == parse("α")


@pytest.mark.parametrize(
    ("formula", "problem", "position"),
    [
        (None, "not a text but NoneType", None),
        (3, "not a text but int", None),
        (["x"], "not a text but list", None),
        (b"x\xff", "not UTF-8", 1),
        ("x\ud800", "half a surrogate pair", 1),
        ("", "empty", 0),
        (" \n", "empty", 0),
        ("\\,", "nothing that could be a node", None),
        ("<math/>", "nothing that could be a node", None),
    ],
)
def test_what_is_no_formula_is_refused(formula, problem, position):
    with pytest.raises(FormulaError, match=problem) as error:
        parse(formula)
    assert error.value.position == position


def test_layouts_have_names():
    with pytest.raises(FormulaError, match="layout 'tree'"):
        parse("x", "tree")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text(text):
    check(text)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(data):
    check(data)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@example(r"\hat{{{\over{{{e}")  # Found by mutation: an accent at the place of a numerator.
@example(r"a)\,_f)\,_f)\,_f)")  # Found by mutation: scripts without a base, before fences.
@example(r"\bar\frac{x}{}^i{}^i")
@example("(" * 40)  # Found by mutation: took math-core 2 ** 40 steps.
@example(r"\lfloor" * 30)
@example(r"{(}" * 30)
@example(r"(_)" * 30)
@example(r"\frac{a}")
@example(r"(\operatorname{mod})")
@example(r"x(\bmod)")
def test_pieces_of_latex(formula):
    start = time.process_time()
    check(formula)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "formula",
    [
        "<math><" + ":" * 100_000,
        "<math>" + "<!DOCTYPE" * 50_000,
        "<math" + ' xmlns="' * 30_000 + ">",
        "<math>" + "&" * 200_000 + "</math>",
        "<math>" + "<mo>(</mo><mi>x</mi><mo>|</mo>" * 4_000 + "</math>",
        "<math>" + "<mrow>" * 200 + "<mo>)</mo>" * 2_000 + "</mrow>" * 200 + "</math>",
        "<math>" + "<msub><mrow/><mi>y</mi></msub>" * 5_000 + "</math>",
        r"\text{" + "$" * 19_000,
        r"\text{" + "?x" * 9_000 + "}",
        r"^\begin{a}" * 999,
        r"\begin{array}{" + "{l}" * 6_000,
        "% " * 9_000,
        "(%)\n" * 40 + "x",  # A comment hides what closes.
        "(\\\\%)\n)%(\n" * 40 + r"\hline",  # In one reading only that a repair makes.
        r"x+\mathrm{?a b}" * 1_000,
        ",".join(["x=1"] * 3_000),
    ],
)
def test_time_grows_with_the_length_only(formula):
    start = time.process_time()
    check(formula)
    assert time.process_time() - start < 3


elements = st.recursive(
    st.sampled_from(
        ["x", "1", "+", "(", ")", "|", ",", "&", "&alpha;", "<none/>", "<mprescripts/>", ""]
    ),
    lambda inner: st.builds(
        lambda tag, attribute, parts: f"<{tag}{attribute}>{''.join(parts)}</{tag}>",
        st.sampled_from(TAGS),
        st.sampled_from(["", ' encoding="MathML-Content"', ' id="a"', ' href="#a"', ' xref="a"']),
        st.lists(inner, max_size=4),
    ),
    max_leaves=25,
)


@settings(deadline=None)
@given(elements)
@example("<mmultiscripts><mrow/></mmultiscripts><mo>|</mo>")
@example("<mmultiscripts><mrow/><mprescripts/></mmultiscripts><mi>x</mi>")
def test_any_elements(inner):
    check(f"<math>{inner}</math>")
    for layout in ("slt", "opt"):
        try:
            tree = parse(f"<math>{inner}</math>", layout)
        except FormulaError as error:
            assert "internal error" not in error.problem
            continue
        assert make_tree(layout, tree.labels, tree.parents, tree.edge_labels) == tree


@pytest.mark.parametrize(
    ("formula", "problem"),
    [
        ("'^{%}\\n' * 3990", "nested deeper than 1000"),
        ("'}' * 15000", ""),  # A repair opens as many.
    ],
)
def test_comments_and_repairs_hide_no_nesting(formula, problem):
    code = (
        "from gcl_jax.formulas import FormulaError, parse\n"
        f"try:\n    parse({formula})\n"
        "except FormulaError as error:\n    print(error)"
    )
    # A process of its own: the converter overflowed its stack.
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert problem in ended.stdout


def test_content_that_refers_to_one_part_many_times_takes_no_longer():
    wide = "<mi>x</mi>" * 3_000
    inner = '<ci id="f">f</ci>'.replace("id", "xref")
    many = '<csymbol cd="dlmf" xref="w"/>' * 25 + (
        f'<apply xref="s">{inner}<ci>a</ci></apply>' * 3_000
    )
    markup = (
        f'<math><semantics><mrow><mrow id="w">{wide}</mrow><msub id="s"><mrow>'
        f'{wide}<mi id="f">f</mi></mrow><mi>a</mi></msub></mrow>'
        f'<annotation-xml encoding="MathML-Content"><list>{many}</list></annotation-xml>'
        "</semantics></math>"
    )
    start = time.process_time()
    tree = parse(markup, "opt")
    assert time.process_time() - start < 3
    assert tree.labels[-3:] == ("O!SUB", "V!f", "V!a")
    assert tree.labels.count("V!x") == 25 * 3_000


def test_faults_of_the_parser_are_refusals(monkeypatch):
    def fails(*_):
        raise IndexError("list index out of range")

    monkeypatch.setattr(parsing, "read_row", fails)
    for of in (parse, parse_both):
        with pytest.raises(FormulaError, match="internal error IndexError: list index") as error:
            of("x")
        assert isinstance(error.value.__cause__, IndexError)


@needs_data
def test_nasty_inputs_give_a_tree_or_an_error():
    trees = 0
    with (DATA / "nasty.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            start = time.process_time()
            if "input" in row:
                trees += check(row["input"]) is not None
            assert time.process_time() - start < 2, row["id"]
    assert trees >= 115


@needs_data
def test_mutated_formulas_of_wikipedia():
    source = random.Random(0)
    with lzma.open(WIKIPEDIA, "rt", encoding="utf-8") as lines:
        next(lines)
        formulas = [
            line.partition("\t")[2].rstrip("\n") for line in itertools.islice(lines, 20_000)
        ]
    converted = 0
    for _ in range(1_500):
        text = source.choice(formulas)
        for _ in range(source.randint(0, 4)):
            place = source.randrange(len(text) + 1)
            end = place + source.randint(0, 8)
            piece = source.choice([source.choice(PIECES), text[place:end] * 3, ""])
            text = text[:place] + piece + text[source.choice([place, end]) :]
        start = time.process_time()
        converted += check(text) is not None
        assert time.process_time() - start < 2, text
    assert converted > 700


@needs_data
def test_formulas_of_wikipedia_convert():
    with lzma.open(WIKIPEDIA, "rt", encoding="utf-8") as lines:
        next(lines)
        formulas = [line.partition("\t")[2].rstrip("\n") for line in lines][::250]
    converted = sum(check(formula) is not None for formula in formulas)
    assert converted / len(formulas) > 0.995


@needs_data
def test_all_topics_parse_from_latex_and_from_mathml():
    with lzma.open(DATA / "ntcir12_topics.jsonl.xz", "rt", encoding="utf-8") as lines:
        topics = [json.loads(line) for line in lines]
    assert len(topics) == 40
    for topic in topics:
        assert check(topic["latex"]) is not None
        assert check(topic["mathml"]) is not None
