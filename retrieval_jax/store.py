"""A store of embeddings: vectors, ids and metadata in a table on disk or object storage.

The table is lancedb's. A write is one commit, there in full or not at all: what `add` or `delete`
returned from survives a kill of the process, readers work beside writers, and several processes may
write. Nothing here depends on where the table lies.
"""

import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import numpy as np

from retrieval_jax.errors import InputError, check_at_least_1
from retrieval_jax.search import HeldDocuments, hold, top_k
from retrieval_jax.store_rows import check_ids, checked_vectors, to_json, to_unit

if TYPE_CHECKING:  # an optional package, slow to import, that starts threads
    import pyarrow as pa

T = TypeVar("T")
_TABLE = "embeddings"
_CONTENTS = "contents"
_ENCODER = "retrieval_jax.encoder"
# With it, two writers that insert the same new id at once do not both succeed.
_PRIMARY_KEY = {"lance-schema:unenforced-primary-key:position": "1"}
# A statement of deletion names so many ids at most.
_IDS_AT_ONCE = 10_000
_ROWS_AT_ONCE = 8_192
_COLUMNS_AT_ONCE = 32
_ATTEMPTS = 20


class StoredVectors(NamedTuple):
    """What a store holds, ordered by id.

    Attributes:
        ids: all different.
        vectors: `[n, dim]` float32, as they were added.
        metadata: a dict each.
    """

    ids: tuple[str, ...]
    vectors: np.ndarray
    metadata: list[dict[str, Any]]


class Neighbours(NamedTuple):
    """Answers to queries, best first.

    Attributes:
        ids: for each query, k ids.
        scores: for each query, their cosines, float32 `[k]`.
        metadata: for each query, their metadata.
    """

    ids: list[list[str]]
    scores: list[np.ndarray]
    metadata: list[list[dict[str, Any]]]


class _Snapshot(NamedTuple):
    """A version of the table in memory; rows are ordered by id.

    `texts` are metadata as JSON in the order of the table; `order` says where a row's is.
    """

    version: int
    ids: np.ndarray
    vectors: np.ndarray
    texts: "pa.LargeStringArray"
    order: np.ndarray

    def metadata(self, rows: np.ndarray) -> list[dict[str, Any]]:
        texts = self.texts.take(self.order[rows]).to_numpy(zero_copy_only=False)
        return [{} if text == "{}" else json.loads(text) for text in texts.tolist()]


