"""Every command line of the README and the documentation is one that its program takes."""

import importlib.util
import re

import pytest

from tests.docs.blocks import LANGUAGES, blocks, pages
from tests.docs.command_lines import check, command_lines

BLOCKS = [block for page in pages() for block in blocks(page)]
COMMANDS = [
    pytest.param(words, id=f"{block.page}:{block.line} {' '.join(words)[:60]}")
    for block in BLOCKS
    if block.language == "bash"
    for words in command_lines(block.text)
]
NAMED = sorted(
    {
        (str(page.name), module)
        for page in pages()
        for module in re.findall(r"python -m ([a-z_][a-z_.]*[a-z_])(?=[ `\n])", page.read_text())
    }
)


def test_every_block_says_what_it_is():
    unmarked = [f"{b.page}:{b.line} {b.language!r}" for b in BLOCKS if b.language not in LANGUAGES]
    assert not unmarked, f"give these blocks one of {LANGUAGES}"
    assert COMMANDS


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_takes_its_options(words, monkeypatch):
    check(words, monkeypatch)


@pytest.mark.parametrize(("page", "module"), NAMED)
def test_modules_that_the_text_names_are_there(page, module):
    assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize(
    "line",
    [
        "python -m experiments.docent.pretrain --stepz 3",
        "python -m experiments.docent.no_such_thing",
        "python -m docent_jax rank 'no run'",
        "python -m experiments.report --no-such-option",
        "python -m retrieval_jax.distributed experiments.quickstart --runn x",
        "make no_such_target",
        "pip install -e '.[no_such_extra]'",
        "no_such_program",
    ],
)
def test_a_wrong_command_is_noticed(line, monkeypatch):
    (words,) = command_lines(line)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(words, monkeypatch)


def test_lines_are_taken_apart_as_a_shell_does():
    text = "A=1 python -m x \\\n  --y 'a b'  # why\ncd z && make test | cat > out.txt\n\n"
    assert list(command_lines(text)) == [
        ["python", "-m", "x", "--y", "a b"],
        ["cd", "z"],
        ["make", "test"],
        ["cat"],
    ]
