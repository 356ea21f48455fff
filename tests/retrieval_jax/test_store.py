"""The embedding store against dicts and sorts; kills, several writers, readers beside them."""

import os
import random
import subprocess
import sys
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval_jax import store as store_module
from retrieval_jax import store_rows
from retrieval_jax.errors import InputError
from retrieval_jax.store import EmbeddingStore

pytest.importorskip("lancedb", reason="lancedb is not installed")

ODD_NAMES = ["b'c", 'd"e', "f\\g", "n\0x", "é\n", "数式 x", " ", "𓀀", "id IN ('a')", "%_", "''"]


@pytest.fixture
def store(tmp_path):
    return EmbeddingStore.create(tmp_path / "store", 4, "encoder-1")


def vectors_of(*rows):
    return np.array(rows, np.float32)


def test_rows_come_back_in_order_of_ids_as_they_were_added(store):
    vectors = np.random.default_rng(0).normal(size=(len(ODD_NAMES), 4)).astype(np.float32)
    metadata = [{"formula": name, "n": [i, None, {"x": 1.5}]} for i, name in enumerate(ODD_NAMES)]
    store.add(ODD_NAMES, vectors, metadata)
    ids, read, of = store.read()
    order = sorted(range(len(ODD_NAMES)), key=ODD_NAMES.__getitem__)
    assert ids == tuple(ODD_NAMES[i] for i in order)
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, vectors[order])
    assert of == [metadata[i] for i in order]
    assert len(store) == len(ODD_NAMES)


def test_odd_names_are_deleted_one_by_one_and_only_they(store):
    store.add(["a", *ODD_NAMES], np.eye(12, 4))
    for left, name in enumerate(ODD_NAMES):
        assert store.delete([name, "unknown"]) == 1
        assert len(store) == len(ODD_NAMES) - left
    assert store.read().ids == ("a",)
    assert store.delete([]) == 0


def test_deletion_in_several_statements(store, monkeypatch):
    monkeypatch.setattr(store_module, "_IDS_AT_ONCE", 2)
    store.add(list("abcdef"), np.ones((6, 4)))
    assert store.delete(list("fbxcd")) == 4
    assert store.read().ids == ("a", "e")


def test_adding_again_replaces(store):
    store.add(["a", "b"], np.ones((2, 4)), [{"n": 1}, {"n": 2}])
    store.add(["c", "b"], np.zeros((2, 4)))
    store.add(["c", "b"], np.zeros((2, 4)))
    ids, vectors, metadata = store.read()
    assert ids == ("a", "b", "c")
    np.testing.assert_array_equal(vectors, [[1] * 4, [0] * 4, [0] * 4])
    assert metadata == [{"n": 1}, {}, {}]