class EmbeddingStore:
    """Vectors with ids and metadata in an embedded table; made by `create` or `open`.

    Vectors are kept as they are given, of unit length or not; `search` compares directions. One
    object belongs to one process and thread; others open the same location.

    Attributes:
        location: where the table lies.
        dim: width of the vectors.
        encoder: fingerprint of what made the vectors.
    """

    def __init__(self, location: str, connection: Any) -> None:
        self.location = location
        self._connection = connection
        self._table = connection.open_table(_TABLE)
        schema: pa.Schema = self._table.schema
        if _ENCODER.encode() not in (schema.metadata or {}):
            raise InputError(f"the table in {location} is no embedding store", "Check the path.")
        self._schema = schema
        self.dim: int = schema.field("vector").type.list_size
        self.encoder = schema.metadata[_ENCODER.encode()].decode()
        self._held: tuple[_Snapshot, HeldDocuments] | None = None

    @classmethod
    def create(
        cls,
        location: str | Path,
        dim: int,
        encoder: str,
        exist_ok: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> "EmbeddingStore":
        """Makes an empty store.

        Args:
            location: a folder, made if absent, or a URL of object storage (`s3://bucket/path`).
            dim: width of the vectors.
            encoder: a short fingerprint of what makes the vectors; kept in the store.
            exist_ok: open the store if there is one of the same dim and encoder, as it is.
            storage_options: lancedb's settings for the storage, credentials among them.

        Raises:
            InputError: there is a store, or with `exist_ok` one of another dim or encoder; or a dim
                below 1, or no encoder.
        """
        if dim < 1 or not encoder:
            raise InputError(
                f"a store of dim {dim} for the encoder {encoder!r}", "Give a dim and a fingerprint."
            )
        connection = _connect(location, storage_options)
        import pyarrow as pa

        schema = pa.schema(
            [
                pa.field("id", pa.string(), nullable=False, metadata=_PRIMARY_KEY),
                pa.field("vector", pa.list_(pa.float32(), dim), nullable=False),
                pa.field("metadata", pa.large_string(), nullable=False),
            ],
            metadata={_ENCODER: encoder},
        )
        try:
            connection.create_table(_TABLE, schema=schema)
            return cls(str(location), connection)
        except ValueError as error:
            if "already exists" not in str(error):
                raise
        if not exist_ok:
            raise InputError(f"{location} holds a store already", "Open it, or give another place.")
        store = cls.open(location, encoder, storage_options)
        if store.dim != dim:
            raise InputError(
                f"{location} holds vectors of dim {store.dim}, not {dim}",
                "Give another place, or encode with the store's encoder.",
            )
        return store

    @classmethod
    def open(
        cls,
        location: str | Path,
        encoder: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> "EmbeddingStore":
        """Opens a store to read and write.

        Args:
            location: as in `create`.
            encoder: fingerprint of the encoder that queries or new vectors come from; None takes
                any store.
            storage_options: as in `create`.

        Raises:
            InputError: no store there, or one of another encoder.
        """
        missing = InputError(f"no embedding store in {location}", "Check the path; create one.")
        if "://" not in str(location) and not Path(location).is_dir():
            raise missing
        try:
            store = cls(str(location), _connect(location, storage_options))
        except ValueError as error:
            if "not found" not in str(error):
                raise
            raise missing from error
        if encoder is not None and encoder != store.encoder:
            raise InputError(
                f"{location} was made by encoder {store.encoder!r}, not {encoder!r}",
                "Use the encoder that made it, or encode the collection again into another store.",
            )
        return store

    def __len__(self) -> int:
        """How many rows the newest version has."""
        return self._table.count_rows()

    @property
    def version(self) -> int:
        """Number of the newest version; every write makes one."""
        return self._table.version

    def add(
        self,
        ids: Sequence[str],
        vectors: np.ndarray | jax.Array,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Adds rows; those whose id is there already are replaced. All or none.

        After an error or a kill the same call can be made again. One call is one version of the
        table: thousands of rows at a time are best.

        Args:
            ids: `[n]`, different, of one character or more.
            vectors: `[n, dim]` numbers, kept as float32.
            metadata: `[n]` of what JSON can say; None = none.

        Raises:
            InputError: nothing to add, lengths that differ, another dim, a vector that is not
                finite, an id that is empty, no text or given twice, or metadata that are no JSON
                object; the row is named. Nothing is written then.
        """
        import pyarrow as pa

        vectors = checked_vectors("vectors", vectors, self.dim)
        check_ids(ids)
        texts = ["{}"] * len(ids) if metadata is None else to_json(metadata)
        if not len(ids) == len(vectors) == len(texts):
            raise InputError(
                f"{len(ids)} ids, {len(vectors)} vectors and {len(texts)} metadata",
                "Give one of each for a row.",
            )
        columns = [
            pa.array(ids, pa.string()),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), self.dim),
            pa.array(texts, pa.large_string()),
        ]
        rows = pa.table(columns, schema=self._schema)

        def merge() -> None:
            insertion = self._table.merge_insert("id").when_matched_update_all()
            insertion.when_not_matched_insert_all().execute(rows)

        _retried(merge)

    def delete(self, ids: Sequence[str]) -> int:
        """Deletes rows; unknown ids do not matter.

        Args:
            ids: of the rows. Each ten thousand are one commit.

        Returns:
            How many rows were there.

        Raises:
            InputError: an id that is empty, no text or given twice.
        """
        if not len(ids):
            return 0
        check_ids(ids)
        deleted = 0
        for start in range(0, len(ids), _IDS_AT_ONCE):
            quoted = ("'" + name.replace("'", "''") + "'" for name in ids[start:][:_IDS_AT_ONCE])
            condition = f"id IN ({', '.join(quoted)})"
            deleted += _retried(lambda where=condition: self._table.delete(where)).num_deleted_rows
        return deleted

    @property
    def contents(self) -> str | None:
        """What `set_contents` has named; None if nothing, or if anyone has written since."""
        try:
            rows = self._connection.open_table(_CONTENTS).to_arrow().to_pylist()
        except ValueError as error:
            if "not found" not in str(error):
                raise
            return None
        return rows[0]["name"] if rows[0]["version"] == self.version else None

    def set_contents(self, name: str) -> None:
        """Names what the newest version holds, in a second table, until the next write.

        Args:
            name: such as the fingerprint of a collection that is there in full.
        """
        import pyarrow as pa

        row = pa.table({"name": [name], "version": [self.version]})
        _retried(lambda: self._connection.create_table(_CONTENTS, row, mode="overwrite"))

    def ids(self) -> list[str]:
        """The ids of the newest version, in no order; reads no vectors."""
        return self._table.search().select(["id"]).limit(None).to_arrow()["id"].to_pylist()

    def read(self) -> StoredVectors:
        """Reads one version of everything, the newest; memory is that of the result."""
        snapshot = self._read()
        rows = np.arange(len(snapshot.ids))
        return StoredVectors(tuple(snapshot.ids), snapshot.vectors, snapshot.metadata(rows))

    def search(
        self, queries: np.ndarray | jax.Array, k: int = 10, exact: bool = True
    ) -> Neighbours:
        """Finds the k stored vectors of largest cosine with each query.

        Exact search holds the vectors on the device, at unit length. They are loaded at the first
        search, which needs their memory twice for a moment, and again after a write by anyone: it
        asks the table every time. Equal scores are ordered by id; a vector of zeros has cosine 0.

        Args:
            queries: `[queries, dim]` numbers of any length.
            k: how many to find; more than there are finds all.
            exact: compare with every vector; else by the table's index (see `build_index`), which
                may miss some, finds no vector of zeros, and needs little memory.

        Raises:
            InputError: an empty store, k below 1, or queries that are empty, of another dim or not
                finite.
        """
        queries = to_unit(checked_vectors("queries", queries, self.dim))
        check_at_least_1(k=k)
        if not exact:
            return self._search_index(queries, k)
        snapshot, documents = self._hold()
        scores, rows = map(np.asarray, top_k(queries, documents, k))
        metadata = snapshot.metadata(rows.reshape(-1))
        starts = range(0, rows.size, rows.shape[1])
        return Neighbours(
            snapshot.ids[rows].tolist(),
            list(scores),
            [metadata[start : start + rows.shape[1]] for start in starts],
        )

    def build_index(self) -> None:
        """Builds the index of approximate search, by inverted lists of cosine, or builds it anew.

        Rows that are added later are found without it; `compact` takes them in.

        Raises:
            InputError: an empty store.
        """
        self._check_rows(len(self))
        from lancedb.index import IvfFlat

        config = IvfFlat(distance_type="cosine")
        _retried(lambda: self._table.create_index("vector", config=config, replace=True))

    def compact(self) -> None:
        """Merges the small files of many writes, and takes new rows into the index.

        Versions older than a week are removed. Others may read and write meanwhile.
        """
        _retried(self._table.optimize)

    def _check_rows(self, count: int) -> None:
        if not count:
            raise InputError(f"the store in {self.location} is empty", "Add vectors first.")

    def _read(self) -> _Snapshot:
        """The newest version."""
        import pyarrow as pa

        table = self._connection.open_table(_TABLE)
        version = table.version
        table.checkout(version)
        count = table.count_rows()
        vectors = np.empty((count, self.dim), np.float32)
        ids: list[str] = []
        texts: list[pa.Array] = []
        for batch in table.search().limit(None).to_batches(batch_size=_ROWS_AT_ONCE):
            values = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
            vectors[len(ids) : len(ids) + len(batch)] = values.reshape(-1, self.dim)
            ids.extend(batch.column("id").to_pylist())
            texts.append(batch.column("metadata").cast(pa.large_string()))
        names = np.array(ids, object)
        order = np.argsort(names)
        # A copy in order of all columns would need the memory twice.
        for start in range(0, self.dim, _COLUMNS_AT_ONCE):
            columns = vectors[:, start : start + _COLUMNS_AT_ONCE]
            columns[:] = columns[order]
        joined = pa.concat_arrays(texts) if texts else pa.array([], pa.large_string())
        return _Snapshot(version, names[order], vectors, joined, order)

    def _hold(self) -> tuple[_Snapshot, HeldDocuments]:
        if self._held is None or self._held[0].version != self.version:
            self._held = None  # the old ones need not lie beside the new ones
            snapshot = self._read()
            self._check_rows(len(snapshot.ids))
            documents = hold(to_unit(snapshot.vectors))
            empty = np.empty((0, self.dim), np.float32)
            self._held = snapshot._replace(vectors=empty), documents
        return self._held

    def _search_index(self, queries: np.ndarray, k: int) -> Neighbours:
        self._check_rows(len(self))
        found = Neighbours([], [], [])
        for query in queries:
            search = self._table.search(query, vector_column_name="vector")
            search = search.select(["id", "metadata", "_distance"]).distance_type("cosine")
            rows = search.limit(k).to_arrow()
            found.ids.append(rows["id"].to_pylist())
            found.scores.append(1 - rows["_distance"].to_numpy())
            found.metadata.append([json.loads(text) for text in rows["metadata"].to_pylist()])
        return found


def _connect(location: str | Path, storage_options: Mapping[str, str] | None) -> Any:
    # Read at import; it warns on standard error of every new table and repeated compaction.
    os.environ.setdefault("LANCEDB_LOG", "error")
    try:
        import lancedb
    except ImportError as error:
        raise InputError(
            "the embedding store needs lancedb, which is not installed",
            "pip install 'retrieval-jax[store]'",
        ) from error
    options = None if storage_options is None else dict(storage_options)
    # Readers look for a newer version every time.
    return lancedb.connect(
        str(location), read_consistency_interval=timedelta(0), storage_options=options
    )


def _retried(write: Callable[[], T]) -> T:
    """Writes again while others commit in between; lance itself has tried several times before."""
    for attempt in range(_ATTEMPTS):
        try:
            return write()
        except (OSError, RuntimeError, ValueError) as error:
            if "conflict" not in str(error).lower() or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(random.uniform(0, 0.02 * 2 ** min(attempt, 7)))
    raise AssertionError
