"""Whole articles of a language, on which the paper trains word vectors (section 3.1).

Collections hold sentences of articles, or their beginnings. The articles themselves are gigabytes:
they stay in a file each language, and are read from it when vectors are trained.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ltr_jax.datasets.collection import Collection
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import read_json_lines, read_lines

LANGUAGE = "{language}"
_log = logging.getLogger(__name__)


def with_corpora(collection: Collection, folder: Path, pattern: str) -> Collection:
    """A collection with the files of further texts of its two languages.

    Of a language without such a file word vectors are trained on the collection's texts alone; this
    is logged, and the card has their number.

    Args:
        collection: any.
        folder: with the files.
        pattern: of their names, such as "corpus_{language}.*"; of several the last by name counts.

    Raises:
        InputError: the pattern does not say where the language stands.
    """
    if LANGUAGE not in pattern:
        raise InputError(
            f"data.corpus is {pattern!r}", f"Write {LANGUAGE} where the name has the language."
        )
    files, card = {}, dict(collection.card)
    for language in (collection.queries.language, collection.documents.language):
        name = pattern.replace(LANGUAGE, language)
        found = sorted(folder.glob(name))
        if found:
            files[language] = found[-1]
            card[f"corpus of {language}"] = found[-1].name
            continue
        texts = len(collection.corpus(language))
        card[f"corpus of {language}"] = f"none, but the {texts} texts of the collection"
        _log.warning(
            "%s holds no %s: word2vec of %s is trained on the %d texts of the collection alone, the"
            " paper's on whole articles. Put there a text a line, or what gensim's segment_wiki"
            " makes of a dump of Wikipedia.",
            *(folder, name, language, texts),
        )
    return dataclasses.replace(collection, corpus_files=files, card=card)


def read_corpus(path: Path) -> Iterator[str]:
    """The texts of a file, one after the other.

    Args:
        path: a text a line; or, where `.json` is in the name, an article a line as gensim's
            `segment_wiki` writes them. Either may be packed by gzip or xz.

    Raises:
        InputError: a line is no such article, or too long.
    """
    if ".json" not in path.name:
        for _, line in read_lines(path, Counter()):
            if line.strip():
                yield line
        return
    for number, article in read_json_lines(path, Counter()):
        sections = article.get("section_texts")
        if not isinstance(sections, list) or not all(isinstance(of, str) for of in sections):
            raise InputError(
                f"{path}, line {number}: no article with a list of texts `section_texts`.",
                "Make it by `python -m gensim.scripts.segment_wiki -f DUMP -o FILE`.",
            )
        yield "\n".join(sections)
