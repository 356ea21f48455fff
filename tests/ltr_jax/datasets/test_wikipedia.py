import gzip

import pytest

from ltr_jax.datasets.draws import split_of
from ltr_jax.datasets.sql_dumps import read_columns, read_rows
from ltr_jax.datasets.wikipedia_categories import dump_file, read_wikipedia_categories
from ltr_jax.datasets.wikipedia_clir import WikipediaOptions, read_wikipedia_clir
from retrieval_jax.errors import InputError

PAGE_TABLE = """\
-- MySQL dump
CREATE TABLE `page` (
  `page_id` int(8) unsigned NOT NULL AUTO_INCREMENT,
  `page_namespace` int(11) NOT NULL DEFAULT 0,
  `page_title` varbinary(255) NOT NULL DEFAULT '',
  `page_random` double unsigned NOT NULL DEFAULT 0,
  PRIMARY KEY (`page_id`),
  KEY `page_random` (`page_random`)
) ENGINE=InnoDB;
"""
OLD_LINKS = """\
CREATE TABLE `categorylinks` (
  `cl_from` int(8) unsigned NOT NULL DEFAULT 0,
  `cl_to` varbinary(255) NOT NULL DEFAULT '',
  `cl_sortkey` varbinary(230) NOT NULL DEFAULT '',
  `cl_type` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  PRIMARY KEY (`cl_from`,`cl_to`)
);
"""
NEW_LINKS = """\
CREATE TABLE `categorylinks` (
  `cl_from` int(8) unsigned NOT NULL DEFAULT 0,
  `cl_sortkey` varbinary(230) NOT NULL DEFAULT '',
  `cl_type` enum('page','subcat','file') NOT NULL DEFAULT 'page',
  `cl_target_id` bigint(20) unsigned DEFAULT NULL
);
"""
TARGETS = """\
CREATE TABLE `linktarget` (
  `lt_id` bigint(20) unsigned NOT NULL,
  `lt_namespace` int(11) NOT NULL,
  `lt_title` varbinary(255) NOT NULL
);
"""


def insert(table, *rows):
    return f"INSERT INTO `{table}` VALUES {','.join(rows)};\n"


def write(path, *parts):
    content = b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)
    path.write_bytes(gzip.compress(content))
    return path


def test_rows_of_a_dump(tmp_path) -> None:
    path = write(
        tmp_path / "page.sql.gz",
        PAGE_TABLE,
        insert("page", r"(1,0,'O\'Neil_(x),_\"y\"\\',0.5)", "(2,14,'it''s),(9',1e-05)"),
        b"INSERT INTO `page` VALUES (3,0,'\xff\\n',-0.25),(4,0,NULL,0);\n",
        "UNLOCK TABLES;\n",
    )
    assert read_columns(path) == ("page_id", "page_namespace", "page_title", "page_random")
    assert list(read_rows(path, ("page_title", "page_id"))) == [
        ('O\'Neil_(x),_"y"\\', "1"),
        ("it's),(9", "2"),
        ("�\n", "3"),
        (None, "4"),
    ]


@pytest.mark.parametrize(
    "rows",
    ["(1,0,'a',0.5),(2,0,'b')", "(1,0,'a',0.5),x", "(1,0,'a,0.5)", "(1,0,sleep(9),0.5)", "(1,0"],
)
def test_rows_that_cannot_be_read(tmp_path, rows) -> None:
    path = write(tmp_path / "page.sql.gz", PAGE_TABLE, f"INSERT INTO `page` VALUES {rows};\n")
    with pytest.raises(InputError, match=r"line 10, byte \d+: not a row of 4 values"):
        list(read_rows(path, ("page_id",)))


def test_dumps_that_are_not_the_right_ones(tmp_path) -> None:
    path = write(tmp_path / "page.sql.gz", PAGE_TABLE, insert("page", "(1,0,'a',0.5)"))
    with pytest.raises(InputError, match="no column cl_to, only page_id"):
        list(read_rows(path, ("cl_to",)))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match="is damaged"):
        list(read_rows(path, ("page_id",)))
    with pytest.raises(InputError, match="no CREATE TABLE"):
        read_columns(write(tmp_path / "empty.sql.gz", "--\n"))


def write_dumps(folder, language, new=False, disambiguation="Begriffsklärung"):
    pages = [
        "(1,0,'Red_apple',0.1)", "(2,0,'Pear',0.1)", "(3,0,'Apple_(word)',0.1)",
        "(4,1,'Pear',0.1)", "(11,14,'Fruit',0.1)", "(12,14,'Food',0.1)", "(13,14,'Alone',0.1)",
    ]  # fmt: skip
    write(folder / f"{language}wiki-20260101-page.sql.gz", PAGE_TABLE, insert("page", *pages))
    links = [
        (1, "Fruit", "page"), (1, "Round_things", "page"), (2, "Fruit", "page"),
        (3, disambiguation, "page"), (4, "Talk", "page"), (11, "Food", "subcat"),
        (12, "Fruit", "subcat"), (99, "Food", "subcat"), (1, "Fruit", "file"),
    ]  # fmt: skip
    names = sorted({name for _, name, _ in links})
    if new:
        rows = [f"({a},'KEY','{kind}',{names.index(name)})" for a, name, kind in links]
        targets = [f"({i},14,'{name}')" for i, name in enumerate(names)]
        path = folder / f"{language}wiki-20260101-linktarget.sql.gz"
        write(path, TARGETS, insert("linktarget", *targets, "(77,0,'Fruit')"))
    else:
        rows = [f"({a},'{name}','KEY','{kind}')" for a, name, kind in links]
    table = NEW_LINKS if new else OLD_LINKS
    path = folder / f"{language}wiki-20260101-categorylinks.sql.gz"
    write(path, table, insert("categorylinks", *rows))


