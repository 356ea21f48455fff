"""Rows of items -> operator tree, by the strength of operators (Pratt, 1973; Floyd, 1963).

For formulas that bring no Content MathML. The rows of a formula are worked through from the
innermost, each in one pass with a stack of operands and one of operators.
"""

from gcl_jax.formulas.arrangement import arranged
from gcl_jax.formulas.constructs import Values, construct, variable
from gcl_jax.formulas.errors import FormulaError
from gcl_jax.formulas.expressions import Expression, compound_label, to_tree
from gcl_jax.formulas.fences import fences
from gcl_jax.formulas.items import Item, Row
from gcl_jax.formulas.operators import (
    ADDITION,
    APPLICATION,
    ARGUMENT,
    BIG,
    DIFFERENTIAL,
    FUNCTIONS,
    LIMITS,
    METARELATION,
    PREFIX,
    PRODUCT,
    PUNCTUATION,
    RELATION,
    SIGNS,
    UNARY,
    Operator,
    content_label,
)
from gcl_jax.formulas.trees import Tree

_TIMES = "U!times"
_FUNCTION_LETTERS = frozenset("fghFGHPΓζφϕψΦΨ")
_FINAL = frozenset(("&comma;", ".", ";"))
_FORMULAS = frozenset(("formula", "relation", "relations"))


def operator_tree(row: Row) -> Tree:
    """The operator tree of a row.

    Raises:
        FormulaError: no operand and no operator in it.
    """
    if not row:
        raise FormulaError("nothing that could be a node")
    return to_tree(operator_expression(row))


def operator_expression(row: Row) -> Expression:
    """The expression of a row, a blank if there is nothing in it."""
    # Outer rows before inner ones; then they are read from the end.
    rows = [row]
    arrangements = []
    for inner in rows:
        arrangement = arranged(inner)
        arrangements.append(arrangement)
        for item in arrangement:
            if item.parts is not None:
                rows.extend(item.parts)
            if item.scripts is not None:
                rows.extend([script for _, script, _ in item.scripts])
    values: Values = {}
    for inner, arrangement in zip(reversed(rows), reversed(arrangements), strict=True):
        values[id(inner)] = _Reader(values).read(arrangement)
    return values[id(row)]


class _Pending:
    """An operator that waits for its right operand."""

    __slots__ = ("head", "label", "strength", "unary")

    def __init__(self, label: str, strength: int, unary: bool, head: Expression | None) -> None:
        self.label = label
        self.strength = strength
        self.unary = unary
        self.head = head


