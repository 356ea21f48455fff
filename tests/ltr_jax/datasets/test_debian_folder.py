import json
import lzma
import os
from pathlib import Path

import pytest

from ltr_jax.datasets.debian_folder import read_debian_folder
from retrieval_jax.errors import InputError

REAL = (
    Path(os.environ.get("RETRIEVAL_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "debian_clir"
)

TABLES = {
    "docs.tsv.xz": [
        "id\tsource\tsplit\tq_meta\td_meta",
        "0\tchess\ttrain\tgame::board\trole::program,section::games",
        "1\tgo\ttest\tgame::board,use::gameplaying\trole::program",
        "2\tlib\ttest\t\tsection::libs",
        "3\tother\ttest\t\tsection::misc",
    ],
    "text_en.tsv.xz": [
        "id\tquery_masked\tshort\tlong",
        "0\ta game\ta game\tIt is chess.",
        '1\tanother "game"\tanother\tIt is go.',
        "2\ta library\ta library\tFor games.",
        "3\tmore\tmore\tNot linked.",
    ],
    "text_de.tsv.xz": [
        "id\tshort\tlong",
        "0\tein Spiel\tEs ist Schach.",
        "1\tnoch eines\tEs ist Go.",
        "2\teine Bibliothek\tFür Spiele.",
        "3\tmehr\tOhne Verweis.",
    ],
    "qrels_en-de.tsv.xz": [
        "qid\tdocid\trel",
        "0\t0\t2",
        "1\t1\t2",
        "1\t2\t1",
        "2\t2\t2",
        "2\t1\t1",
        "3\t3\t2",
    ],
    "cand_en-de.jsonl.xz": [
        json.dumps({"qid": 1, "split": "test", "rel2": [1], "rel1": [2], "irr": [3, 0]}),
        json.dumps({"qid": 2, "split": "test", "rel2": [2], "rel1": [1], "irr": [0, 3]}),
    ],
    "category_graph.tsv.xz": [
        "a\tb\tkind\tweight",
        "game::board\tfacet:game\tin_facet\t2",
        "game::board\trole::program\tcooccur\t1",
    ],
}


@pytest.fixture
def folder(tmp_path):
    for name, lines in TABLES.items():
        with lzma.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return tmp_path


def test_the_tables_become_a_collection(folder) -> None:
    collection = read_debian_folder(folder, "de")
    assert collection.name == "debian en-de"
    assert collection.queries.ids == ("0", "1", "2")
    assert collection.queries.texts[1] == 'another "game"'
    assert collection.queries.categories[1] == ("game::board", "use::gameplaying")
    assert collection.documents.texts[0] == "ein Spiel\nEs ist Schach."
    assert collection.documents.categories[0] == ("role::program", "section::games")
    assert collection.splits["train"].query_ids == ("0",)
    assert collection.splits["test"].qrels["1"] == {"1": 2, "2": 1}
    assert collection.splits["test"].irrelevant == {"1": ("3", "0"), "2": ("0", "3")}
    assert collection.splits["test"].candidates["1"] != ("1", "2", "3", "0")
    assert collection.category_edges == (
        ("game::board", "facet:game"),
        ("game::board", "role::program"),
    )
    assert collection.card["dev and test queries without a link, left out"] == 1
    assert "a library\nFor games." in collection.corpus("en")


def test_a_language_that_is_not_there(folder) -> None:
    with pytest.raises(InputError, match=r"documents in 'xx'(.|\n)*one of de"):
        read_debian_folder(folder, "xx")


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        ("docs.tsv.xz", "3\tx\ttest\t\t", "line 6: package '3' occurs twice"),
        ("docs.tsv.xz", "4\tx\trest\t\t", "line 6: no split 'rest'"),
        ("qrels_en-de.tsv.xz", "1\t1\t2", "line 8: for query '1' the document '1' occurs twice"),
        ("qrels_en-de.tsv.xz", "1\t3", "line 8: 2 fields"),
        ("qrels_en-de.tsv.xz", "1\t3\tx", "line 8: rel is 'x'"),
        ("qrels_en-de.tsv.xz", "1\t3\t0", "line 8: rel is 0"),
        ("qrels_en-de.tsv.xz", "1\t9\t1", "line 8: no query '1', or no document '9'"),
        ("text_de.tsv.xz", "9\tx\ty", "line 6: no package '9'"),
        ("text_de.tsv.xz", "3\tx\ty", "line 6: package '3' occurs twice"),
        ("cand_en-de.jsonl.xz", '{"qid": 7, "irr": []}', "line 3: split None"),
        ("cand_en-de.jsonl.xz", '{"qid": "7"}', "line 3: no `qid` with a list"),
        ("cand_en-de.jsonl.xz", '{"qid": 1, "split": "dev", "irr": []}', "line 3: split 'dev'"),
        ("cand_en-de.jsonl.xz", '{"qid": 1, "split": "test", "irr": []}', "'1' occurs twice"),
        ("cand_en-de.jsonl.xz", '{"qid": 3, "split": "test", "irr": [9]}', "no document '9'"),
    ],
)
def test_malformed_lines(folder, name, line, problem) -> None:
    with lzma.open(folder / name, "at", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=problem):
        read_debian_folder(folder, "de")


def test_a_missing_file(folder) -> None:
    (folder / "docs.tsv.xz").unlink()
    with pytest.raises(InputError, match=r"docs\.tsv\.xz"):
        read_debian_folder(folder, "de")


@pytest.mark.skipif(not REAL.is_dir(), reason="needs debian_clir in the folder RETRIEVAL_DATA")
def test_the_real_folder() -> None:
    collection = read_debian_folder(REAL, "ja")
    sizes = {split: len(topics.query_ids) for split, topics in collection.splits.items()}
    assert sizes == {"train": 2838, "dev": 190, "test": 206}
    assert len(collection.documents.ids) == 3519
    test = collection.splits["test"]
    partly = sum(level == 1 for judged in test.qrels.values() for level in judged.values())
    assert round(partly / len(test.query_ids), 2) == 3.40
    assert {len(of_query) for of_query in test.irrelevant.values()} == {1000}
    of_queries, of_documents = (
        {name for names in side.categories for name in names}
        for side in (collection.queries, collection.documents)
    )
    assert not of_queries & of_documents  # equal ones would tell the document of relevance 2
