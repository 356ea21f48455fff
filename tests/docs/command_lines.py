"""Checks a command line against the parser that would read it, without starting its work."""

import configparser
import functools
import importlib
import importlib.util
import itertools
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tyro

from retrieval_jax import distributed
from tests.docs.blocks import ROOT

OURS = (
    *("retrieval_jax", "docent_jax", "gcl_jax", "ltr_jax", "mathsim_jax"),
    *("experiments", "benchmarks"),
)
# Programs that are not ours; what follows them is not looked at.
OTHERS = ("cd", "curl", "export", "gcloud", "git", "kill", "mkdocs", "npm", "sbatch", "srun")
# What calls tyro, in the source of a module that is run.
PARSERS = ("tyro.cli", "parse_command_line", "measure.command_line")
_ASSIGNMENT = re.compile(r"\w+=")


class ParsedError(Exception):
    """A command has read its command line, and would begin its work."""


def command_lines(text: str) -> Iterator[list[str]]:
    """The words of each command of a `bash` block."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
        lexer.whitespace_split = True
        for is_end, group in itertools.groupby(lexer, lambda word: word in ("&&", "|", "||", ";")):
            words = list(itertools.takewhile(lambda word: word not in ("<", ">", ">>"), group))
            while words and _ASSIGNMENT.match(words[0]):
                words = words[1:]
            if words and not is_end:
                yield words


def check(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Asserts that a command exists and takes its options."""
    program, *arguments = words
    program = program.removeprefix(".venv/bin/")
    if program == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets)
    elif program == "pip" or (program, *arguments[:2]) == ("python", "-m", "pip"):
        _check_extras(arguments)
    elif program == "python" and arguments[:1] == ["-m"]:
        _check_module(arguments[1], arguments[2:], monkeypatch)
    else:
        assert program in OTHERS, f"{program} is no program that pages may call"


def _check_extras(arguments: list[str]) -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for extras in re.findall(r"(?:^|\s|retrieval-jax|\.)\[([\w,]+)\]", " ".join(arguments)):
        assert set(extras.split(",")) <= set(setup["options.extras_require"])


def _check_module(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"no module {name}"
    if name.split(".")[0] not in OURS:
        return
    if spec.submodule_search_locations is not None:
        name = f"{name}.__main__"
        spec = importlib.util.find_spec(name)
        assert spec is not None, f"no module {name}"
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", [name, *arguments])
        if "def main(" in source:
            main = importlib.import_module(name).main
        else:
            patch.delitem(sys.modules, name, raising=False)
            main = functools.partial(runpy.run_module, name, run_name="__main__")
        if main is distributed.main:
            _check_process(patch)
            return
        if not any(parser in source for parser in PARSERS):
            assert not arguments, f"{name} takes no options"
            return
        patch.setattr(tyro, "cli", _stopping(tyro.cli))
        try:
            main()
        except ParsedError:
            _check_rest(arguments, monkeypatch)
            return
        except SystemExit as end:
            assert end.code == 0, f"{name} does not take {shlex.join(arguments)}"
            assert "--help" in arguments
            return
    pytest.fail(f"{name} did not read its command line by tyro.cli")


def _check_rest(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands after `--` is for a module that is named there, or by `--module`."""
    own = list(itertools.takewhile(lambda word: word != "--", arguments))
    rest = arguments[len(own) + 1 :]
    if "--module" in own:
        _check_module(own[own.index("--module") + 1], rest, monkeypatch)
    elif rest and not rest[0].startswith("-"):
        _check_module(rest[0], rest[1:], monkeypatch)


def _stopping(parse):
    def cli(*args, **kwargs):
        parse(*args, **kwargs)
        raise ParsedError

    return cli


def _check_process(patch: pytest.MonkeyPatch) -> None:
    """One of several processes: its own options, then those of the module that it runs."""

    def run_module(name: str, **_) -> None:
        _check_module(name, sys.argv[1:], patch)

    patch.setattr(distributed, "start", lambda _: False)
    patch.setattr(runpy, "run_module", run_module)
    distributed.main()