NAMES = st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(operations=st.lists(st.tuples(st.booleans(), NAMES), max_size=6))
def test_a_store_is_a_dict_on_disk(operations, tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    store, expected = EmbeddingStore.create(place, 1, "e"), {}
    for number, (is_addition, names) in enumerate(operations):
        if is_addition:
            store.add(names, np.full((len(names), 1), number))
            expected |= dict.fromkeys(names, number)
        else:
            assert store.delete(names) == len(expected.keys() & set(names))
            expected = {name: n for name, n in expected.items() if name not in names}
    ids, vectors, _ = EmbeddingStore.open(place).read()
    assert dict(zip(ids, vectors[:, 0].tolist(), strict=True)) == expected


def test_contents_are_named_until_the_next_write(store):
    assert store.contents is None
    store.add(["a", "b"], np.ones((2, 4)))
    assert sorted(store.ids()) == ["a", "b"]
    for name in ("letters", "others"):
        store.set_contents(name)
        assert store.contents == name
    other = EmbeddingStore.open(store.location)
    assert other.contents == "others"
    other.delete(["b"])
    assert store.contents is None
    assert store.ids() == ["a"]


def test_reading_many_rows_in_pieces(store, monkeypatch):
    monkeypatch.setattr(store_module, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(store_module, "_COLUMNS_AT_ONCE", 3)
    rng = np.random.default_rng(0)
    names, vectors = [str(i) for i in range(100)], rng.normal(size=(100, 4)).astype(np.float32)
    for start in range(0, 100, 25):
        store.add(names[start : start + 25], vectors[start : start + 25])
    ids, read, _ = store.read()
    np.testing.assert_array_equal(read, vectors[[int(name) for name in ids]])


def test_integers_and_bfloat16_are_numbers_too(store):
    store.add(["a"], np.array([[1, 2, 3, 4]]))
    store.add(["b"], jnp.array([[1, 2, 3, 0.5]], jnp.bfloat16))
    np.testing.assert_array_equal(store.read().vectors, [[1, 2, 3, 4], [1, 2, 3, 0.5]])


def test_search_is_by_cosine_and_ties_are_in_order_of_ids(store):
    store.add(["z", "b"], vectors_of([3, 0, 0, 0], [0, 0, 0, 0]), [{"n": "z"}, {"n": "b"}])
    store.add(["y", "c", "a"], vectors_of([1, 0, 0, 0], [1, 1, 0, 0], [-9, 0, 0, 0]))
    found = store.search(vectors_of([1e30, 0, 0, 0], [0, 1e-30, 0, 0]), k=9)
    assert found.ids == [["y", "z", "c", "b", "a"], ["c", "a", "b", "y", "z"]]
    root = 0.5**0.5
    np.testing.assert_allclose(found.scores, [[1, 1, root, 0, -1], [root, 0, 0, 0, 0]], atol=1e-7)
    assert found.metadata[0] == [{}, {"n": "z"}, {}, {"n": "b"}, {}]


def test_search_sees_what_others_have_written(store):
    other = EmbeddingStore.open(store.location)
    store.add(["a"], np.eye(1, 4))
    assert other.search(np.eye(1, 4)).ids == [["a"]]
    store.add(["A"], np.eye(1, 4))
    assert other.search(np.eye(1, 4)).ids == [["A", "a"]]
    store.delete(["a"])
    assert other.search(np.eye(1, 4)).ids == [["A"]]


def test_vectors_are_loaded_once_for_a_version(store, monkeypatch):
    loads = []
    read = EmbeddingStore._read
    monkeypatch.setattr(EmbeddingStore, "_read", lambda self: loads.append(1) or read(self))
    store.add(["a"], np.eye(1, 4))
    for _ in range(3):
        store.search(np.eye(1, 4))
    assert len(loads) == 1
    store.add(["b"], np.eye(1, 4))
    store.search(np.eye(1, 4))
    assert len(loads) == 2


def test_the_index_finds_nearly_the_same(store):
    rng = np.random.default_rng(0)
    names = [str(i) for i in range(1000)]
    store.add(names, rng.normal(size=(1000, 4)), [{"n": name} for name in names])
    queries = rng.normal(size=(10, 4))
    exact = store.search(queries, 10)
    for build in (lambda: None, store.build_index, store.build_index):
        build()
        found = store.search(queries, 10, exact=False)
        shared = [len(set(a) & set(b)) for a, b in zip(found.ids, exact.ids, strict=True)]
        assert sum(shared) >= 90
        np.testing.assert_allclose([of[0] for of in found.scores], 1, atol=0.1)
        assert found.metadata == [[{"n": name} for name in ids] for ids in found.ids]
    store.add(["new"], queries[:1])
    for take_in in (lambda: None, store.compact):
        take_in()
        assert store.search(queries[:1], 1, exact=False).ids == [["new"]]
        assert store.search(queries[:1], 1).ids == [["new"]]
    assert len(store) == 1001


def test_encoder_and_dim_are_kept_and_others_refused(store):
    store.add(["a"], np.ones((1, 4)))
    place = store.location
    store.delete(["a"])
    store.compact()
    opened = EmbeddingStore.open(place, "encoder-1")
    assert (opened.dim, opened.encoder) == (4, "encoder-1")
    with pytest.raises(InputError, match="by encoder 'encoder-1', not 'encoder-2'"):
        EmbeddingStore.open(place, "encoder-2")
    with pytest.raises(InputError, match="holds a store already"):
        EmbeddingStore.create(place, 4, "encoder-1")
    with pytest.raises(InputError, match="by encoder 'encoder-1', not 'encoder-2'"):
        EmbeddingStore.create(place, 4, "encoder-2", exist_ok=True)
    with pytest.raises(InputError, match="dim 4, not 5"):
        EmbeddingStore.create(place, 5, "encoder-1", exist_ok=True)
    assert EmbeddingStore.create(place, 4, "encoder-1", exist_ok=True).version == opened.version


def test_places_without_a_store(tmp_path):
    with pytest.raises(InputError, match=r"no embedding store in .*none"):
        EmbeddingStore.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    for place in (tmp_path, "memory://bucket"):
        with pytest.raises(InputError, match="no embedding store"):
            EmbeddingStore.open(place)
    import lancedb

    lancedb.connect(str(tmp_path)).create_table("embeddings", [{"id": "a"}])
    with pytest.raises(InputError, match="is no embedding store"):
        EmbeddingStore.open(tmp_path)
    for dim, encoder in ((0, "e"), (3, "")):
        with pytest.raises(InputError, match=f"dim {dim} for the encoder '{encoder}'"):
            EmbeddingStore.create(tmp_path, dim, encoder)


def test_a_creation_that_was_cut_off_is_no_store_and_can_be_made_again(tmp_path):
    (tmp_path / "embeddings.lance" / "data").mkdir(parents=True)
    (tmp_path / "embeddings.lance" / "_transactions").mkdir()
    with pytest.raises(InputError, match="no embedding store"):
        EmbeddingStore.open(tmp_path)
    assert len(EmbeddingStore.create(tmp_path, 2, "e")) == 0


def test_without_lancedb_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(InputError, match=r"retrieval-jax\[store\]"):
        EmbeddingStore.create(tmp_path, 2, "e")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ids": ["a", "b", "a"]}, "rows 0 and 2 are both 'a'"),
        ({"ids": ["a", "", "c"]}, "ids, row 1: ''"),
        ({"ids": ["a", "b", 3]}, "ids, row 2: '3'"),
        ({"ids": ["a", "b", "\ud800"]}, "ids, row 2"),
        ({"ids": "abc"}, "ids are one text: 'abc'"),
        ({"ids": ["a", "b"]}, "2 ids, 3 vectors and 3 metadata"),
        ({"metadata": [{}]}, "3 ids, 3 vectors and 1 metadata"),
        ({"metadata": [{}, {"x": float("nan")}, {}]}, "metadata, row 1"),
        ({"metadata": [{}, {}, {"x": np.float32(1)}]}, "metadata, row 2: .*float32"),
        ({"metadata": [[], {}, {}]}, "metadata, row 0: list is no mapping"),
        ({"vectors": np.diag([1, np.nan, 1, 1])[:3]}, "vectors, row 1 is not finite"),
        ({"vectors": np.diag([1, 1, 1e300, 1])[:3]}, "vectors, row 2 is not finite in float32"),
        ({"vectors": np.ones((3, 5))}, r"shape \(3, 5\); the store's have dim 4"),
        ({"vectors": np.ones(4)}, r"shape \(4,\)"),
        ({"vectors": np.empty((0, 4)), "ids": [], "metadata": []}, r"shape \(0, 4\)"),
        ({"vectors": [["a"] * 4] * 3}, "vectors are no numbers"),
        ({"vectors": [[1.0], [1.0, 2.0]]}, "vectors are no numbers"),
        ({"vectors": np.ones((3, 4), complex)}, "vectors are no numbers"),
    ],
)
def test_bad_rows_are_named_and_nothing_is_written(store, change, problem):
    rows = {"ids": ["a", "b", "c"], "vectors": np.ones((3, 4)), "metadata": [{}] * 3}
    with pytest.raises(InputError, match=problem):
        store.add(**(rows | change))
    assert len(store) == 0


