"""From documented objects to entities: copies merged, names taken out, queries held out."""

import dataclasses
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from docent_jax.datasets.corpus import EntityCorpus, Query
from docent_jax.datasets.docstrings import CleanDocstring, clean_docstring
from docent_jax.datasets.public_objects import PublicObject, publicity
from retrieval_jax.fingerprints import stable_hash

MIN_WORDS = 5
MIN_QUERY_WORDS = 3
MIN_SENTENCES = 5
# A sentence that more entities share (templates of distributions, of array interfaces) tells none
# of them apart.
MAX_ENTITIES_PER_SENTENCE = 50
# Share of sentences in common from which objects of one name and summary are copies.
COPY_OVERLAP = 0.5

_WORD = re.compile(r"[\"'(\[]*[^\W\d_]+(?:['-][^\W\d_]+)*[\"')\].,;:!?]*")


@dataclasses.dataclass
class _Entity:
    """An object and its copies: all their paths, the most public one first, and docstrings."""

    paths: list[str]
    docstrings: list[CleanDocstring]


def entity_corpus(objects: Iterable[PublicObject], counts: Mapping[str, int]) -> EntityCorpus:
    """Makes the corpus of documented objects, the same one for the same objects.

    An entity is an object with its copies; its document is the sentences of their docstrings, its
    query the summary line, both without the entity's own name. Dropped are sentences that are
    short, repeat a summary line of any object or the entity's own text, or are shared by many
    entities, then entities with few sentences. Queries too short to mean anything are left out;
    equal queries become one that all their entities answer.

    Args:
        objects: with their paths and docstrings.
        counts: what was seen before; the corpus's card goes on from here.

    Raises:
        InputError: fewer than two entities are left.
    """
    card = Counter(counts)
    cleaned = [(item.paths, clean_docstring(item.docstring)) for item in objects]
    for _, docstring in cleaned:
        card.update({f"dropped {kind}": n for kind, n in docstring.dropped.items()})
    summaries = {_key(docstring.summary) for _, docstring in cleaned}
    entities = {entity.paths[0]: entity for entity in _merge_copies(cleaned, card)}
    documents = {
        name: _document(entity, summaries, card) for name, entity in sorted(entities.items())
    }
    documents = _without_shared_sentences(documents, card)
    names = tuple(name for name, texts in documents.items() if len(texts) >= MIN_SENTENCES)
    card["entities dropped with few sentences"] = len(documents) - len(names)
    queries = _queries([(name, _query_text(entities[name])) for name in names], card)
    sentences = tuple(text for name in names for text in documents[name])
    card["entities"] = len(names)
    card["sentences"] = len(sentences)
    card["words"] = sum(map(_n_words, sentences))
    return EntityCorpus(
        entities=names,
        sentences=sentences,
        sentence_entities=np.repeat(
            np.arange(len(names), dtype=np.int32), [len(documents[name]) for name in names]
        ),
        queries=queries,
        aliases=tuple(tuple(sorted(set(entities[name].paths[1:]))) for name in names),
        card=dict(card),
    )


def _key(text: str) -> str:
    return " ".join(text.lower().split())


def _n_words(text: str) -> int:
    """Counts words of letters alone, so that code and formulas do not count."""
    return sum(map(bool, map(_WORD.fullmatch, text.split())))


def _name_pattern(paths: Iterable[str]) -> re.Pattern[str]:
    """Matches the last parts of paths as words, alone or at the end of any dotted name."""
    names = sorted({re.escape(path.rpartition(".")[2]) for path in paths})
    return re.compile(
        rf"(?<!\w)(?:\w+\.)*(?:{'|'.join(names)})(?!\w)(?:\(\)|\.(?=\w))?", re.IGNORECASE
    )


def _without_names(text: str, names: re.Pattern[str]) -> str:
    text, n_names = names.subn(" ", text)
    if n_names:
        text = re.sub(r"\(\s+\)", " ", text)
        text = re.sub(r"\s+(?=[.,;:!?)])", "", text)
    return " ".join(text.split()).lstrip(".,;: ")


