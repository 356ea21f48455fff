"""Wikipedia in two languages (Sasaki et al., 2018), with categories from Wikipedia's dumps.

A query is the first sentence of an English article, without its title; of relevance 2 is the
corresponding article in the other language, of 1 those linked both ways with it. Categories are
added from the dumps, and disambiguation pages left out by them (section 3.1).
"""

import dataclasses
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from ltr_jax.datasets.collection import DIFFICULTIES, Collection, Texts, Topics
from ltr_jax.datasets.draws import draw_irrelevant, sample, split_of
from ltr_jax.datasets.wikipedia_categories import WikipediaCategories, read_wikipedia_categories
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import read_lines, require_file

QUERY_LANGUAGE = "en"
# Folders of the published archive.
FOLDERS = {
    "ar": "arabic",
    "ca": "catalan",
    "zh": "chinese",
    "cs": "czech",
    "nl": "dutch",
    "fi": "finnish",
    "fr": "french",
    "de": "german",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "no": "norwegian_(bokmal)",
    "nn": "norwegian_(nynorsk)",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "es": "spanish",
    "sw": "swahili",
    "sv": "swedish",
    "tl": "tagalog",
    "tr": "turkish",
    "uk": "ukrainian",
    "vi": "vietnamese",
}
# Categories of disambiguation pages.
_DISAMBIGUATION = frozenset(
    ("All disambiguation pages", "Disambiguation pages", "Begriffsklärung", "Homonymie",
     "Toutes les pages d'homonymie", "すべての曖昧さ回避", "曖昧さ回避")
)  # fmt: skip
# Queries of training with a document of relevance 2 (section 3.1).
TRAINING_QUERIES = {"ja": 14_800, "de": 32_600, "fr": 38_000}
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class WikipediaOptions:
    """How much of the collection to take; there are millions of articles.

    Attributes:
        training_queries: None = as in the paper, or all for languages that it has not.
        ranked_queries: of dev, and of test.
        partly_relevant: documents of relevance 1 of a training query, at most; the paper samples
            them too. Dev and test keep all.
        irrelevant: documents of each dev and test query.
        pool: articles that are relevant to no query taken, of which irrelevant ones are drawn.
        seed: of all draws.
    """

    training_queries: int | None = None
    ranked_queries: int = 2_000
    partly_relevant: int = 4
    irrelevant: int = max(DIFFICULTIES)
    pool: int = 50_000
    seed: int = 0


def wikipedia_files(folder: Path, language: str) -> tuple[Path, Path, Path]:
    """Queries, documents and judgements in the published archive.

    Raises:
        InputError: no such language, or a file is missing: says what to fetch and where to put it.
    """
    if language not in FOLDERS:
        raise InputError(
            f"Wikipedia CLIR has no documents in {language!r}.",
            f"It has {', '.join(sorted(FOLDERS))}.",
        )
    of_language = folder / "wiki-clir" / FOLDERS[language]
    remedy = (
        f"Fetch the Large-Scale CLIR Dataset (Sasaki et al., 2018; http://www.cs.jhu.edu/~kevinduh/"
        f"a/wikiclir2018/) and unpack it into {folder}, so that there is {of_language}. For "
        f"categories, put the dumps enwiki-*.sql.gz and {language}wiki-*.sql.gz of the tables "
        "page, categorylinks and linktarget beside it (https://dumps.wikimedia.org)."
    )
    return (
        require_file(folder / "wiki-clir" / "english" / "wiki_en.queries", remedy),
        require_file(of_language / f"wiki_{language}.documents", remedy),
        require_file(of_language / f"en2{language}.rel", remedy),
    )


def read_wikipedia_clir(
    folder: Path, language: str, options: WikipediaOptions | None = None
) -> Collection:
    """Reads a part of the collection.

    The archive has no splits: queries are dealt by the MD5 of their id, 80 / 10 / 10 %.

    Args:
        folder: with `wiki-clir` and the dumps; without any dump there are no categories, and
            disambiguation pages stay.
        language: of the documents.
        options: how much.

    Raises:
        InputError: a file is missing, or has a line that cannot be read.
    """
    options = options or WikipediaOptions()
    queries_file, documents_file, rel_file = wikipedia_files(folder, language)
    counts: Counter[str] = Counter()
    judged = _judgements(rel_file, counts)
    queries = _articles(queries_file, judged.keys(), counts)
    everything = {document for of_query in judged.values() for document in of_query}
    titles = _titles(documents_file, counts)
    of_queries, of_documents = _categories(folder, language, queries, titles)
    dropped = set(_disambiguations(of_queries))
    english = {q: text for q, (title, text) in queries.items() if title not in dropped}
    counts["disambiguation pages among queries"] = len(queries) - len(english)
    dropped = set(_disambiguations(of_documents))
    allowed = {document for document, title in titles.items() if title not in dropped}
    counts["disambiguation pages among documents"] = len(titles) - len(allowed)
    judged = {
        query: {d: level for d, level in of_query.items() if d in allowed}
        for query, of_query in judged.items()
        if query in english
    }
    judged = {query: of_query for query, of_query in judged.items() if 2 in of_query.values()}
    taken = _taken_queries(judged, language, options)
    kept = _kept_documents(taken, judged, allowed - everything, options)
    texts = _articles(documents_file, kept, counts)
    ids = tuple(sorted(kept & texts.keys()))
    splits = {
        split: _topics(split, of_split, judged, ids, options) for split, of_split in taken.items()
    }
    names = tuple(sorted(query for of_split in taken.values() for query in of_split))
    counts |= Counter({"queries": len(names), "documents": len(ids)})
    return Collection(
        name=f"wikipedia {QUERY_LANGUAGE}-{language}",
        queries=Texts(
            QUERY_LANGUAGE,
            names,
            tuple(english[query] for query in names),
            _named(QUERY_LANGUAGE, of_queries, (queries[query][0] for query in names)),
        ),
        documents=Texts(
            language,
            ids,
            tuple("\n".join(texts[document]) for document in ids),
            _named(language, of_documents, (texts[document][0] for document in ids)),
        ),
        splits=splits,
        category_edges=tuple(
            (f"{of}:{child}", f"{of}:{parent}")
            for of, categories in ((QUERY_LANGUAGE, of_queries), (language, of_documents))
            for child, parent in categories.edges
        ),
        card=dict(counts),
    )