class _Reader:
    """Reads one row."""

    __slots__ = ("chains", "operands", "operators", "values", "wanted")

    def __init__(self, values: Values) -> None:
        self.values = values
        self.operands: list[Expression] = []
        self.chains: list[str] = []  # For each operand: the operator that it may be extended by.
        self.operators: list[_Pending] = []
        self.wanted = True  # Whether an operand is wanted next.

    def read(self, row: Row) -> Expression:
        """The expression of a row."""
        if len(row) == 1 and row[0].kind == "mo":
            return self.scripted(row[0], Expression(content_label(row[0].label)))
        end = len(row)
        while end > 1 and row[end - 1].kind == "mo" and row[end - 1].label in _FINAL:
            end -= 1
        place = 0
        while place < end:
            item = row[place]
            kind = item.kind
            if kind == "mo":
                self.sign(item)
            elif kind == "mi":
                name = item.label[2:]
                function = FUNCTIONS.get(name)
                if function is not None:
                    self.function(item, function, name in LIMITS)
                elif place + 1 < end and self.calls(name, row[place + 1]):
                    self.call(item, row[place + 1])
                    place += 1
                elif (
                    name == "d" and item.scripts is None and place + 1 < end and self.in_integral()
                ):
                    self.prefix(Expression("O!differential-d"), "O!differential-d", DIFFERENTIAL)
                else:
                    self.operand(self.scripted(item, variable(item)))
            elif kind == "mtext" and place + 1 < end and self.named(item, row[place + 1]):
                self.call(item, row[place + 1])
                place += 1
            else:
                value = construct(item, self.values)
                if kind == "fenced" and _is_modulus(value) and not self.wanted:
                    modulus = Expression("F!pmod", value.children[1:])
                    self.operands[-1] = Expression("O!annotated", [self.operands[-1], modulus])
                else:
                    self.operand(self.scripted(item, value), kind == "fenced")
            place += 1
        return self.finish()

    def finish(self) -> Expression:
        """What has been read, once all operators have their operands."""
        if self.wanted and self.operators:
            last = self.operators[-1]
            if last.strength == ADDITION and not last.unary and last.label in ("U!plus", "O!minus"):
                self.operators.pop()
                left = self.operands.pop()
                self.chains.pop()
                self.push(Expression("O!limit-from", [left, Expression(last.label)]))
                self.wanted = False
            else:
                self.blank()
        while self.operators:
            self.reduce()
        if not self.operands:
            return Expression("W!")
        whole = self.operands[0]
        sequence = self.chains[0] == "list" and whole.label == "O!form-seq"
        return _nested(whole) if sequence else whole

    def blank(self) -> None:
        """Stands in for a missing operand: the operator before, taken for itself, or a blank."""
        if self.operators and self.operators[-1].unary:
            pending = self.operators.pop()
            if pending.head is not None:
                leaf = pending.head
            elif pending.label[:9] == "F!normal-":
                leaf = Expression(f"V!{pending.label[2:]}")
            else:
                leaf = Expression(pending.label)
            self.push(leaf)
        else:
            self.push(Expression("W!"))
        self.wanted = False

    def push(self, expression: Expression, chain: str = "") -> None:
        self.operands.append(expression)
        self.chains.append(chain)

    def operand(self, expression: Expression, fenced: bool = False) -> None:
        """An operand; after another one it is multiplied with it."""
        if not self.wanted:
            self.times()
        self.push(expression)
        self.wanted = False
        if (
            fenced
            and self.operators
            and self.operators[-1].strength == APPLICATION
            and self.operators[-1].unary
        ):
            self.reduce()

    def times(self) -> None:
        """An invisible multiplication sign."""
        top = self.operators[-1] if self.operators else None
        argument = top is not None and top.strength >= APPLICATION
        self.infix(Expression(_TIMES), _TIMES, ARGUMENT if argument else PRODUCT, False)

    def infix(self, head: Expression, label: str, strength: int, scripted: bool) -> None:
        """An operator between operands; a missing left one is a blank."""
        if self.wanted:
            self.blank()
        while self.operators and self.operators[-1].strength >= strength:
            self.reduce()
        self.operators.append(_Pending(label, strength, False, head if scripted else None))
        self.wanted = True

    def prefix(self, head: Expression, label: str, strength: int, scripted: bool = False) -> None:
        """An operator before its operand."""
        if not self.wanted:
            while self.operators and self.operators[-1].strength >= APPLICATION:
                self.reduce()
            self.times()
        self.operators.append(_Pending(label, strength, True, head if scripted else None))
        self.wanted = True

    def sign(self, item: Item) -> None:
        """An operator sign, whatever its place."""
        label = item.label
        if label in FUNCTIONS:
            self.function(item, FUNCTIONS[label], label in LIMITS)
            return
        operator = SIGNS.get(label)
        if operator is None:
            if label == "!" and not self.wanted:
                self.operands[-1] = self.scripted(
                    item, Expression("O!factorial", [self.operands[-1]])
                )
                return
            if label == "|" and not self.wanted and item.scripts is not None:
                self.evaluated_at(item)
                return
            if label == "|" and not self.wanted:
                operator = Operator("O!conditional", RELATION)
            else:
                self.operand(self.scripted(item, Expression(content_label(label))))
                return
        head = Expression(operator.label)
        scripted = item.scripts is not None
        if scripted:
            head = self.scripted(item, Expression(content_label(label)))
        strength = operator.strength
        if strength in (PREFIX, BIG, APPLICATION):  # Before its operand.
            self.prefix(head, operator.label, strength, scripted)
        elif self.wanted and label in UNARY:
            self.prefix(head, operator.label, PREFIX, scripted)
        else:
            self.infix(head, operator.label, strength, scripted)

    def evaluated_at(self, item: Item) -> None:
        """A bar with limits after an expression, `\\left.x^2\\right|_0^1`."""
        while self.operators and self.operators[-1].strength > RELATION:
            self.reduce()
        limits = [self.values[id(script)] for _, script, _ in item.scripts or ()]
        self.operands[-1] = Expression("O!evaluated-at", [self.operands[-1], *limits])
        self.chains[-1] = ""

    def function(self, item: Item, label: str, limit: bool) -> None:
        """The name of a function."""
        scripted = item.scripts is not None
        head = self.scripted(item, Expression(label))
        self.prefix(head, label, BIG if limit else APPLICATION, scripted)

    def calls(self, name: str, following: Item) -> bool:
        """Whether a name and the fenced item after it are a function and its arguments.

        `f(...)` is, whatever the argument; so are names of several letters, and any letter before
        a single sign, `α(x)`. `x(y + 1)` is a product, and so is `L(a, b)`, as in NTCIR-12.
        """
        if following.kind != "fenced" or following.shape or following.scripts is not None:
            return False
        if fences(following) != ("(", ")"):
            return False
        if name in _FUNCTION_LETTERS or len(name) > 1:
            return True
        cells = following.parts or []
        if len(cells) != 1:
            return False
        (cell,) = cells
        if len(cell) == 1:
            return cell[0].kind in ("mi", "mn", "qvar")
        return any(item.label == ";" for item in cell)

    def named(self, item: Item, following: Item) -> bool:
        """Whether a text is the name of a function, `\\text{Ker}(f)`."""
        name = item.label[2:]
        return name.isalpha() and item.label[-1] != " " and self.calls(name, following)

    def call(self, item: Item, arguments: Item) -> None:
        """A function with its arguments between parentheses."""
        cells: list[Expression] = []
        for cell in arguments.parts or ():
            value = self.values[id(cell)]
            if any(part.label == ";" for part in cell) and value.label[:4] == "M!L-":
                cells.extend(value.children)
            elif cell:
                cells.append(value)
        head = self.scripted(item, variable(item))
        if item.scripts is None:
            self.operand(Expression(f"F!{head.label[2:]}", cells))
        else:
            self.operand(Expression(compound_label(head), [head, *cells]))

    def in_integral(self) -> bool:
        """Whether an integral sign waits for the end of its integrand."""
        return any(
            operator.strength == BIG and "int" in operator.label for operator in self.operators
        )

    def reduce(self) -> None:
        """Gives the last operator its operands."""
        pending = self.operators.pop()
        right, chain = self.operands.pop(), self.chains.pop()
        label, head = pending.label, pending.head
        if pending.unary:
            if head is not None and head.children:
                self.push(Expression(compound_label(head), [head, right]))
            else:
                self.push(Expression(label, [right]))
            return
        left, left_chain = self.operands.pop(), self.chains.pop()
        if pending.strength == PUNCTUATION:
            self.push(_listed(left, left_chain, right, chain), "list")
        elif pending.strength in (RELATION, METARELATION):
            self.relate(left, left_chain, pending, right)
        elif head is None and left_chain == label and label != "O!divide":
            left.children.append(right)
            self.push(left, label)
        else:
            self.push(_applied(pending, left, right), label if head is None else "")

    def relate(
        self, left: Expression, left_chain: str, pending: _Pending, right: Expression
    ) -> None:
        """A relation; in `a = b < c` the middle belongs to both."""
        meta = pending.strength == METARELATION
        if meta or left_chain not in ("relation", "relations"):
            self.push(_applied(pending, left, right), "formula" if meta else "relation")
        elif left_chain == "relations":
            shared = left.children[-1].children[-1]
            left.children.append(_applied(pending, shared, right))
            self.push(left, "relations")
        else:
            second = _applied(pending, left.children[-1], right)
            self.push(Expression("U!and", [left, second]), "relations")

    def scripted(self, item: Item, expression: Expression) -> Expression:
        """An expression with the scripts of its item."""
        for edge, script, accent in item.scripts or ():
            value = self.values[id(script)]
            if accent:
                expression = Expression(f"F!{value.label[2:]}", [expression])
            else:
                label = "O!SUB" if edge in "bud" else "O!SUP"
                expression = Expression(label, [expression, value])
        return expression


