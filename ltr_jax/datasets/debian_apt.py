"""The Debian collection made from apt's own indexes: any release, any of its languages.

The rules are those of `debian_folder`. An article is a source package; one of its binary packages
stands for it.
"""

import dataclasses
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ltr_jax.datasets.apt_lists import (
    Description,
    Package,
    read_app_categories,
    read_packages,
    read_translations,
)
from ltr_jax.datasets.collection import DIFFICULTIES, Collection, Texts, Topics
from ltr_jax.datasets.draws import SPLITS, draw_irrelevant, split_of
from retrieval_jax.errors import InputError

QUERY_LANGUAGE = "en"
# Facets of what a package is for. Queries have tags of these, documents of all others: the same
# tags on both sides would tell the document of relevance 2.
TOPICAL_FACETS = frozenset(
    {
        *("accessibility", "biology", "culture", "field", "game", "iso15924", "junior", "mail"),
        *("network", "office", "privacy", "protocol", "science", "scope", "security", "sound"),
        *("use", "web", "works-with", "works-with-format"),
    }
)
# Packages that nearly everything depends on say nothing of what is related.
MAX_DEGREE = 50
_MIN_NAME_PART = 3
# Not after a capital letter, which an initial may be.
_SENTENCE_END = re.compile(r"(?<=[^A-Z\s][.!?])\s+(?=[A-Z])|\n")


@dataclasses.dataclass(frozen=True)
class Article:
    """A source package.

    Attributes:
        source: its name, the id.
        package: the binary package that stands for it.
        english: description.
        translation: description in the documents' language.
        query_categories: debtags of topical facets.
        document_categories: the other debtags, section, AppStream categories.
    """

    source: str
    package: Package
    english: Description
    translation: Description
    query_categories: tuple[str, ...]
    document_categories: tuple[str, ...]

    @property
    def split(self) -> str:
        """Of the source's name."""
        return split_of(self.source)


def read_apt_lists(
    folder: Path, language: str, irrelevant: int = max(DIFFICULTIES), seed: int = 0
) -> Collection:
    """Makes the collection of English queries and documents in `language`.

    Args:
        folder: apt's lists, with Packages and Translation-en and Translation-`language`; with
            DEP-11 indexes there are more categories.
        language: of the documents.
        irrelevant: documents of each dev and test query, fewer in a small collection.
        seed: draws and shuffles candidates.

    Raises:
        InputError: an index is missing, or nothing is translated.
    """
    counts: Counter[str] = Counter()
    packages = read_packages(folder)
    counts["binary packages"] = len(packages)
    articles = _articles(folder, packages, language, counts)
    if len(articles) < 2:
        raise InputError(
            f"{folder}: {len(articles)} packages are described in {language!r}.",
            "Choose another language or release.",
        )
    links = _links(packages, articles, counts)
    splits = _splits(articles, links, irrelevant, seed, counts)
    used = sorted({query for topics in splits.values() for query in topics.query_ids})
    by_source = {article.source: article for article in articles}
    return Collection(
        name=f"debian {QUERY_LANGUAGE}-{language}",
        queries=Texts(
            QUERY_LANGUAGE,
            tuple(used),
            tuple(masked_query(by_source[source]) for source in used),
            tuple(by_source[source].query_categories for source in used),
        ),
        documents=Texts(
            language,
            tuple(article.source for article in articles),
            tuple(f"{a.translation.short}\n{a.translation.long}" for a in articles),
            tuple(article.document_categories for article in articles),
        ),
        splits=splits,
        category_edges=_category_edges(articles),
        card=dict(counts),
        corpora={QUERY_LANGUAGE: tuple(f"{a.english.short}\n{a.english.long}" for a in articles)},
    )


