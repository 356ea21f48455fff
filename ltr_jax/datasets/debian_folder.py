"""The folder `debian_clir`: descriptions of Debian packages, as tables.

Texts are real translations by people. A query is an English short description with the first
sentence of the long one, names of packages taken out; the document of relevance 2 is the same
package's description in the other language, those of relevance 1 belong to packages that it depends
on or that depend on it. Categories of queries and documents are of different facets, since equal
ones would tell the document of relevance 2.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from ltr_jax.datasets.collection import RELEVANCES, Collection, Texts, Topics
from ltr_jax.datasets.draws import SPLITS
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import integer, read_json_lines, read_table, require_file

QUERY_LANGUAGE = "en"
_REMEDY = (
    "Give the folder with docs.tsv.xz, text_XX.tsv.xz, qrels_en-XX.tsv.xz, cand_en-XX.jsonl.xz and "
    "category_graph.tsv.xz."
)


def read_debian_folder(folder: Path, language: str, seed: int = 0) -> Collection:
    """Reads the collection of English queries and documents in `language`.

    Plain reading: ten megabytes of text take about a second, which a prepared copy would not save.

    Args:
        folder: with the tables.
        language: one that the folder has texts of, such as "de".
        seed: shuffles candidates.

    Raises:
        InputError: no such language, a file is missing, or a line that cannot be read.
    """
    languages = sorted(
        path.name[len("qrels_en-") : -len(".tsv.xz")] for path in folder.glob("qrels_en-*.tsv.xz")
    )
    if language not in languages:
        raise InputError(
            f"{folder} has no collection of documents in {language!r}.",
            f"Choose one of {', '.join(languages)}." if languages else _REMEDY,
        )
    counts: Counter[str] = Counter()
    articles = _articles(folder, counts)
    queries = _texts(folder, QUERY_LANGUAGE, ("query_masked",), articles, "q_meta", counts)
    english = _texts(folder, QUERY_LANGUAGE, ("short", "long"), articles, "d_meta", counts)
    documents = _texts(folder, language, ("short", "long"), articles, "d_meta", counts)
    qrels = _qrels(folder, queries, documents, counts)
    splits = _splits(folder, documents, qrels, articles, seed, counts)
    used = {query for topics in splits.values() for query in topics.query_ids}
    return Collection(
        name=f"debian {QUERY_LANGUAGE}-{language}",
        queries=_subset(queries, used),
        documents=documents,
        splits=splits,
        category_edges=_edges(folder, counts),
        card=dict(counts),
        corpora={QUERY_LANGUAGE: english.texts},
    )


def _file(folder: Path, name: str) -> Path:
    return require_file(folder / name, _REMEDY)


def _articles(folder: Path, counts: Counter[str]) -> dict[str, dict[str, str]]:
    path = _file(folder, "docs.tsv.xz")
    articles: dict[str, dict[str, str]] = {}
    for number, row in read_table(path, ("id", "split", "q_meta", "d_meta"), counts):
        where = f"{path}, line {number}"
        _check_new(f"{where}: package", row["id"], articles)
        if row["split"] not in SPLITS:
            raise InputError(f"{where}: no split {row['split']!r}.", _REMEDY)
        articles[row["id"]] = row
    counts["packages"] = len(articles)
    return articles


def _texts(
    folder: Path,
    language: str,
    fields: tuple[str, ...],
    articles: Mapping[str, Mapping[str, str]],
    categories: str,
    counts: Counter[str],
) -> Texts:
    path = _file(folder, f"text_{language}.tsv.xz")
    texts: dict[str, str] = {}
    for number, row in read_table(path, ("id", *fields), counts):
        where = f"{path}, line {number}"
        if row["id"] not in articles:
            raise InputError(f"{where}: no package {row['id']!r} in docs.tsv.xz.", _REMEDY)
        _check_new(f"{where}: package", row["id"], texts)
        texts[row["id"]] = "\n".join(row[field] for field in fields)
    names = tuple(tuple(filter(None, articles[i][categories].split(","))) for i in texts)
    return Texts(language, tuple(texts), tuple(texts.values()), names)


def _check_new(what: str, name: str, seen: Container[str]) -> None:
    if name in seen:
        raise InputError(f"{what} {name!r} occurs twice.", "Remove one of the lines.")


def _subset(texts: Texts, kept: set[str]) -> Texts:
    rows = [row for row, name in enumerate(texts.ids) if name in kept]
    return Texts(
        texts.language,
        tuple(texts.ids[row] for row in rows),
        tuple(texts.texts[row] for row in rows),
        tuple(texts.categories[row] for row in rows),
    )


def _qrels(
    folder: Path, queries: Texts, documents: Texts, counts: Counter[str]
) -> dict[str, dict[str, int]]:
    path = _file(folder, f"qrels_{QUERY_LANGUAGE}-{documents.language}.tsv.xz")
    qrels: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for number, row in read_table(path, ("qid", "docid", "rel"), counts):
        where, query, document = f"{path}, line {number}", row["qid"], row["docid"]
        _check_new(f"{where}: for query {query!r} the document", document, qrels[query])
        if query not in queries.index or document not in documents.index:
            raise InputError(f"{where}: no query {query!r}, or no document {document!r}.", _REMEDY)
        relevance = integer(row, "rel", path, number)
        if relevance not in RELEVANCES:
            raise InputError(f"{where}: rel is {relevance}, neither 1 nor 2.", "Mend the line.")
        qrels[query][document] = relevance
    return dict(qrels)


def _splits(
    folder: Path,
    documents: Texts,
    qrels: Mapping[str, Mapping[str, int]],
    articles: Mapping[str, Mapping[str, str]],
    seed: int,
    counts: Counter[str],
) -> dict[str, Topics]:
    path = _file(folder, f"cand_{QUERY_LANGUAGE}-{documents.language}.jsonl.xz")
    irrelevant: dict[str, dict[str, tuple[str, ...]]] = {"dev": {}, "test": {}}
    for number, row in read_json_lines(path, counts):
        where = f"{path}, line {number}"
        query, drawn = _candidates(row, where)
        split = row.get("split")
        if split not in irrelevant or query not in qrels or articles[query]["split"] != split:
            raise InputError(
                f"{where}: split {split!r}, query {query!r}: no judged query of dev or test.",
                _REMEDY,
            )
        _check_new(f"{where}: query", query, irrelevant[split])
        unknown = next((name for name in drawn if name not in documents.index), None)
        if unknown is not None:
            raise InputError(f"{where}: no document {unknown!r}.", _REMEDY)
        irrelevant[split][query] = drawn
    train = tuple(query for query in qrels if articles[query]["split"] == "train")
    counts["dev and test queries without a link, left out"] = (
        len(qrels) - len(train) - sum(map(len, irrelevant.values()))
    )
    ranked = {
        split: Topics(tuple(of_split), {query: qrels[query] for query in of_split}, of_split, seed)
        for split, of_split in irrelevant.items()
    }
    return {"train": Topics(train, {query: qrels[query] for query in train}, {}, seed), **ranked}


def _candidates(row: Mapping[str, Any], where: str) -> tuple[str, tuple[str, ...]]:
    documents = row.get("irr")
    if not isinstance(row.get("qid"), int) or not isinstance(documents, list):
        raise InputError(f"{where}: no `qid` with a list `irr`.", _REMEDY)
    return str(row["qid"]), tuple(map(str, documents))


def _edges(folder: Path, counts: Counter[str]) -> tuple[tuple[str, str], ...]:
    path = _file(folder, "category_graph.tsv.xz")
    return tuple((row["a"], row["b"]) for _, row in read_table(path, ("a", "b"), counts))