def _fields(
    path: Path, n: int, layout: str, counts: Counter[str]
) -> Iterable[tuple[int, list[str]]]:
    for number, line in read_lines(path, counts):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split("\t", n - 1)
        if len(fields) != n:
            raise InputError(
                f"{path}, line {number}: {len(fields)} fields.", f"A line must be `{layout}`."
            )
        yield number, fields


def _judgements(path: Path, counts: Counter[str]) -> dict[str, dict[str, int]]:
    judged: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for number, (query, document, level) in _fields(
        path, 3, "query TAB document TAB 1 or 2", counts
    ):
        if level not in ("1", "2"):
            raise InputError(f"{path}, line {number}: relevance {level!r}.", "It must be 1 or 2.")
        if document in judged[query]:
            counts["judgements given twice, the higher kept"] += 1
        judged[query][document] = max(int(level), judged[query].get(document, 0))
    return dict(judged)


def _articles(
    path: Path, wanted: Iterable[str], counts: Counter[str]
) -> dict[str, tuple[str, str]]:
    """Id -> title and text of the wanted articles."""
    wanted = set(wanted)
    rows = _fields(path, 3, "id TAB title TAB text", counts)
    return {fields[0]: (fields[1], fields[2]) for _, fields in rows if fields[0] in wanted}


def _titles(path: Path, counts: Counter[str]) -> dict[str, str]:
    rows = _fields(path, 3, "id TAB title TAB text", counts)
    return {fields[0]: fields[1] for _, fields in rows}


def _categories(
    folder: Path,
    language: str,
    queries: Mapping[str, tuple[str, str]],
    titles: Mapping[str, str],
) -> tuple[WikipediaCategories, WikipediaCategories]:
    if not any(folder.glob("*wiki-*.sql*")):
        _log.warning("%s holds no dumps: no categories, and disambiguation pages stay", folder)
        return WikipediaCategories({}, ()), WikipediaCategories({}, ())
    english = {title for title, _ in queries.values()}
    return (
        read_wikipedia_categories(folder, QUERY_LANGUAGE, english),
        read_wikipedia_categories(folder, language, set(titles.values())),
    )


def _disambiguations(categories: WikipediaCategories) -> set[str]:
    return {title for title, names in categories.of_article.items() if _DISAMBIGUATION & set(names)}


def _named(
    language: str, categories: WikipediaCategories, titles: Iterable[str]
) -> tuple[tuple[str, ...], ...]:
    """Names with their language before them: the graphs of two languages are two graphs."""
    of_article = categories.of_article
    return tuple(tuple(f"{language}:{c}" for c in of_article.get(title, ())) for title in titles)


def _taken_queries(
    judged: Mapping[str, object], language: str, options: WikipediaOptions
) -> dict[str, tuple[str, ...]]:
    by_split: defaultdict[str, list[str]] = defaultdict(list)
    for query in judged:
        by_split[split_of(query)].append(query)
    training = options.training_queries or TRAINING_QUERIES.get(language)
    limits = {"train": training, "dev": options.ranked_queries, "test": options.ranked_queries}
    return {
        split: tuple(sample(by_split[split], limit, options.seed, "query"))
        for split, limit in limits.items()
    }


def _kept_documents(
    taken: Mapping[str, Iterable[str]],
    judged: Mapping[str, Mapping[str, int]],
    unjudged: Iterable[str],
    options: WikipediaOptions,
) -> set[str]:
    kept = set(sample(unjudged, options.pool, options.seed, "pool"))
    for split, queries in taken.items():
        for query in queries:
            partly = [d for d, level in judged[query].items() if level == 1]
            if split == "train":
                partly = sample(partly, options.partly_relevant, options.seed, query)
            kept.update(partly)
            kept.update(d for d, level in judged[query].items() if level == 2)
    return kept


def _topics(
    split: str,
    queries: tuple[str, ...],
    judged: Mapping[str, Mapping[str, int]],
    ids: tuple[str, ...],
    options: WikipediaOptions,
) -> Topics:
    known = set(ids)
    qrels = {
        query: {d: level for d, level in judged[query].items() if d in known} for query in queries
    }
    if split == "train":
        return Topics(queries, qrels, {}, options.seed)
    drawn = draw_irrelevant(qrels, ids, options.irrelevant, options.seed)
    return Topics(queries, qrels, drawn, options.seed)