def _articles(
    folder: Path, packages: Mapping[str, Package], language: str, counts: Counter[str]
) -> list[Article]:
    english = read_translations(folder, QUERY_LANGUAGE)
    translated = read_translations(folder, language)
    of_apps = read_app_categories(folder)
    by_source: defaultdict[str, list[Package]] = defaultdict(list)
    for package in packages.values():
        key = (package.name, package.md5)
        if key in translated and key in english:
            if translated[key] == english[key]:
                counts["translations equal to the English text, left out"] += 1
            else:
                by_source[package.source].append(package)
    articles, seen = [], set()
    for source, binaries in sorted(by_source.items()):
        # The package of the source's own name, else the one of the shortest.
        package = min(binaries, key=lambda p: (p.name != source, len(p.name), p.name))
        texts = english[package.name, package.md5], translated[package.name, package.md5]
        if any(text in seen for text in texts):
            counts["sources with the text of another, left out"] += 1
            continue
        seen.update(texts)
        tags = {tag for tag in package.tags if "::" in tag and not tag.startswith("special::")}
        topical = {tag for tag in tags if tag.split("::")[0] in TOPICAL_FACETS}
        others = tags - topical | {f"app::{name}" for name in of_apps.get(package.name, ())}
        if package.section:
            others.add(f"section::{package.section}")
        of_query, of_document = tuple(sorted(topical)), tuple(sorted(others))
        articles.append(Article(source, package, *texts, of_query, of_document))
    counts["sources"] = len(articles)
    counts["queries without category"] = sum(not a.query_categories for a in articles)
    counts["documents without category"] = sum(not a.document_categories for a in articles)
    return articles


def masked_query(article: Article) -> str:
    """The short description and the first sentence of the long one, without the package's name.

    Words of the names of source and package are removed: a name is the same in every language.
    """
    first = _SENTENCE_END.split(article.english.long, maxsplit=1)[0]
    text = f"{article.english.short}. {first}"
    names = {article.source.lower(), article.package.name.lower()}
    parts = {part for name in names for part in re.split(r"[-+._]", name)}
    parts |= {part.strip("0123456789") for part in names | parts}
    parts |= {part.removeprefix("lib") for part in parts}
    removed = names | {part for part in parts if len(part) >= _MIN_NAME_PART}
    removed = {name for name in removed if not name.isdecimal()}
    if not removed:
        return text
    pattern = "|".join(re.escape(name) for name in sorted(removed, key=lambda n: (-len(n), n)))
    masked = re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", "", text, flags=re.IGNORECASE)
    return " ".join(masked.split())


def _links(
    packages: Mapping[str, Package], articles: Sequence[Article], counts: Counter[str]
) -> dict[str, set[str]]:
    """Source -> sources that it refers to or that refer to it; without hubs."""
    sources = {article.source for article in articles}
    outgoing: defaultdict[str, set[str]] = defaultdict(set)
    for package in packages.values():
        for name in package.links:
            target = packages.get(name)
            if target is not None and target.source != package.source:
                outgoing[package.source].add(target.source)
    incoming = Counter(target for targets in outgoing.values() for target in targets)
    hubs = {s for s, targets in outgoing.items() if len(targets) > MAX_DEGREE}
    hubs |= {source for source, count in incoming.items() if count > MAX_DEGREE}
    counts["hubs, whose links are left out"] = len(hubs & sources)
    links: defaultdict[str, set[str]] = defaultdict(set)
    for source in (sources - hubs) & outgoing.keys():
        for target in (outgoing[source] & sources) - hubs:
            links[source].add(target)
            links[target].add(source)
            counts["links"] += 1
    return links


def _splits(
    articles: Sequence[Article],
    links: Mapping[str, set[str]],
    irrelevant: int,
    seed: int,
    counts: Counter[str],
) -> dict[str, Topics]:
    ids = [article.source for article in articles]
    queries: dict[str, list[str]] = {split: [] for split in SPLITS}
    for article in articles:
        if article.split == "train" or links.get(article.source):
            queries[article.split].append(article.source)
        else:
            counts["dev and test queries without a link, left out"] += 1
    splits = {}
    for split, of_split in queries.items():
        qrels = {
            query: {query: 2, **dict.fromkeys(sorted(links.get(query, ())), 1)}
            for query in of_split
        }
        drawn = {} if split == "train" else draw_irrelevant(qrels, ids, irrelevant, seed)
        splits[split] = Topics(tuple(of_split), qrels, drawn, seed)
    return splits


def _category_edges(articles: Iterable[Article]) -> tuple[tuple[str, str], ...]:
    """A category with its facet, and with each that stands at the same package of training.

    Packages of dev are left out as those of test are: what is chosen on dev is chosen on packages
    whose categories the graph has not seen together.
    """
    edges: dict[tuple[str, str], None] = {}
    for article in articles:
        categories = sorted({*article.query_categories, *article.document_categories})
        for category in categories:
            edges[category, f"facet:{category.split('::')[0]}"] = None
        if article.split == "train":
            edges.update(dict.fromkeys(itertools.combinations(categories, 2)))
    return tuple(sorted(edges))