def test_metadata_nested_too_deep_are_refused(store):
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(InputError, match="metadata, row 0"):
        store.add(["a"], np.ones((1, 4)), [{"x": nested}])


def test_bad_queries_and_empty_stores_are_refused(store):
    for exact in (True, False):
        with pytest.raises(InputError, match="is empty"):
            store.search(np.ones((1, 4)), exact=exact)
    with pytest.raises(InputError, match="is empty"):
        store.build_index()
    assert store.read().ids == ()
    store.add(["a"], np.ones((1, 4)))
    for queries, k, problem in (
        (np.ones((1, 3)), 1, r"queries have shape \(1, 3\)"),
        (np.full((1, 4), np.inf), 1, "queries, row 0 is not finite"),
        (np.ones((1, 4)), 0, "k is 0"),
    ):
        with pytest.raises(InputError, match=problem):
            store.search(queries, k)
    with pytest.raises(InputError, match="ids, row 0"):
        store.delete([""])


def test_unit_length_of_tiny_huge_and_no_vectors(monkeypatch):
    monkeypatch.setattr(store_rows, "_ROWS_AT_ONCE", 2)
    vectors = vectors_of([3e38, 3e38], [3e-40, -4e-40], [0, 0], [3, 4])
    unit = store_rows.to_unit(vectors)
    root = 0.5**0.5
    np.testing.assert_allclose(unit, [[root, root], [0.6, -0.8], [0, 0], [0.6, 0.8]], rtol=1e-3)