def _merge_copies(
    objects: Iterable[tuple[tuple[str, ...], CleanDocstring]], card: Counter[str]
) -> list[_Entity]:
    """Joins objects whose texts cannot be told apart once their names are out.

    These are objects of equal text, and objects of equal name and summary that share at least
    `COPY_OVERLAP` of their sentences: numpy's functions for masked arrays, its old and new random
    generators, methods that subclasses document again. The most public path leads.
    """
    entities: list[_Entity] = []
    by_text: dict[tuple[str, ...], _Entity] = {}
    namesakes: defaultdict[tuple[str, str], list[tuple[_Entity, set[str]]]] = defaultdict(list)
    for paths, docstring in sorted(objects, key=lambda item: publicity(item[0][0])):
        names = _name_pattern(paths)
        stripped = [_without_names(text, names) for text in docstring.sentences]
        long = dict.fromkeys(_key(text) for text in stripped if _n_words(text) >= MIN_WORDS)
        if len(long) < MIN_SENTENCES:
            card["objects dropped with few sentences"] += 1
            continue
        summary = _key(_without_names(docstring.summary, names))
        namesake = paths[0].rpartition(".")[2].lower(), summary
        entity = by_text.get((summary, *long))
        if entity:
            card["copies of equal text"] += 1
        else:
            for other, sentences in namesakes[namesake]:
                shared = len(sentences & long.keys())
                if shared >= COPY_OVERLAP * len(sentences | long.keys()):
                    entity = other
                    card["copies of like text"] += 1
                    break
        if not entity:
            entity = _Entity([], [])
            entities.append(entity)
            namesakes[namesake].append((entity, set(long)))
        by_text.setdefault((summary, *long), entity)
        entity.paths.extend(paths)
        entity.docstrings.append(docstring)
    return entities


def _query_text(entity: _Entity) -> str:
    return _without_names(entity.docstrings[0].summary, _name_pattern(entity.paths))


def _document(entity: _Entity, summaries: set[str], card: Counter[str]) -> list[str]:
    """The sentences of all copies, in order."""
    names = _name_pattern(entity.paths)
    own_summaries = {_key(_without_names(d.summary, names)) for d in entity.docstrings}
    document: dict[str, str] = {}
    for sentence in itertools.chain.from_iterable(d.sentences for d in entity.docstrings):
        text = _without_names(sentence, names)
        if _n_words(text) < MIN_WORDS:
            card["sentences dropped as short"] += 1
        elif _key(sentence) in summaries or _key(text) in own_summaries:
            card["sentences dropped as summary lines"] += 1
        elif _key(text) in document:
            card["sentences dropped as repeated"] += 1
        else:
            document[_key(text)] = text
    return list(document.values())


def _without_shared_sentences(
    documents: Mapping[str, list[str]], card: Counter[str]
) -> dict[str, list[str]]:
    n_entities = Counter(_key(text) for texts in documents.values() for text in texts)
    kept = {
        name: [text for text in texts if n_entities[_key(text)] <= MAX_ENTITIES_PER_SENTENCE]
        for name, texts in documents.items()
    }
    card["sentences dropped as shared by many entities"] = sum(
        len(documents[name]) - len(texts) for name, texts in kept.items()
    )
    return kept


def _queries(
    named_texts: Sequence[tuple[str, str]], card: Counter[str]
) -> dict[str, tuple[Query, ...]]:
    """Splits queries into dev and test by the hash of the (first) entity's name."""
    answers: defaultdict[str, list[int]] = defaultdict(list)
    for entity, (_, text) in enumerate(named_texts):
        if _n_words(text) >= MIN_QUERY_WORDS:
            answers[_key(text)].append(entity)
        else:
            card["entities without a query"] += 1
    queries: dict[str, list[Query]] = {"dev": [], "test": []}
    for entity_ids in answers.values():
        name, text = named_texts[entity_ids[0]]
        split = "test" if stable_hash(name) % 2 else "dev"
        queries[split].append(Query(name, text, tuple(entity_ids)))
        card[f"{split} queries"] += 1
        card["queries with several answers"] += len(entity_ids) > 1
    return {split: tuple(split_queries) for split, split_queries in queries.items()}
