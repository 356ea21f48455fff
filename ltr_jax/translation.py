"""Queries in the documents' language, word by word or as the user translated them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from ltr_jax.datasets.collection import Collection
from ltr_jax.tokenizers import tokenize, tokenizer
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import read_lines, require_file

Dictionary = Mapping[str, Sequence[str]]
"""Word -> its translations, the best first; all in lower case."""


def read_dictionary(path: Path) -> dict[str, tuple[str, ...]]:
    """Reads a dictionary: on each line a word, a tab (or spaces) and one translation.

    Several lines of one word give several translations. MUSE's files are of this form.

    Raises:
        InputError: no such file, or a line of another form.
    """
    require_file(path, "Give a text file of lines `word TAB translation`.")
    translations: defaultdict[str, list[str]] = defaultdict(list)
    for number, line in read_lines(path, Counter()):
        fields = line.split("\t") if "\t" in line else line.split()
        fields = [field.strip().lower() for field in fields]
        if fields in ([], [""]):
            continue
        if len(fields) != 2 or not all(fields):
            raise InputError(
                f"{path}, line {number}: not a word and its translation.",
                "A line must be `word TAB translation`.",
            )
        if fields[1] not in translations[fields[0]]:
            translations[fields[0]].append(fields[1])
    return {word: tuple(of_word) for word, of_word in translations.items()}


def read_translations(path: Path, query_ids: Sequence[str]) -> dict[str, str]:
    """Reads queries that were translated elsewhere: on each line an id, a tab, the text.

    Args:
        path: the file.
        query_ids: which queries must be there; others are left out.

    Raises:
        InputError: no such file, a line of another form, a query twice or missing.
    """
    require_file(path, "Give a text file of lines `query id TAB translated text`.")
    texts: dict[str, str] = {}
    for number, line in read_lines(path, Counter()):
        if not line.strip():
            continue
        query, tab, text = line.rstrip("\r").partition("\t")
        if not tab or query in texts:
            raise InputError(
                f"{path}, line {number}: no tab, or query {query!r} for the second time.",
                "A line must be `query id TAB translated text`, one a query.",
            )
        texts[query] = text
    missing = [query for query in query_ids if query not in texts]
    if missing:
        raise InputError(
            f"{path} lacks {len(missing)} of {len(query_ids)} queries, the first {missing[0]!r}.",
            "Add their translations.",
        )
    return {query: texts[query] for query in query_ids}


def translate(text: str, language: str, dictionary: Dictionary) -> str:
    """Translates a text word by word; a word that the dictionary lacks stays as it is.

    Args:
        text: in `language`.
        language: whose tokenizer splits it.
        dictionary: to another language.

    Raises:
        InputError: no tokenizer for the language.
    """
    words = tokenizer(language)(text)
    return " ".join(" ".join(dictionary.get(word, (word,))) for word in words)


def translate_queries(
    collection: Collection, query_ids: Iterable[str], dictionary: Dictionary
) -> dict[str, str]:
    """`translate` of queries: id -> its text in the documents' language."""
    queries = collection.queries
    texts = {query: queries.texts[queries.index[query]] for query in query_ids}
    return {query: translate(text, queries.language, dictionary) for query, text in texts.items()}


def learn_dictionary(
    collection: Collection, translations: int = 2, min_count: int = 3
) -> dict[str, tuple[str, ...]]:
    """Learns a dictionary from the training queries and their documents of relevance 2.

    Such a pair says the same in two languages. A word's translations are the words of the other
    language with the largest Dice coefficient of the pairs that each occurs in.

    Args:
        collection: with tokenizers for both its languages.
        translations: of each word.
        min_count: pairs in which a word must occur, on its own side, to be translated or to
            translate.

    Raises:
        InputError: training has no document of relevance 2, or no tokenizer for a language.
    """
    pairs = collection.training_pairs
    if not len(pairs):
        raise InputError(
            f"{collection.name}: training has no document of relevance 2.",
            "Give a dictionary instead.",
        )
    sides = []
    for side, rows in zip((collection.queries, collection.documents), pairs.T, strict=True):
        lists = tokenize([side.texts[row] for row in rows], side.language)
        sides.append(_occurrences(lists, min_count))
    (source, counts), (target, target_counts) = sides
    both = sparse.csr_matrix(counts.T @ target_counts)
    source_pairs, target_pairs = (
        np.asarray(c.sum(axis=0)).ravel() for c in (counts, target_counts)
    )
    dictionary = {}
    for row, word in enumerate(source):
        columns = both.indices[both.indptr[row] : both.indptr[row + 1]]
        together = both.data[both.indptr[row] : both.indptr[row + 1]]
        dice = 2 * together / (source_pairs[row] + target_pairs[columns])
        # Equal ones in the order of the vocabulary, the same everywhere.
        best = np.lexsort((columns, -dice))[:translations]
        if len(best):
            dictionary[word] = tuple(target[column] for column in columns[best])
    return dictionary


def _occurrences(
    lists: Sequence[Sequence[str]], min_count: int
) -> tuple[list[str], sparse.csr_matrix]:
    """Words that occur in `min_count` lists, and in which lists `[lists, words]`."""
    vectorizer = CountVectorizer(analyzer=list, binary=True, dtype=np.float64)  # pyright: ignore[reportArgumentType]
    counts = sparse.csr_matrix(vectorizer.fit_transform(lists))
    kept = np.flatnonzero(np.asarray(counts.sum(axis=0)).ravel() >= min_count)
    names = vectorizer.get_feature_names_out()
    return [str(names[column]) for column in kept], sparse.csr_matrix(counts[:, kept])
