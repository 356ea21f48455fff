"""From trees to a run folder, a store and answers."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import gcl_jax
from gcl_jax.config import PRESETS, Config, DataConfig, ModelConfig
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.embeddings import NodeEmbeddingConfig
from gcl_jax.formulas import parse_both
from gcl_jax.graphs import RESERVED, UNKNOWN_LABELS
from gcl_jax.inference import RESULTS, distinct_ids, parse_all
from gcl_jax.pretraining import (
    VOCABULARY,
    choose_formulas,
    dev_set,
    fasttext_features,
    model_vocabulary,
)
from gcl_jax.scoring import document_vectors, query_vectors, scores
from retrieval_jax.config import from_dict, to_dict
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_graphs import random_formulas

LATEX = (r"x^2+y^2=z^2", r"\frac{a}{b+c}", r"a+b", r"\sqrt{x}", "x", r"\sum_{i=1}^n i", r"e^{i\pi}")


def toy_config(**model):
    smoke = PRESETS["smoke"]
    return dataclasses.replace(
        smoke,
        data=DataConfig(min_count=1),
        model=ModelConfig(**{"hidden": 8, "dim": 64, "depth": 2, **model}),
        training=dataclasses.replace(smoke.training, batch_size=8, steps=2),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "gcl"
    formulas = parse_all(LATEX * 2 + tuple(rf"{a}+{b}" for a in "xyz" for b in "uvw"))
    run_, trained = gcl_jax.pretrain(toy_config(), formulas, path, show_progress=False)
    assert trained.step == 2
    return run_.path


@pytest.mark.parametrize("name", PRESETS)
def test_presets_come_back_from_json(name):
    config = PRESETS[name]
    assert from_dict(Config, to_dict(config)) == config


def test_what_is_trained_on_is_small_and_different():
    formulas = parse_all(LATEX * 2)
    chosen = choose_formulas(formulas, toy_config())
    assert chosen.ids == tuple(map(str, range(len(LATEX))))
    tiny = dataclasses.replace(toy_config(), data=DataConfig(max_nodes=3))
    assert choose_formulas(formulas, tiny).ids == ("4",)  # x and its end
    with pytest.raises(InputError, match="none of 14 formulas"):
        choose_formulas(formulas, dataclasses.replace(tiny, data=DataConfig(max_nodes=1)))


def test_vectors_of_a_run(run):
    searcher = gcl_jax.load(run)
    vectors = searcher.encode(list(LATEX))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    alone = searcher.encode([LATEX[1]])[0]
    np.testing.assert_allclose(alone, vectors[1], atol=1e-5)
    np.testing.assert_array_equal(searcher.encode_documents(list(LATEX)), vectors)
    assert gcl_jax.load(run).fingerprint == searcher.fingerprint
    assert gcl_jax.load(run, slt_weight=0.3).fingerprint != searcher.fingerprint


def test_the_vocabulary_is_part_of_an_encoder(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "run")
    vocabulary = json.loads((other / VOCABULARY).read_text())
    labels = vocabulary["labels"]
    labels[-2:] = reversed(labels[-2:])  # of equal size, under the same parameters
    (other / VOCABULARY).write_text(json.dumps(vocabulary))
    assert gcl_jax.load(other).fingerprint != gcl_jax.load(run).fingerprint


def test_the_chosen_share_of_layout_trees_is_used(run, tmp_path):
    path = shutil.copytree(run, tmp_path / "run")
    (path / RESULTS).write_text('{"slt_weight": 0.8}')
    file = tmp_path / "formulas.txt"
    file.write_text("\n".join(LATEX))
    indexed = gcl_jax.index(file, path, tmp_path / "store", tmp_path / "data")
    searcher = gcl_jax.load(path, tmp_path / "store")
    assert (indexed.slt_weight, searcher.slt_weight) == (0.8, 0.8)
    assert (gcl_jax.load(run).slt_weight, gcl_jax.load(path, slt_weight=0.5).slt_weight) == (
        0.5,
        0.5,
    )
    explicit = gcl_jax.load(run, tmp_path / "store", slt_weight=0.8)
    np.testing.assert_array_equal(searcher.encode(["x"]), explicit.encode(["x"]))
    with pytest.raises(InputError, match="slt_weight"):
        gcl_jax.load(run, slt_weight=1.5)
    (path / RESULTS).write_text('{"slt_weight": "much"}')
    with pytest.raises(InputError, match="has the slt_weight 'much'"):
        gcl_jax.load(path)


def test_a_run_is_not_taken_up_with_other_judgements(tmp_path):
    formulas = random_formulas(40, 3)
    pool = random_formulas(6, 1)
    queries = dataclasses.replace(pool.subset([0, 1]), ids=("q-1", "q-2"))
    qrels = {"q-1": {"f0": 4, "f1": 0, "f2": 1}, "q-2": {"f1": 0, "f2": 4}}
    judged = JudgedFormulas(pool, np.ones(6, bool), queries, qrels, {})
    config = toy_config()
    gcl_jax.pretrain(config, formulas, tmp_path / "run", judged, show_progress=False)
    others = dataclasses.replace(judged, qrels=qrels | {"q-1": {"f0": 0, "f1": 4}})
    with pytest.raises(InputError, match="data fingerprint"):
        gcl_jax.pretrain(config, formulas, tmp_path / "run", others, show_progress=False)


@pytest.mark.parametrize(
    ("formulas", "message"),
    [([], "none"), ("x", "'x'"), (["x", r"\frac{a"], "formula 1"), ([""], "formula 0")],
)
def test_what_is_no_formula_is_refused(run, formulas, message):
    with pytest.raises(InputError, match=message):
        gcl_jax.load(run).encode(formulas)


def test_trees_in_place_of_text_are_layout_tree_then_operator_tree(run):
    searcher = gcl_jax.load(run)
    slt, opt = parse_both(LATEX[0])
    np.testing.assert_array_equal(searcher.encode([(slt, opt)]), searcher.encode([LATEX[0]]))
    for wrong, found in (
        ((opt, slt), r"\(opt, slt\)"),
        ((slt, slt), r"\(slt, slt\)"),
        ((slt,), r"\(slt\)"),
        (slt, r"\(slt\)"),
        (None, r"\(NoneType\)"),
    ):
        with pytest.raises(InputError, match=rf"formula 1 is {found}\n.*layout tree \(slt\), then"):
            searcher.encode(["x", wrong])  # pyright: ignore[reportArgumentType]


def test_content_mathml_alone_is_refused_with_what_to_give(run):
    with pytest.raises(InputError, match=r"formula 0, .* no layout\n.*give both kinds") as error:
        gcl_jax.load(run).encode(["<math><apply><plus/><ci>a</ci><ci>b</ci></apply></math>"])
    assert "layout='opt'" not in str(error.value)


def test_a_collection_is_indexed_and_searched(run, tmp_path):
    file = tmp_path / "formulas.txt"
    file.write_text("\n".join([*LATEX, r"\frac{", LATEX[1]]))
    store = tmp_path / "store"
    searcher = gcl_jax.index(file, run, store, tmp_path / "data")
    assert searcher.store is not None
    assert len(searcher.store) == len(LATEX) + 1  # the duplicate is kept, what is broken is not
    found = gcl_jax.load(run, store).search(r"\frac{a}{b+c}", k=3)
    assert [row.id for row in found[:2]] == ["2", "9"]
    assert {row.formula for row in found[:2]} == {LATEX[1]}
    assert found[0].score == pytest.approx(1, abs=1e-5)
    assert found == searcher.search(r"\frac{a}{b+c}", k=3)
    with pytest.raises(InputError, match=r"was made by encoder .*, not "):
        gcl_jax.load(run, store, slt_weight=0.2)
    with pytest.raises(InputError, match="no collection"):
        gcl_jax.load(run).search("x")
    with pytest.raises(InputError, match="k is 0"):
        searcher.search("x", k=0)


@pytest.fixture
def index_lines(run, tmp_path):
    """Indexes some lines into one store."""

    def index(*lines, name="formulas.txt", **options):
        (tmp_path / name).write_text("\n".join(lines))
        return gcl_jax.index(tmp_path / name, run, tmp_path / "store", tmp_path / "data", **options)

    return index


def stored_formulas(searcher):
    ids, _, metadata = searcher.store.read()
    return dict(zip(ids, (of["formula"] for of in metadata), strict=True))


def test_a_store_holds_exactly_the_collection_that_was_indexed(index_lines):
    index_lines(*LATEX)
    shorter = index_lines(*LATEX[:2])
    assert stored_formulas(shorter) == {"1": LATEX[0], "2": LATEX[1]}
    other = index_lines("u-v", name="other.txt")
    assert stored_formulas(other) == {"1": "u-v"}
    assert [found.id for found in other.search("u-v")] == ["1"]


def test_columns_of_a_collection_can_be_named(index_lines):
    lines = ("no\tlatex\tsource", "k\tx\ty")
    options = {"format": "tsv", "column": "source", "id_column": "no"}
    assert stored_formulas(index_lines(*lines, name="f.csv", **options)) == {"k": "y"}
    with pytest.raises(InputError, match="no column z"):
        index_lines(*lines, name="f.tsv", column="z")


def test_a_store_that_holds_the_collection_is_not_filled_again(index_lines, monkeypatch):
    first = index_lines(*LATEX)
    version = first.store.version

    def never(*_):
        raise AssertionError("it was encoded before")

    with monkeypatch.context() as patch:
        patch.setattr("gcl_jax.inference._fill", never)
        again = index_lines(*LATEX)
    assert again.store.version == version
    assert again.search(LATEX[1], k=3) == first.search(LATEX[1], k=3)
    again.store.delete(["3"])  # by anyone
    assert "3" in index_lines(*LATEX).store.ids()


@pytest.mark.parametrize(
    "model",
    [
        pytest.param({"encoder": "gin"}, marks=pytest.mark.long),
        {"layout": "opt", "document_exponent": 0.6},
        pytest.param(
            {"features": "fasttext", "encoder": "gin", "layout": "slt"}, marks=pytest.mark.long
        ),
    ],
)
def test_every_setting_trains_loads_and_searches(tmp_path, model):
    embeddings = NodeEmbeddingConfig(dim=4, epochs=1, buckets=100)
    config = dataclasses.replace(toy_config(**model), embeddings=embeddings)
    gcl_jax.pretrain(config, parse_all(LATEX * 2 + ("a-b", "c")), tmp_path / "run", None, False)
    file = tmp_path / "formulas.txt"
    file.write_text("\n".join(LATEX))
    searcher = gcl_jax.index(file, tmp_path / "run", tmp_path / "store", tmp_path / "data")
    found = searcher.search(LATEX[0], k=3)
    documents = searcher.encode_documents(list(LATEX))
    expected = np.sort(searcher.encode([LATEX[0]])[0] @ documents.T)[::-1][:3]
    np.testing.assert_allclose([row.score for row in found], expected, atol=1e-5)
    itself = next((row.score for row in found if row.id == "1"), None)
    assert itself is None or itself == pytest.approx(1, abs=1e-4)


def test_fasttext_is_trained_once_for_a_run(tmp_path, monkeypatch):
    pytest.importorskip("gensim", reason="needs gensim")
    embeddings = NodeEmbeddingConfig(dim=4, epochs=1, buckets=100)
    model = {"features": "fasttext", "encoder": "gin", "layout": "slt"}
    config = dataclasses.replace(toy_config(**model), embeddings=embeddings)
    formulas = parse_all(LATEX)
    vocabulary = model_vocabulary(formulas, config)
    first = fasttext_features(formulas, vocabulary, config, tmp_path / "kept")
    assert first["slt"]["types"].shape == (len(vocabulary.types), 4)
    assert first["slt"]["labels"].shape == (vocabulary.label_ids, 4)

    def never(*_):
        raise AssertionError("it was trained before")

    monkeypatch.setattr("gcl_jax.embeddings.train_node_embeddings", never)
    again = fasttext_features(formulas, vocabulary, config, tmp_path / "kept")
    known = len(vocabulary.labels)
    for name, end in (("types", None), ("labels", known)):
        table = again["slt"][name]
        assert not table[: len(RESERVED)].any()
        assert table[len(RESERVED) : end].std() == pytest.approx(1, rel=1e-4)
    unknown = again["slt"]["labels"][known:]
    assert unknown.std() == pytest.approx(1, abs=0.05)
    assert len(np.unique(unknown, axis=0)) == UNKNOWN_LABELS
    for name, table in first["slt"].items():
        np.testing.assert_array_equal(again["slt"][name], table)


def test_judgements_of_odd_topics_choose(tmp_path):
    pool = random_formulas(6, 1)
    queries = dataclasses.replace(pool.subset([0, 1]), ids=("q-1", "q-2"))
    qrels = {"q-1": {"f0": 4, "f1": 0, "f2": 1, "f3": 0}, "q-2": {"f1": 0, "f2": 4}}
    judged = JudgedFormulas(pool, np.ones(6, bool), queries, qrels, {})
    config = toy_config()
    dev = dev_set(judged, model_vocabulary(pool, config), config)
    ideal = np.array([[4, 0, 3, 0, 0, 0], [9, 9, 0, 0, 0, 0]], np.float32)
    assert dev.measures(ideal) == {"partial": 1.0, "full": 1.0, "mean": 1.0}
    worst = -ideal
    assert dev.measures(worst)["mean"] == 0


def test_the_score_is_a_cosine_times_a_power_of_the_lengths():
    query = {"slt": np.array([[3.0, 4.0]]), "opt": np.array([[0.0, 2.0]])}
    document = {"slt": np.array([[6.0, 8.0], [0.0, 0.0]]), "opt": np.array([[2.0, 0.0], [0, 8]])}
    np.testing.assert_allclose(scores(query, document), [[0.5, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(scores(query, document, 1.0, 0.8), [[0.8, 0.2]], rtol=1e-6)
    # The length of a document against the query's, to the power .5.
    expected = [[0.5 * 2**0.5, 0.5 * 4**0.5]]
    np.testing.assert_allclose(scores(query, document, 0.5), expected, rtol=1e-6)
    same = query_vectors(query), document_vectors(query)
    np.testing.assert_array_equal(*same)
    with pytest.raises(InputError, match="slt_weight"):
        scores(query, document, 1.0, 2.0)


def test_ids_that_occur_again_get_a_number():
    assert distinct_ids(["a", "b", "a", "", "a#2", "a"]) == ["a", "b", "a#3", "#1", "a#2", "a#4"]