def test_a_conflict_is_tried_again_and_another_error_is_not(monkeypatch):
    monkeypatch.setattr(store_module.time, "sleep", lambda seconds: None)
    for message, tries in (("Retryable commit conflict for version 3", 4), ("disk full", 1)):
        calls = []

        def write(message=message, calls=calls):
            calls.append(1)
            if len(calls) < 4:
                raise RuntimeError(message)
            return "done"

        if tries == 4:
            assert store_module._retried(write) == "done"
        else:
            with pytest.raises(RuntimeError, match=message):
                store_module._retried(write)
        assert len(calls) == tries


def test_two_writers_of_the_same_ids_and_a_reader_beside_them(tmp_path):
    EmbeddingStore.create(tmp_path, 3, "e")
    errors, done = [], threading.Event()
    start = threading.Barrier(3)

    def write(name):
        try:
            store = EmbeddingStore.open(tmp_path)
            start.wait()
            for batch in range(25):
                names = [f"shared {batch} {i}" for i in range(5)] + [f"{name} {batch}"]
                store.add(names, np.full((6, 3), batch + 1))
                if batch % 5 == 4:
                    assert store.delete([f"{name} {batch}"]) == 1
                    store.compact()
        except BaseException as error:
            errors.append(error)

    def read():
        try:
            store = EmbeddingStore.open(tmp_path)
            start.wait()
            while not done.is_set():
                ids, vectors, _ = store.read()
                assert len(set(ids)) == len(ids)
                batches = [int(name.split()[1]) for name in ids]
                np.testing.assert_array_equal(vectors, [[n + 1] * 3 for n in batches] or vectors)
                shared = [n for n, name in zip(batches, ids, strict=True) if "shared" in name]
                assert all(shared.count(n) == 5 for n in shared)
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert errors == []
    assert len(EmbeddingStore.open(tmp_path)) == 25 * 5 + 2 * 20


WRITER = """
import sys
import numpy as np
from retrieval_jax.store import EmbeddingStore

store = EmbeddingStore.open(sys.argv[1])
writer = sys.argv[2]
if not sys.stdin.readline():
    sys.exit("the test has ended")
for batch in range(10_000):
    store.add([f"{writer} {batch} {i}" for i in range(200)], np.full((200, 64), batch))
    print("added", batch, flush=True)
    if batch % 3 == 2:
        store.delete([f"{writer} {batch - 2} {i}" for i in range(200)])
        print("deleted", batch - 2, flush=True)
    if batch % 7 == 6:
        store.compact()
"""


@pytest.mark.slow
def test_kills_in_the_middle_of_writing_lose_nothing_that_was_confirmed(tmp_path):
    EmbeddingStore.create(tmp_path, 64, "e")
    rng = random.Random(0)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(writer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
        )
        for writer in range(4)
    ]
    confirmed: dict[tuple[str, str], str] = {}
    for number, writer in enumerate(writers):
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
        lines = [writer.stdout.readline() for _ in range(rng.randint(1, 12))]
        time.sleep(rng.uniform(0, 0.05))
        writer.kill()
        lines += writer.stdout.readlines()
        writer.stdin.close()
        writer.stdout.close()
        writer.wait()
        # The last line may be cut off; a batch that was not confirmed may be there or not.
        for what, batch in (line.split() for line in lines if line.endswith("\n")):
            confirmed[str(number), batch] = what
        rows: dict[tuple[str, str], list[float]] = {}
        ids, vectors, _ = EmbeddingStore.open(tmp_path).read()
        for name, vector in zip(ids, vectors, strict=True):
            name_of_writer, batch, _ = name.split()
            assert (vector == int(batch)).all()
            rows.setdefault((name_of_writer, batch), []).append(1)
        assert all(len(of) == 200 for of in rows.values())
        # An unconfirmed deletion of each writer may have been made.
        for key, what in confirmed.items():
            if what == "deleted":
                assert key not in rows
        added = {key for key, what in confirmed.items() if what == "added"}
        lost = added - set(rows)
        assert all((writer, str(int(batch) + 2)) in added for writer, batch in lost)
        assert len(lost) <= number + 1
    assert len(confirmed) >= len(writers)
