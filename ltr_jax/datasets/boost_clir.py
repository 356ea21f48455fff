"""Patents (BoostCLIR; Sokolov et al., 2013): Japanese queries, English documents, IPC codes.

Of relevance 3 are patents of the query's family, of 2 and 1 those that its examiners and applicants
cite; here 3 becomes 2, and both others 1. Families share their codes, as in the paper: text and
codes of a family are not masked against each other.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ltr_jax.datasets.collection import DIFFICULTIES, Collection, Texts, Topics
from ltr_jax.datasets.draws import SPLITS, draw_irrelevant, sample
from ltr_jax.datasets.marec import ipc_edges, patent_key, read_ipc_codes
from retrieval_jax.errors import InputError
from retrieval_jax.text_files import read_lines

QUERY_LANGUAGE, DOCUMENT_LANGUAGE = "ja", "en"
ABSTRACTS = "japanese_abstracts.tsv"
MAREC = "marec"
_KINDS = ("queries", "docs", "qrels")
_RELEVANCES = {"3": 2, "2": 1, "1": 1}


@dataclasses.dataclass(frozen=True)
class PatentOptions:
    """How much of the collection to take.

    Attributes:
        training_queries: None = all 107,061.
        irrelevant: documents of each dev and test query.
        seed: of all draws.
    """

    training_queries: int | None = None
    irrelevant: int = max(DIFFICULTIES)
    seed: int = 0


def patent_files(folder: Path) -> dict[str, dict[str, Path]]:
    """Split -> kind ("queries", "docs", "qrels") -> file.

    Raises:
        InputError: a file is missing: says what to fetch and where to put it.
    """
    remedy = (
        f"Fetch BoostCLIR (https://www.cl.uni-heidelberg.de/statnlpgroup/boostclir/, "
        f"boostclir.tar.gz) and unpack it into {folder}: of train, dev and test there is a file of "
        "each of .queries, .docs and .qrels. The licence leaves the Japanese texts out: extract "
        f"them from NTCIR's PatentMT data into {ABSTRACTS}, lines of id, tab, abstract. For codes, "
        f"put MAREC's files (.xml, .xml.gz or .zip) below the folder {MAREC}."
    )
    files: dict[str, dict[str, Path]] = {}
    for split in SPLITS:
        files[split] = {}
        for kind in _KINDS:
            found = sorted(folder.rglob(f"*{split}*.{kind}")) + sorted(
                folder.rglob(f"*{split}*.{kind}.gz")
            )
            if not found:
                raise InputError(f"{folder} holds no *{split}*.{kind}.", remedy)
            files[split][kind] = found[0]
    return files


def read_boost_clir(folder: Path, options: PatentOptions | None = None) -> Collection:
    """Reads the collection, or a part of it.

    Queries without text are left out and counted, judgements of documents that are not there too.

    Args:
        folder: with the files of `patent_files`.
        options: how much.

    Raises:
        InputError: a file is missing, a line cannot be read, or no query has a text.
    """
    options = options or PatentOptions()
    files = patent_files(folder)
    counts: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for split in SPLITS:
        rows = _rows(files[split]["queries"], "id TAB text", counts)
        texts |= {fields[0]: fields[1] for fields in rows if len(fields) > 1 and fields[1].strip()}
    abstracts = folder / ABSTRACTS
    if abstracts.is_file():
        texts |= {f[0]: f[1] for f in _rows(abstracts, "id TAB text", counts) if len(f) > 1}
    documents: dict[str, str] = {}
    qrels: dict[str, dict[str, dict[str, int]]] = {}
    own: dict[str, list[str]] = {}
    for split in SPLITS:
        judged = _qrels(files[split]["qrels"], counts)
        limit = options.training_queries if split == "train" else None
        with_text = [query for query in judged if query in texts]
        counts[f"{split} queries without a text, left out"] = len(judged) - len(with_text)
        taken = sample(with_text, limit, options.seed, "query")
        found = {
            f[0]: f[1] if len(f) > 1 else ""
            for f in _rows(files[split]["docs"], "id TAB text", counts)
        }
        own[split] = sorted(found)
        documents |= found
        qrels[split] = {
            query: {d: level for d, level in judged[query].items() if d in found} for query in taken
        }
    queries = sorted({query for of_split in qrels.values() for query in of_split})
    if not queries:
        raise InputError(
            f"{folder}: no query has a text.",
            f"Put the Japanese abstracts into {ABSTRACTS}, lines of id, tab, abstract.",
        )
    ids = tuple(sorted(documents))
    keys = {patent_key(name) for name in (*queries, *ids)}
    codes = read_ipc_codes(folder / MAREC, keys, counts)
    return Collection(
        name=f"boostclir {QUERY_LANGUAGE}-{DOCUMENT_LANGUAGE}",
        queries=Texts(
            QUERY_LANGUAGE, tuple(queries), tuple(texts[q] for q in queries), _codes(queries, codes)
        ),
        documents=Texts(
            DOCUMENT_LANGUAGE, ids, tuple(documents[d] for d in ids), _codes(ids, codes)
        ),
        splits={
            split: Topics(
                tuple(qrels[split]),
                qrels[split],
                {}
                if split == "train"
                else draw_irrelevant(qrels[split], own[split], options.irrelevant, options.seed),
                options.seed,
            )
            for split in SPLITS
        },
        category_edges=ipc_edges(code for of_patent in codes.values() for code in of_patent),
        card=dict(counts),
    )


def _rows(path: Path, layout: str, counts: Counter[str]) -> Iterator[list[str]]:
    for number, line in read_lines(path, counts):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split("\t")
        if len(fields) > 2 or not fields[0].strip():
            raise InputError(
                f"{path}, line {number}: {len(fields)} fields.", f"A line must be `{layout}`."
            )
        yield fields


def _qrels(path: Path, counts: Counter[str]) -> dict[str, dict[str, int]]:
    qrels: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for number, line in read_lines(path, counts):
        if not line.strip():
            continue
        fields = line.split()
        if len(fields) != 3 or fields[2] not in _RELEVANCES:
            raise InputError(
                f"{path}, line {number}: not a judgement.",
                "A line must be `query TAB document TAB relevance`, of 1, 2 or 3.",
            )
        query, document, level = fields
        if document in qrels[query]:
            counts["judgements given twice, the higher kept"] += 1
        qrels[query][document] = max(_RELEVANCES[level], qrels[query].get(document, 0))
    return dict(qrels)


def _codes(
    names: Iterable[str], codes: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    return tuple(codes.get(patent_key(name), ()) for name in names)
