r"""LaTeX in a WordPiece vocabulary: how far it breaks up, and new pieces for frequent commands.

WordPiece knows no LaTeX: `\mathbb` becomes `\`, `math`, `##bb`. A vocabulary is extended by whole
commands, each of which starts from the mean of the pieces that it was.
"""

import dataclasses
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from transformers import AddedToken, PreTrainedTokenizerBase

from retrieval_jax.errors import InputError, check_texts
from retrieval_jax.params import Params
from retrieval_jax.pretrained import PretrainedBert

_FORMULA = re.compile(
    r"\\\((.+?)\\\)|\\\[(.+?)\\\]|\$\$(.+?)\$\$|(?<!\\)\$(.+?)(?<!\\)\$", re.DOTALL
)
_COMMAND = re.compile(r"\\[A-Za-z]{2,}")
_WORD = re.compile(r"[^\W\d_]+")


@dataclasses.dataclass(frozen=True)
class Pieces:
    """How texts break up into word pieces.

    Attributes:
        texts: how many there are.
        formulas: formulas in them.
        pieces_per_formula: mean.
        commands: LaTeX commands in them.
        pieces_per_command: mean; 1 is whole.
        whole_commands: share of commands that are one piece.
        words: words outside of formulas.
        pieces_per_word: mean.
        pieces_per_text: mean, all included.
    """

    texts: int
    formulas: int
    pieces_per_formula: float
    commands: int
    pieces_per_command: float
    whole_commands: float
    words: int
    pieces_per_word: float
    pieces_per_text: float


def formulas(text: str) -> list[str]:
    r"""The formulas of a text, between `\( \)`, `\[ \]`, `$` or `$$`, without these."""
    return [next(filter(None, groups)) for groups in _FORMULA.findall(text)]


def count_pieces(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> Pieces:
    """Measures how texts break up; means of nothing are 0.

    Raises:
        InputError: no texts, or something that is none.
    """
    check_texts("texts to count pieces of", texts)
    counts: dict[str, list[int]] = {"formula": [], "command": [], "word": [], "text": []}
    for text in texts:
        inside = formulas(text)
        counts["formula"] += _counts(inside, tokenizer)
        counts["command"] += _counts(_COMMAND.findall(text), tokenizer)
        counts["word"] += _counts(_WORD.findall(_FORMULA.sub(" ", text)), tokenizer)
        counts["text"] += _counts([text], tokenizer)
    means = {name: statistics.fmean(of) if of else 0.0 for name, of in counts.items()}
    commands = counts["command"]
    return Pieces(
        texts=len(texts),
        formulas=len(counts["formula"]),
        pieces_per_formula=means["formula"],
        commands=len(commands),
        pieces_per_command=means["command"],
        whole_commands=commands.count(1) / max(len(commands), 1),
        words=len(counts["word"]),
        pieces_per_word=means["word"],
        pieces_per_text=means["text"],
    )


def frequent_commands(
    texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, limit: int, min_count: int = 5
) -> list[str]:
    r"""The most frequent LaTeX commands that the tokenizer breaks up.

    Where one is the beginning of another that occurs (`\in` of `\int`), both are taken or none:
    else the longer one would break after the shorter.

    Args:
        texts: where they are counted.
        tokenizer: whose vocabulary lacks them.
        limit: how many at most.
        min_count: least number of occurrences; not asked of longer commands that come along.
    """
    counts = Counter(command for text in texts for command in _COMMAND.findall(text))
    chosen: dict[str, None] = {}
    for command, count in counts.most_common():
        if count < min_count:
            break
        if len(tokenizer.tokenize(command)) == 1:
            continue
        along = [other for other in sorted(counts) if other.startswith(command)]
        new = [other for other in along if other not in chosen]
        if len(chosen) + len(new) <= limit:
            chosen |= dict.fromkeys(new)
    return list(chosen)


def extend_vocabulary(encoder: PretrainedBert, commands: Sequence[str]) -> PretrainedBert:
    """Adds commands as whole pieces to tokenizer, word table and (if there is one) MLM bias.

    A new row is the mean of the rows of the pieces that the command was until now. The encoder that
    is given is left as it is, but for its tokenizer, which is extended in place.

    Args:
        encoder: a loaded BERT folder.
        commands: to add; those known as a piece are passed over.

    Returns:
        The encoder with its new architecture and parameters.

    Raises:
        InputError: a command of only white space.
    """
    blank = [command for command in commands if not command.strip()]
    if blank:
        raise InputError(f"a new piece is {blank[0]!r}", "Give commands that can be seen.")
    tokenizer: Any = encoder.tokenizer
    vocabulary = tokenizer.get_vocab()
    new = [command for command in dict.fromkeys(commands) if command not in vocabulary]
    old = [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(command)) for command in new]
    if not all(old):
        raise InputError(
            f"a new piece is {new[old.index([])]!r}, which the tokenizer leaves out",
            "Give commands that can be seen.",
        )
    # Not normalised: lower case would join \Lambda and \lambda.
    tokenizer.add_tokens([AddedToken(command, normalized=False) for command in new])
    ids = tokenizer.convert_tokens_to_ids(new)
    size = max(encoder.config.vocab_size, len(tokenizer))

    def extended(rows: np.ndarray) -> np.ndarray:
        spare = np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)
        table = np.concatenate([rows, spare])
        for row, pieces in zip(ids, old, strict=True):
            table[row] = rows[pieces].mean(axis=0)
        return table

    embeddings = encoder.params["embeddings"]
    word = {"embedding": extended(np.asarray(embeddings["word"]["embedding"]))}
    params: Params = encoder.params | {"embeddings": embeddings | {"word": word}}
    if "mlm_head" in params:
        head = params["mlm_head"]
        params["mlm_head"] = head | {"bias": extended(np.asarray(head["bias"]))}
    config = dataclasses.replace(encoder.config, vocab_size=size)
    return dataclasses.replace(encoder, config=config, params=params)


def _counts(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    if not texts:
        return []
    encoded: Any = tokenizer(texts, add_special_tokens=False, verbose=False)
    return [len(ids) for ids in encoded["input_ids"]]
