import os
from pathlib import Path

import pytest

from ltr_jax.baselines import tfidf_ranking
from ltr_jax.datasets.collection import Collection, Texts, Topics
from ltr_jax.datasets.debian_folder import read_debian_folder
from ltr_jax.evaluation import evaluate_levels, to_levels
from ltr_jax.tokenizers import tokenizer
from ltr_jax.translation import (
    learn_dictionary,
    read_dictionary,
    read_translations,
    translate,
    translate_queries,
)
from retrieval_jax.errors import InputError

REAL = (
    Path(os.environ.get("RETRIEVAL_DATA", Path(__file__).parents[3] / "shared" / "data"))
    / "debian_clir"
)


def test_a_dictionary_file(tmp_path) -> None:
    path = tmp_path / "en-de.txt"
    path.write_text("Game\tSpiel\ngame\tPartie\n\nhouse haus\ngame\tSpiel\n", encoding="utf-8")
    dictionary = read_dictionary(path)
    assert dictionary == {"game": ("spiel", "partie"), "house": ("haus",)}
    assert translate("A Game, KDE!", "en", dictionary) == "a spiel partie kde"


@pytest.mark.parametrize("line", ["alone", "a\t", "a\tb\tc", "two words here"])
def test_a_dictionary_with_a_malformed_line(tmp_path, line) -> None:
    path = tmp_path / "en-de.txt"
    path.write_text(f"game\tspiel\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2: not a word"):
        read_dictionary(path)
    with pytest.raises(InputError, match="no file"):
        read_dictionary(tmp_path / "other")


def test_translations_of_the_user(tmp_path) -> None:
    path = tmp_path / "queries.tsv"
    path.write_text("q1\tein Spiel\nq2\t\nq3\tmehr\n", encoding="utf-8")
    assert read_translations(path, ["q2", "q1"]) == {"q2": "", "q1": "ein Spiel"}
    with pytest.raises(InputError, match="lacks 1 of 2 queries, the first 'q9'"):
        read_translations(path, ["q1", "q9"])
    path.write_text("q1\tein\nq1\tzwei\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2.*'q1' for the second time"):
        read_translations(path, ["q1"])


def learnable(relevance=2):
    words = {"game": "spiel", "library": "bibliothek", "editor": "editor"}
    pairs = [(a, b) for a in words for b in words if a != b]
    queries = tuple(f"the {a} {b}" for a, b in pairs)
    documents = tuple(f"das {words[b]} {words[a]}" for a, b in pairs)
    ids = tuple(f"x{i}" for i in range(len(pairs)))
    none = ((),) * len(pairs)
    train = Topics(ids, {i: {i: relevance} for i in ids}, {})
    return Collection(
        "toy", Texts("en", ids, queries, none), Texts("de", ids, documents, none),
        {"train": train}, (),
    )  # fmt: skip


def test_a_dictionary_is_learned_from_pairs() -> None:
    dictionary = learn_dictionary(learnable(), translations=1)
    assert dictionary == {
        "the": ("das",), "game": ("spiel",), "library": ("bibliothek",), "editor": ("editor",),
    }  # fmt: skip
    assert learn_dictionary(learnable(), min_count=5) == {"the": ("das",)}
    with pytest.raises(InputError, match="no document of relevance 2"):
        learn_dictionary(learnable(relevance=1))


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="needs debian_clir in the folder RETRIEVAL_DATA")
def test_a_learned_dictionary_on_real_data() -> None:
    collection = read_debian_folder(REAL, "de")
    dictionary = learn_dictionary(collection)
    assert dictionary["library"][0] == "bibliothek"
    assert dictionary["game"][0] == "spiel"
    topics = collection.splits["dev"]
    texts = translate_queries(collection, topics.query_ids, dictionary)
    rankings = [
        tfidf_ranking(collection, topics.candidates, tokenizer("de"), of) for of in (texts, None)
    ]
    found = [evaluate_levels(to_levels(of, topics, (1000,)), topics) for of in rankings]
    translated, plain = (levels[1000].mean["nDCG"] for levels in found)
    assert translated > plain + 0.05
