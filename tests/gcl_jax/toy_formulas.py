"""A parser for tests: a formula is the chain of its characters, and some characters are trouble."""

import os
import signal
import time

from gcl_jax.formulas.trees import Tree
from retrieval_jax.errors import InputError


def chain(formula: str) -> tuple[Tree, Tree]:
    """Trees with a variable for each character, each the child of the one before.

    "E" is an error, "B" a bug; "H" hangs and "K" kills the process.
    """
    if formula == "E":
        raise InputError(f"{formula!r} is wrong", "Give another.")
    if formula == "B":
        raise ZeroDivisionError("a bug")
    if formula == "H":
        time.sleep(3600)
    if formula == "K":
        os.kill(os.getpid(), signal.SIGKILL)
    labels = tuple(f"V!{character}" for character in formula)
    parents = tuple(range(-1, len(formula) - 1))
    slt = Tree("slt", labels, parents, ("", *"n" * (len(formula) - 1)))
    opt = Tree("opt", labels, parents, ("", *"0" * (len(formula) - 1)))
    return slt, opt
