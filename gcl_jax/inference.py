"""Using a trained encoder: `load` a run folder, encode formulas, index a collection, search it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gcl_jax.config import Config
from gcl_jax.data import Formulas, forest_of
from gcl_jax.datasets.formula_files import Format
from gcl_jax.encoding import encode_tables, index_formulas, jit_encoder
from gcl_jax.formulas import parse_both
from gcl_jax.formulas.trees import Tree
from gcl_jax.graphs import Vocabulary
from gcl_jax.model import make_encoder
from gcl_jax.pretraining import PACKAGE, VOCABULARY
from gcl_jax.scoring import document_vectors, query_vectors
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.config import from_dict, lasting, to_dict
from retrieval_jax.errors import InputError, check_range
from retrieval_jax.kept import content_name
from retrieval_jax.logs import print_ranked
from retrieval_jax.params import flatten
from retrieval_jax.runs import RunFolder, open_run
from retrieval_jax.search import HeldDocuments, hold, top_k
from retrieval_jax.store import EmbeddingStore

Formula = str | tuple[Tree, Tree]
"""LaTeX or MathML, or layout tree and operator tree."""

ROWS_AT_ONCE = 4096

RESULTS = "results.json"
"""File of a run folder: what was measured, and the `slt_weight` that was chosen."""

FINGERPRINT_VERSION = 2
"""Of what a fingerprint is made; another one refuses all stores, and what was indexed with them."""


class FoundFormula(NamedTuple):
    """One line of an answer.

    Attributes:
        id: of the formula in its collection.
        formula: as it was given, if the store has it.
        score: the cosine, if `document_exponent` is 1.
    """

    id: str
    formula: str
    score: float


class FormulaSearcher:
    """A trained encoder in memory, with a store to search if one is named; made by `load`.

    Args:
        path: run folder.
        store: where `index` has put a collection.
        slt_weight: share of the layout trees in the score of a run with both layouts; None = see
            `slt_weight_of`.

    Attributes:
        config: configuration of the run.
        slt_weight: the share.
        fingerprint: tells this encoder, and the weight of its layouts, from others; stores are
            marked with it.
    """

    def __init__(
        self, path: Path | str, store: Path | str | None = None, slt_weight: float | None = None
    ) -> None:
        run, self.config = open_run(path, PACKAGE, Config)
        described: dict[str, Any] = dict(run.read_json(VOCABULARY))
        feature_dim = described.pop("feature_dim", None)
        self._vocabulary = from_dict(Vocabulary, described, str(run.path / VOCABULARY))
        if not isinstance(feature_dim, int):
            raise InputError(
                f"{run.path / VOCABULARY} has the feature_dim {feature_dim!r}", "Train again."
            )
        self._params = restore_params(run.path)
        self._encode = jit_encoder(make_encoder(self.config.model, self._vocabulary, feature_dim))
        self.slt_weight = slt_weight_of(run.path) if slt_weight is None else slt_weight
        check_range("slt_weight", self.slt_weight, at_least=0, at_most=1)
        self.store = None
        leaves = flatten(self._params)
        model, marks = lasting(self.config.model), self.config.data.end_marks
        share = self.slt_weight if self.config.model.layout == "both" else None
        words = to_dict(self._vocabulary)
        settings = json.dumps([FINGERPRINT_VERSION, model, marks, share, words], sort_keys=True)
        parts = [x for name in sorted(leaves) for x in (name, np.asarray(leaves[name]))]
        self.fingerprint = f"{PACKAGE} {content_name([settings, *parts])}"
        self._held: tuple[int, tuple[str, ...], list[dict[str, Any]], HeldDocuments] | None = None
        if store is not None:
            self.store = EmbeddingStore.open(store, self.fingerprint)

    def encode(self, formulas: Sequence[Formula]) -> np.ndarray:
        """Encodes formulas as queries.

        Args:
            formulas: LaTeX, MathML that is not Content MathML alone, or (layout tree, operator
                tree).

        Returns:
            float32 `[formulas, dim]`; of unit length if `document_exponent` is 1.

        Raises:
            InputError: none, or one that does not parse or is no such pair of trees: with its
                number and, where the parser knows it, the position in it.
        """
        return self._vectors(formulas, query_vectors)

    def encode_documents(self, formulas: Sequence[Formula]) -> np.ndarray:
        """Encodes formulas as documents: their inner product with `encode`'s is the score.

        With `document_exponent` 1 it gives what `encode` gives. Arguments and errors are the same.
        """
        return self._vectors(formulas, document_vectors)

    def encode_formulas(self, formulas: Formulas) -> dict[str, np.ndarray]:
        """Encodes parsed formulas, layout -> float32 `[formulas, dim]`, of any length."""
        config = self.config
        tables = index_formulas(formulas, self._vocabulary, config.model.layout, config.data)
        return encode_tables(self._encode, self._params, tables)

    def _vectors(self, formulas: Sequence[Formula], side_by_side: Any) -> np.ndarray:
        if isinstance(formulas, str) or not len(formulas):
            what = repr(formulas[:80]) if len(formulas) else "none"
            raise InputError(f"formulas to encode: {what}", "Give a list of one or more.")
        parsed = parse_all(formulas)
        exponent = self.config.model.document_exponent
        vectors = side_by_side(self.encode_formulas(parsed), exponent, self.slt_weight)
        broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(broken):
            raise InputError(
                f"the vector of formula {broken[0]} is not finite", "The run has diverged: train."
            )
        return vectors

    def search(self, formula: Formula, k: int = 10) -> list[FoundFormula]:
        """Finds the formulas of the store that fit best.

        Args:
            formula: the query.
            k: how many.

        Raises:
            InputError: no store, an empty one, a query that does not parse, or k below 1.
        """
        if self.store is None:
            raise InputError(
                "there is no collection to search",
                "Make one by gcl_jax.index(file, run, store) and load(run, store=store).",
            )
        query = self.encode([formula])
        if self.config.model.document_exponent == 1:
            found = self.store.search(query, k)
            ids, scores, metadata = found.ids[0], found.scores[0], found.metadata[0]
        else:
            ids, scores, metadata = self._search_by_product(query, k)
        return [
            FoundFormula(name, str(about.get("formula", "")), float(score))
            for name, score, about in zip(ids, scores, metadata, strict=True)
        ]

    def _search_by_product(
        self, query: np.ndarray, k: int
    ) -> tuple[list[str], np.ndarray, list[dict[str, Any]]]:
        """By inner product, which the store, that compares directions, does not do."""
        assert self.store is not None
        if self._held is None or self._held[0] != self.store.version:
            version = self.store.version
            stored = self.store.read()
            if not stored.ids:
                raise InputError(f"the store in {self.store.location} is empty", "Index formulas.")
            self._held = version, stored.ids, stored.metadata, hold(stored.vectors)
        _, ids, metadata, documents = self._held
        scores, rows = (np.asarray(of)[0] for of in top_k(query, documents, k))
        return [ids[row] for row in rows], scores, [metadata[row] for row in rows]


def parse_all(formulas: Iterable[Formula]) -> Formulas:
    """Parses formulas; an id is a formula's number.

    Raises:
        InputError: one that does not parse, or trees that are not (layout tree, operator tree);
            with its number.
    """
    trees = []
    for number, formula in enumerate(formulas):
        if not isinstance(formula, str):
            trees.append(_checked_pair(number, formula))
            continue
        try:
            trees.append(parse_both(formula))
        except InputError as error:
            raise InputError(
                f"formula {number}, {formula[:80]!r}: {error.problem}", error.remedy
            ) from error
    slt, opt = zip(*trees, strict=True)
    return Formulas(tuple(map(str, range(len(trees)))), forest_of(slt), forest_of(opt))


def _checked_pair(number: int, formula: Any) -> tuple[Tree, Tree]:
    trees: tuple[Any, ...] = tuple(formula) if isinstance(formula, tuple | list) else (formula,)
    found = [tree.layout if isinstance(tree, Tree) else type(tree).__name__ for tree in trees]
    if found != ["slt", "opt"]:
        raise InputError(
            f"formula {number} is ({', '.join(found[:3])})",
            "Give text, or two trees: the layout tree (slt), then the operator tree (opt).",
        )
    return trees[0], trees[1]


def slt_weight_of(path: Path) -> float:
    """The share of layout trees that was chosen for a run, in its `RESULTS`; .5 where none was.

    Args:
        path: run folder.

    Raises:
        InputError: the file is no JSON, or the share in it is no number.
    """
    if not (path / RESULTS).is_file():
        return 0.5
    chosen = RunFolder(path, PACKAGE).read_json(RESULTS).get("slt_weight", 0.5)
    if isinstance(chosen, bool) or not isinstance(chosen, int | float):
        raise InputError(
            f"{path / RESULTS} has the slt_weight {chosen!r}",
            "Train again: it is chosen at the end.",
        )
    return float(chosen)


def load(
    path: Path | str, store: Path | str | None = None, slt_weight: float | None = None
) -> FormulaSearcher:
    """Loads a run folder for use; the training data is not needed.

    Of several processes all must call it.

    Args:
        path: run folder.
        store: a collection that `index` has made with this run, to `search`.
        slt_weight: share of the layout trees in the score of a run with both layouts; None = see
            `slt_weight_of`. A store is opened with the share that it was made with.

    Raises:
        InputError: no such folder, no run of this package in it, a run without checkpoint, a share
            that is not from 0 to 1, or a store made by another encoder.
    """
    return FormulaSearcher(path, store, slt_weight)


def index(
    formulas_file: Path | str,
    run: Path | str,
    store: Path | str,
    data_dir: Path | str = "data",
    slt_weight: float | None = None,
    format: Format | None = None,  # noqa: A002
    column: str | None = None,
    id_column: str | None = None,
) -> FormulaSearcher:
    """Parses and encodes a collection, so that a store holds exactly it.

    Rows of the store that are not of this collection are deleted. A store that holds it already, by
    this encoder, is left as it is: nothing is encoded. Formulas that cannot be parsed are left out,
    and listed beside the parsed ones. Equal formulas with ids of their own are all kept. After a
    kill the same call makes the store whole.

    Args:
        formulas_file: LaTeX or MathML as TSV with a header, JSON lines, or plain lines; plain, gzip
            or xz.
        run: run folder of the encoder.
        store: folder or URL of the store, made if absent; of one collection.
        data_dir: where parsed formulas are kept.
        slt_weight: as in `load`.
        format: of the file; None = as its name tells.
        column: which column or field holds the formula; None = a usual name, such as `latex`.
        id_column: which holds the id; None = a usual name, else the line number.

    Returns:
        A searcher of the store.

    Raises:
        InputError: no such file, a name that tells no format, no such column, nothing in it that
            parses, or a store of another encoder.
    """
    from gcl_jax.datasets.builders import read_formulas, read_rows
    from gcl_jax.datasets.parsed_formulas import prepare

    searcher = load(run, slt_weight=slt_weight)
    builder = prepare(Path(formulas_file), Path(data_dir), format, column, id_column)
    collection = builder.info.full_name
    searcher.store = _store_of(searcher, store, collection)
    if searcher.store is None:
        texts = (text for _, text, _ in read_rows(builder))
        searcher.store = _fill(searcher, read_formulas(builder), texts, store)
        searcher.store.set_contents(collection)
    return searcher


def _store_of(
    searcher: FormulaSearcher, location: Path | str, collection: str
) -> EmbeddingStore | None:
    """The store, if it holds this collection and nothing else."""
    try:
        store = EmbeddingStore.open(location, searcher.fingerprint)
    except InputError:  # none there, or another encoder's, which `_fill` refuses
        return None
    return store if store.contents == collection else None


def _fill(
    searcher: FormulaSearcher, formulas: Formulas, texts: Iterator[str], location: Path | str
) -> EmbeddingStore:
    exponent = searcher.config.model.document_exponent
    store = None
    ids = distinct_ids(formulas.ids)
    for start in range(0, len(formulas), ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(formulas)))
        encoded = searcher.encode_formulas(formulas.subset(rows))
        vectors = document_vectors(encoded, exponent, searcher.slt_weight)
        if store is None:
            dim = vectors.shape[1]
            store = EmbeddingStore.create(location, dim, searcher.fingerprint, exist_ok=True)
        of_rows = [ids[row] for row in rows]
        store.add(of_rows, vectors, [{"formula": next(texts)} for _ in rows])
    assert store is not None
    store.delete(sorted(set(store.ids()).difference(ids)))
    return store


def distinct_ids(ids: Sequence[str]) -> list[str]:
    """Ids that occur again, and empty ones, get a number behind them."""
    seen: dict[str, int] = {}
    taken = set(ids)
    distinct = []
    for name in ids:
        count = seen[name] = seen.get(name, 0) + 1
        new = name if count == 1 and name else f"{name}#{count}"
        while new != name and new in taken:
            count = seen[name] = seen[name] + 1
            new = f"{name}#{count}"
        taken.add(new)
        distinct.append(new)
    return distinct


def print_answers(query: str, answers: Sequence[FoundFormula]) -> None:
    """Prints a table of found formulas."""
    rows = ((score, name, formula) for name, formula, score in answers)
    print_ranked(query, ("score", "id", "formula"), rows)
