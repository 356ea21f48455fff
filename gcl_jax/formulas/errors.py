"""What is wrong with a formula, and where."""

from retrieval_jax.errors import InputError

_SHOWN = 30


class FormulaError(InputError):
    """A formula that cannot become a tree.

    Args:
        problem: what is wrong.
        position: where in the input, counted in characters from 0; None where nobody knows.
        source: the input, to show what stands there.
        remedy: what to do about it.

    Attributes:
        reason: the problem, without the place.
        position: as given.
    """

    def __init__(
        self,
        problem: str,
        position: int | None = None,
        source: str = "",
        remedy: str = "Correct the formula, or leave it out.",
    ) -> None:
        self.reason = problem
        self.position = position
        place = "formula" if position is None else f"formula, position {position}"
        if position is not None and 0 <= position < len(source):
            shown = source[position : position + _SHOWN]
            place += f" ({shown.encode('unicode_escape').decode('ascii')!r})"
        super().__init__(f"{place}: {problem}", remedy)