@pytest.mark.parametrize("new", [False, True])
def test_categories_and_their_graph(tmp_path, new) -> None:
    write_dumps(tmp_path, "de", new)
    found = read_wikipedia_categories(tmp_path, "de", {"Red apple", "Pear", "Nothing"})
    assert found.of_article == {"Red apple": ("Fruit", "Round things"), "Pear": ("Fruit",)}
    assert found.edges == (("Fruit", "Food"), ("Food", "Fruit"))  # a cycle


def test_a_dump_that_is_missing(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no dewiki-\*-page\.sql(.|\n)*dumps\.wikimedia\.org"):
        dump_file(tmp_path, "de", "page")


def write_archive(folder, n=60):
    """Query i is about document 1000 + i; odd ones are linked with the next."""
    english, german = folder / "wiki-clir" / "english", folder / "wiki-clir" / "german"
    english.mkdir(parents=True)
    german.mkdir()
    titles = {0: "Red apple", 1: "Pear", 2: "Apple (word)"}
    queries = [f"{i}\t{titles.get(i, f'Title {i}')}\tquery {i}" for i in range(n)]
    (english / "wiki_en.queries").write_text("\n".join([*queries, "999\tx\tunused"]) + "\n")
    documents = [f"{1000 + i}\t{titles.get(i, f'Titel {i}')}\tText\t{i}" for i in range(2 * n)]
    (german / "wiki_de.documents").write_text("\n".join(documents) + "\n")
    rel = [f"{i}\t{1000 + i}\t2" for i in range(n)]
    rel += [f"{i}\t{1000 + (i + 1) % n}\t1" for i in range(1, n, 2)]
    rel += ["5\t1005\t1"]
    (german / "en2de.rel").write_text("\n".join(rel) + "\n")


def test_the_archive_with_categories(tmp_path) -> None:
    write_archive(tmp_path)
    write_dumps(tmp_path, "en", disambiguation="All_disambiguation_pages")
    write_dumps(tmp_path, "de", new=True)
    collection = read_wikipedia_clir(tmp_path, "de", WikipediaOptions(irrelevant=20))
    assert collection.name == "wikipedia en-de"
    assert len(collection.queries.ids) == 59  # but for the disambiguation page
    assert collection.card["disambiguation pages among queries"] == 1
    assert collection.card["judgements given twice, the higher kept"] == 1
    assert len(collection.documents.ids) == 119
    assert "1002" not in collection.documents.index
    judged = {
        q: dict(of) for topics in collection.splits.values() for q, of in topics.qrels.items()
    }
    assert judged["5"] == {"1005": 2, "1006": 1}
    assert judged["1"] == {"1001": 2}  # its r=1 document is a disambiguation page
    for split, topics in collection.splits.items():
        assert all(split_of(query) == split for query in topics.query_ids)
        if split != "train":
            assert {len(topics.irrelevant[query]) for query in topics.query_ids} == {20}
    queries, documents = collection.queries, collection.documents
    assert queries.texts[queries.index["7"]] == "query 7"
    assert queries.categories[queries.index["0"]] == ("en:Fruit", "en:Round things")
    assert documents.texts[documents.index["1001"]] == "Pear\nText\t1"
    assert documents.categories[documents.index["1001"]] == ("de:Fruit",)
    assert ("en:Fruit", "en:Food") in collection.category_edges
    assert ("de:Food", "de:Fruit") in collection.category_edges


def test_a_part_of_the_archive(tmp_path, caplog) -> None:
    write_archive(tmp_path)
    options = WikipediaOptions(
        training_queries=10, ranked_queries=2, partly_relevant=0, irrelevant=5, pool=7
    )
    collection = read_wikipedia_clir(tmp_path, "de", options)
    assert "no dumps" in caplog.text
    assert collection.category_edges == ()
    sizes = {split: len(topics.query_ids) for split, topics in collection.splits.items()}
    assert sizes == {"train": 10, "dev": 2, "test": 2}
    assert len(collection.documents.ids) < 14 + 4 + 7 + 1
    whole = read_wikipedia_clir(tmp_path, "de", WikipediaOptions(training_queries=20))
    assert set(collection.splits["train"].query_ids) < set(whole.splits["train"].query_ids)


def test_an_archive_that_is_not_there(tmp_path) -> None:
    with pytest.raises(InputError, match=r"wiki_en\.queries(.|\n)*Fetch the Large-Scale CLIR"):
        read_wikipedia_clir(tmp_path, "de")
    with pytest.raises(InputError, match="no documents in 'xx'"):
        read_wikipedia_clir(tmp_path, "xx")


@pytest.mark.parametrize(
    ("line", "problem"), [("1\t2", "line 92: 2 fields"), ("1\t2\t3", "line 92: relevance '3'")]
)
def test_malformed_judgements(tmp_path, line, problem) -> None:
    write_archive(tmp_path)
    with (tmp_path / "wiki-clir" / "german" / "en2de.rel").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=problem):
        read_wikipedia_clir(tmp_path, "de")
