"""Categories of Wikipedia's articles and their graph, from the SQL dumps of one language.

Wanted are the tables `page` and `categorylinks`; dumps from 2025 on name categories by number and
need `linktarget` too.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Set
from pathlib import Path

from ltr_jax.datasets.sql_dumps import read_columns, read_rows
from retrieval_jax.errors import InputError

_ARTICLE, _CATEGORY = "0", "14"


@dataclasses.dataclass(frozen=True)
class WikipediaCategories:
    """Categories of one Wikipedia.

    Attributes:
        of_article: title -> names of its categories, sorted.
        edges: (category, its parent).
    """

    of_article: dict[str, tuple[str, ...]]
    edges: tuple[tuple[str, str], ...]


def dump_file(folder: Path, language: str, table: str) -> Path:
    """The dump of a table in a folder, the latest by name if there are several.

    Raises:
        InputError: there is none.
    """
    pattern = f"{language}wiki-*-{table}.sql*"
    files = sorted(folder.glob(pattern))
    if not files:
        raise InputError(
            f"{folder} holds no {pattern}.",
            f"Fetch it from https://dumps.wikimedia.org/{language}wiki/ (tables page, "
            "categorylinks and, from 2025 on, linktarget; .sql.gz, left packed).",
        )
    return files[-1]


def read_wikipedia_categories(folder: Path, language: str, titles: Set[str]) -> WikipediaCategories:
    """Reads the categories of some articles and the whole graph of categories.

    Names and titles have spaces, not underscores. The graph may have cycles and several parts, as
    Wikipedia's has.

    Args:
        folder: with the dumps.
        language: such as "de".
        titles: of the articles; others would fill the memory.

    Raises:
        InputError: a dump is missing or cannot be read.
    """
    articles: dict[str, str] = {}
    categories: dict[str, str] = {}
    page = dump_file(folder, language, "page")
    for number, namespace, raw_title in read_rows(
        page, ("page_id", "page_namespace", "page_title")
    ):
        title = _spaced(raw_title)
        if namespace == _CATEGORY:
            categories[number or ""] = title
        elif namespace == _ARTICLE and title in titles:
            articles[number or ""] = title
    links = dump_file(folder, language, "categorylinks")
    by_name = "cl_to" in read_columns(links)
    names = {} if by_name else _target_names(folder, language)
    of_article: defaultdict[str, set[str]] = defaultdict(set)
    edges: dict[tuple[str, str], None] = {}
    wanted = ("cl_from", "cl_to" if by_name else "cl_target_id", "cl_type")
    for member, target, kind in read_rows(links, wanted):
        parent = _spaced(target) if by_name else names.get(target or "")
        if parent is None:
            continue
        if kind == "page" and member in articles:
            of_article[articles[member]].add(parent)
        elif kind == "subcat" and member in categories:
            edges[categories[member], parent] = None
    return WikipediaCategories(
        {title: tuple(sorted(found)) for title, found in of_article.items()}, tuple(edges)
    )


def _target_names(folder: Path, language: str) -> dict[str, str]:
    rows = read_rows(
        dump_file(folder, language, "linktarget"), ("lt_id", "lt_namespace", "lt_title")
    )
    return {
        number or "": _spaced(title) for number, namespace, title in rows if namespace == _CATEGORY
    }


def _spaced(title: str | None) -> str:
    return (title or "").replace("_", " ")