def _is_modulus(expression: Expression) -> bool:
    """Whether an expression is what `\\pmod{n}` writes between parentheses."""
    children = expression.children
    return expression.label == "O!rem" and bool(children) and children[0].label == "W!"


def _applied(pending: _Pending, left: Expression, right: Expression) -> Expression:
    head = pending.head
    if head is None:
        return Expression(pending.label, [left, right])
    if not head.children:
        return Expression(pending.label, [left, right])
    return Expression(compound_label(head), [head, left, right])


def _listed(left: Expression, left_chain: str, right: Expression, chain: str) -> Expression:
    """Two parts divided by punctuation: a list, or a sequence of formulas."""
    if left_chain == "list" and (left.label == "O!form-seq" or chain not in _FORMULAS):
        left.children.append(right)
        if left.label != "O!form-seq":
            left.label = f"M!L-{len(left.children)}"
        return left
    if chain in _FORMULAS or left_chain in _FORMULAS:
        return Expression("O!form-seq", [left, right])
    return Expression("M!L-2", [left, right])


def _nested(sequence: Expression) -> Expression:
    """A sequence of formulas as LaTeXML nests it: the first, and the rest."""
    *first, last = sequence.children
    for formula in reversed(first):
        last = Expression("O!form-seq", [formula, last])
    return last
