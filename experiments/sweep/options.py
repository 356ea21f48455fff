"""Words after `--`: options of all cells, refused where they would change nothing.

Of an option that is given twice the last one counts, and the words of a cell are those of the
sweep, those after `--`, those of its choices, its seed and its run folder, in this order.
"""

import dataclasses
import re
from collections.abc import Sequence

from experiments.sweep.cells import Sweep
from retrieval_jax.config import given_options
from retrieval_jax.errors import InputError


def with_options(sweep: Sweep, words: Sequence[str]) -> Sweep:
    """The sweep with further options in all its cells.

    Args:
        sweep: which.
        words: of the experiment's command line.

    Raises:
        InputError: an option that the sweep varies, that each cell has of its own, or that another
            one decides (`Sweep.decided_by`).
    """
    given = _options(words)
    for axis, choices in sweep.axes.items():
        varied = {option for of in choices.values() for option in _options(of)}
        for option in sorted(given & varied):
            raise InputError(
                f"{option} stands after `--`, but the sweep varies it ({axis})",
                "Leave it out; other values are swept by --module and --fields.",
            )
    own = {sweep.seed_option: "Give --seeds.", "--run": "Leave it out: runs lie below --output."}
    for option, remedy in own.items():
        if option in given:
            raise InputError(f"{option} stands after `--`, but each cell has its own", remedy)
    decided_by = {option: by for option, by in sweep.decided_by.items() if option in given}
    for option, decider in decided_by.items():
        if decider not in given:
            raise InputError(
                f"{option} after `--` would change nothing: {decider} decides it",
                f"Give {decider}; or {decider} None beside it.",
            )
    return dataclasses.replace(sweep, options=(*sweep.options, *words))


def _options(words: Sequence[str]) -> set[str]:
    """Names of options among words, as `--group.name`; that of a switch whichever way it is set."""
    return {re.sub(r"(--|\.)no-(?=[^.]*$)", r"\1", name) for name in given_options(words)}
