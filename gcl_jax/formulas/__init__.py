"""Formulas: LaTeX and MathML become symbol layout trees and operator trees.

    parse(r"x^2 + y^2 = r^2", layout="opt")

`latex`, `macros`: LaTeX -> Presentation MathML. `markup`, `mathml`: reading MathML safely.
`presentation`, `fences`, `items`: Presentation MathML -> rows of items. `layout`: rows -> layout
tree. `precedence`, `operators`, `arrangement`, `constructs`: rows -> operator tree. `content`:
Content MathML -> operator tree. `symbols`: one spelling for each sign. `trees`, `pictures`: the
tree type.
"""

from gcl_jax.formulas.errors import FormulaError
from gcl_jax.formulas.parsing import parse, parse_both
from gcl_jax.formulas.trees import Tree, make_tree, split_label, tree_from_edges

__all__ = [
    "FormulaError",
    "Tree",
    "make_tree",
    "parse",
    "parse_both",
    "split_label",
    "tree_from_edges",
]
