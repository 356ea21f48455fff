"""Operator trees while they are built: small mutable nodes, and how they become a `Tree`."""

from gcl_jax.formulas.errors import FormulaError
from gcl_jax.formulas.trees import OPT_EDGES, Tree

MAX_NODES = 100_000
"""Nodes of a tree. Shared parts of Content MathML could multiply beyond all bounds."""


class Expression:
    """A node of an operator tree that is being built.

    Attributes:
        label: as in `Tree`.
        children: operands; a child may stand under several parents, and is then copied.
    """

    __slots__ = ("children", "label")

    def __init__(self, label: str, children: "list[Expression] | None" = None) -> None:
        self.label = label
        self.children = [] if children is None else children


def to_tree(root: Expression) -> Tree:
    """The tree of an expression.

    Raises:
        FormulaError: more than `MAX_NODES` nodes.
    """
    labels: list[str] = []
    parents: list[int] = []
    edges: list[str] = []
    stack = [(root, -1, "")]
    while stack:
        expression, parent, edge = stack.pop()
        node = len(labels)
        labels.append(expression.label)
        parents.append(parent)
        edges.append(edge)
        children = expression.children
        if children:
            # What waits counts too: a part may refer to the whole, however wide.
            if len(labels) + len(stack) + len(children) > MAX_NODES:
                raise FormulaError(f"more than {MAX_NODES} nodes")
            for index in range(len(children) - 1, -1, -1):
                name = OPT_EDGES[index] if index < 62 else str(index)
                stack.append((children[index], node, name))
    return Tree("opt", tuple(labels), tuple(parents), tuple(edges))


def compound_label(head: Expression) -> str:
    """Label of what is applied when it is itself an expression, such as a sum with its limits.

    `+!` and the first letter of the label that the operator's scripts stand at, as in the graphs
    of NTCIR-12; the operator itself is child 0.
    """
    if head.label in ("O!SUB", "O!SUP") and head.children:
        return f"+!{head.children[0].label[:1]}"
    return "+!"
