"""Tangent-CFT: tuples by hand, vectors as means, unknown symbols, files."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from gcl_jax.data import Forest, Formulas, forest_of
from gcl_jax.formulas.trees import Tree
from gcl_jax.tangent_cft import (
    PARTS,
    Alphabet,
    TangentCftConfig,
    load_tangent_cft,
    make_alphabet,
    train_tangent_cft,
    tuple_sentences,
)
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_trees import random_tree

# x^2 = y
TREE = Tree("slt", ("V!x", "N!2", "=", "V!y"), (-1, 0, 0, 2), ("", "a", "n", "n"))
CONFIG = TangentCftConfig(dim=8, negative=3, epochs=2, buckets=500)


def spelt(forest: Forest, alphabet: Alphabet, length: int) -> list[list[str]]:
    """Sentences with tokens for characters; edges in brackets."""
    tokens = ["V!", "x", "y", "N!", "2", "=", "0!", "\x00a", "\x00n", "\x000", "\x001"]
    names = {c: t.replace("\x00", "/") for t, c in alphabet.characters(tokens).items()}
    return [
        ["".join(names[c] for c in word) for word in words]
        for words in tuple_sentences(forest, alphabet, length)
    ]


def test_tuples_of_a_formula() -> None:
    forest = forest_of([TREE, Tree("slt", ("V!y",), (-1,), ("",))])
    first, second = spelt(forest, make_alphabet(forest), 2)
    assert first == [
        "V!xN!2/a",
        "V!x=/n",
        "V!xV!y/n/n",
        "N!20!/n",
        "=V!y/n",
        # Ends are tuples of their own node only.
        "V!y0!/n",
    ]
    assert second == ["V!y0!/n"]
    assert "V!xV!y/n/n" not in spelt(forest, make_alphabet(forest), 1)[0]


def test_unknown_tokens_have_the_same_character_everywhere() -> None:
    alphabet = make_alphabet(forest_of([TREE]))
    one, two = alphabet.characters(["x", "z", "w"]), alphabet.characters(["w", "z"])
    assert one["z"] == two["z"] != one["w"] == two["w"]
    assert len(set(one.values())) == 3
    assert Alphabet(()).characters(["x"])["x"] == Alphabet(("y",)).characters(["x"])["x"]


def formulas(seed: int, count: int = 30) -> Formulas:
    rng = random.Random(seed)
    slts = [random_tree(rng, "slt", rng.randint(1, 12)) for _ in range(count)]
    opts = [random_tree(rng, "opt", rng.randint(1, 12)) for _ in range(count)]
    return Formulas(tuple(map(str, range(count))), forest_of(slts), forest_of(opts))


def test_vectors_are_sums_of_means_and_survive_a_file(tmp_path: Path) -> None:
    pytest.importorskip("gensim", reason="needs gensim")
    train, others = formulas(0), formulas(1, 5)
    model = train_tangent_cft(train, CONFIG)
    vectors = model.encode(others)
    assert vectors.shape == (5, 8)
    assert vectors.dtype == np.float32
    total = np.zeros((5, 8))
    for part in PARTS:
        forest = {"slt": others.slt, "opt": others.opt}.get(part) or others.slt.relabel(
            lambda label: label[:2] if "!" in label else label
        )
        sentences = tuple_sentences(forest, model.parts[part].alphabet, 2)
        total += [model.parts[part].vectors.lookup(words).mean(axis=0) for words in sentences]
    np.testing.assert_allclose(vectors, total, rtol=1e-4, atol=1e-6)
    # In other company the same vector.
    np.testing.assert_allclose(model.encode(others.subset([3])), vectors[[3]], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(train_tangent_cft(train, CONFIG).encode(others), vectors)
    model.save(tmp_path)
    np.testing.assert_array_equal(load_tangent_cft(tmp_path).encode(others), vectors)
    strange = Tree("slt", ("V!never", "Q!seen"), (-1, 0), ("", "z"))
    tree = Tree("opt", ("F!strange", "V!never"), (-1, 0), ("", "1"))
    found = model.encode(Formulas(("s",), forest_of([strange]), forest_of([tree])))
    assert np.isfinite(found).all()
    assert np.abs(found).max() > 0
    (tmp_path / "opt.json").write_text(json.dumps({"tokens": ["x"]}))
    with pytest.raises(InputError, match=r"opt\.json describes no model"):
        load_tangent_cft(tmp_path)
