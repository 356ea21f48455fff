"""DocEnt-Full and DocEnt-Hybrid from documents to a run folder and back; new entities; export."""

import dataclasses
import sys

import numpy as np
import pytest

import docent_jax
from docent_jax.__main__ import main
from docent_jax.config import DataConfig, ModelConfig
from docent_jax.data import tokenize_after_entities, tokenize_corpus
from docent_jax.evaluation import zero_shot_measures
from docent_jax.inference import RankedEntity, print_answers
from docent_jax.pretraining import encode_frozen, load_encoder, pretrain, start_params
from docent_jax.word_vectors import write_word2vec
from retrieval_jax.errors import InputError
from retrieval_jax.huggingface import load_bert
from retrieval_jax.logs import read_metrics
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.pipeline import tokenize
from retrieval_jax.store import EmbeddingStore
from tests.bert_folders import write_tiny_bert
from tests.docent_jax.toy_documents import FILLERS, TOPICS, toy_config, toy_corpus

CORPUS = toy_corpus()
KINDS = ("dual", "full", "hybrid")
# A random encoder must learn to attend before the place of the entity knows anything of the text.
LONGER = {
    "steps": 450,
    "mlm_weight": 0.3,
    "entity_mask_rate": 0.7,
    "optimizer": OptimizerConfig(learning_rate=1e-2),
}


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    write_tiny_bert(folder, words=(*TOPICS, *FILLERS))
    return str(folder)


@pytest.fixture(scope="module")
def runs(encoder_folder, tmp_path_factory):
    """Kind -> run folder and result, each trained when it is first asked for."""
    made = {}

    def get(kind):
        if kind not in made:
            path = tmp_path_factory.mktemp("runs") / kind
            made[kind] = pretrain(toy_config(encoder_folder, kind=kind), CORPUS, path)
        return made[kind]

    return get


@pytest.mark.parametrize("kind", [pytest.param("full", marks=pytest.mark.long), "hybrid"])
def test_training_ranks_the_right_entity_first(runs, kind, encoder_folder, tmp_path):
    if kind == "full":
        config = toy_config(encoder_folder, kind=kind, **LONGER)
        run, result = pretrain(config, CORPUS, tmp_path / "run")
    else:
        run, result = runs(kind)
    # By chance .34 of 8 entities. Full, slower to learn, is stopped half-way.
    assert result.best["RR"] > {"full": 0.6, "hybrid": 0.9}[kind]
    ranker = docent_jax.load(run.path)
    answers = ranker.rank(["the fourier of a value", "random array"], k=3)
    for row, name in zip(answers, ["lib.fourier", "lib.random"], strict=True):
        assert name in [answer.entity for answer in row[: {"full": 3, "hybrid": 1}[kind]]]
    queries = [query.text for query in CORPUS.queries["dev"]]
    measures = zero_shot_measures(ranker.score(queries), CORPUS, "dev")
    assert measures == pytest.approx(result.best, abs=1e-6)
    losses = [e for e in read_metrics(run.path) if e["kind"] == "train"]
    assert losses[-1]["mlm_loss"] < losses[0]["mlm_loss"]
    assert losses[-1]["entity_loss"] < losses[0]["entity_loss"]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_ranking(runs, kind):
    ranker = docent_jax.load(runs(kind)[0].path)
    queries = ["a graph", "of the sparse matrix"]
    for row, answers in zip(ranker.score(queries), ranker.rank(queries, k=8), strict=True):
        by_name = dict(zip(ranker.entities, row, strict=True))
        for entity, score in answers:
            np.testing.assert_allclose(score, by_name[entity], atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_ranked_for_an_entity_by_scores_on_one_scale(runs, kind):
    ranker = docent_jax.load(runs(kind)[0].path)
    tags = ["graph", "of the sparse matrix", "random"]
    scores, of_tags = ranker.score(tags).astype(np.float64), ranker.tag_scores(tags)
    assert of_tags.dtype == np.float32
    if kind != "full":
        np.testing.assert_allclose(of_tags, scores.T, atol=1e-6)
        return
    expected = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(of_tags, expected.T, atol=1e-5)
    # What a tag adds to the logits of all entities alike says nothing of any entity.
    shifted = (scores + np.array([[50.0], [0.0], [-50.0]])).astype(np.float32)
    ranker.score = lambda tags: shifted
    np.testing.assert_allclose(ranker.tag_scores(tags), of_tags, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("full", {"entity_init": "random", "dropout": 0.1}),
        pytest.param(
            *("hybrid", {"entity_init": "mean", "scan_layers": True, "remat": "dots"}),
            marks=pytest.mark.long,
        ),
        pytest.param("full", {"dtype": "bfloat16", "layers": 1}, marks=pytest.mark.long),
    ],
)
def test_every_setting_trains_and_loads(tmp_path, encoder_folder, kind, changes):
    steps = {"steps": 4, "evaluate_every": 2, "checkpoint_every": 2}
    config = toy_config(encoder_folder, kind=kind, **steps, **changes)
    run, result = pretrain(config, CORPUS, tmp_path / "run")
    assert result.step == 4
    assert all(np.isfinite(e["loss"]) for e in read_metrics(run.path) if e["kind"] == "train")
    assert len(docent_jax.load(run.path).rank(["graph"])[0]) == 8


def test_texts_stand_after_the_place_of_their_entity(encoder_folder):
    tokenizer = load_encoder(ModelConfig(encoder=encoder_folder)).tokenizer
    texts = ["compute the fourier", "graph"]
    plain, placed = tokenize(texts, tokenizer, 4), tokenize_after_entities(texts, tokenizer, 4)
    np.testing.assert_array_equal(placed.lengths, plain.lengths + 2)
    for before, after in zip(plain.input_ids, placed.input_ids, strict=True):
        np.testing.assert_array_equal(after[:3], [2, 4, 3])
        np.testing.assert_array_equal(after[3:], before[1:])


@pytest.mark.parametrize("kind", ["full", "hybrid"])
@pytest.mark.parametrize("with_head", [True, False])
def test_the_word_head_starts_from_the_folder_or_from_the_word_vectors(tmp_path, kind, with_head):
    write_tiny_bert(tmp_path, words=(*TOPICS, *FILLERS), mlm_head=with_head)
    config = toy_config(str(tmp_path), kind=kind, entity_init="random")
    encoder = load_encoder(config.model)
    data = tokenize_corpus(CORPUS, encoder.tokenizer, DataConfig(max_length=16))
    start = start_params(encoder, data, config, lambda: np.zeros((64, 16)))
    assert set(start["encoder"]) == {"embeddings", "encoder"}
    head = start["word_head"]
    if with_head:
        expected = load_bert(tmp_path)[1]["mlm_head"]
        np.testing.assert_array_equal(head["bias"], expected["bias"])
        part = expected["transform"]["kernel"]
    else:
        part = np.eye(16)
    kernel = part if kind == "full" else np.concatenate([part, part])
    np.testing.assert_array_equal(head["transform"]["kernel"], kernel)


def test_the_table_of_full_starts_as_long_as_word_vectors(encoder_folder):
    config = toy_config(encoder_folder, kind="full", entity_init="mean")
    encoder = load_encoder(config.model)
    data = tokenize_corpus(CORPUS, encoder.tokenizer, DataConfig(max_length=16))
    vectors, _ = encode_frozen(encoder, data, config.model)
    table = start_params(encoder, data, config, lambda: vectors)["entities"]["embedding"]
    words = encoder.params["embeddings"]["word"]["embedding"]
    means = (
        (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).reshape(8, 8, -1).mean(axis=1)
    )
    lengths = [np.linalg.norm(rows, axis=1).mean() for rows in (table[:8], words)]
    np.testing.assert_allclose(lengths[0], lengths[1], rtol=1e-5)
    ratio = table[:8] / means
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_exported_encoder_is_a_bert_folder(runs, tmp_path, kind):
    docent_jax.load(runs(kind)[0].path).export_encoder(tmp_path)
    assert ("mlm_head" in load_bert(tmp_path)[1]) == (kind == "full")


@pytest.mark.parametrize("kind", KINDS)
def test_new_entities_are_ranked_by_their_texts_alone(runs, kind):
    ranker = docent_jax.load(runs(kind)[0].path)
    # The new ones have the texts of known ones, entity by entity eight sentences each.
    texts = CORPUS.sentences[:8]
    extended = ranker.add_entities({"new.fourier": texts, "new.graph": CORPUS.sentences[-8:]})
    assert extended.entities == (*ranker.entities, "new.fourier", "new.graph")
    assert len(ranker.entities) == len(ranker.entity_vectors) == 8
    np.testing.assert_allclose(extended.entity_vectors[:8], ranker.entity_vectors, atol=1e-6)
    vectors = ranker.encode(texts)
    mean = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)
    new = extended.entity_vectors[8]
    np.testing.assert_allclose(new @ mean, np.linalg.norm(new) * np.linalg.norm(mean), rtol=1e-5)
    known_lengths = np.linalg.norm(ranker.entity_vectors, axis=1)
    np.testing.assert_allclose(np.linalg.norm(new), known_lengths.mean(), rtol=1e-5)

    queries = ["the fourier of a value", "a graph", "random array"]
    np.testing.assert_allclose(extended.score(queries)[:, :8], ranker.score(queries), atol=1e-4)
    for entity, sentences in ((8, range(8)), (9, range(56, 64))):
        own = extended.score([CORPUS.sentences[i] for i in sentences])
        np.testing.assert_allclose(own[:, entity].mean(), own[:, :8].max(axis=1).mean(), atol=1e-3)
        others = extended.score([s for i, s in enumerate(CORPUS.sentences) if i not in sentences])
        assert own[:, entity].mean() > others[:, entity].mean()
    names = [answer.entity for answer in extended.rank(queries[:1], k=3)[0]]
    assert "new.fourier" in names


@pytest.mark.parametrize(
    "texts", [{}, {"lib.graph": ["a graph"]}, {"new": []}, {"new": "no list"}, {"new": [3]}]
)
def test_entities_that_cannot_be_added_are_refused(runs, texts):
    with pytest.raises(InputError, match=r"entities to add|texts to encode"):
        docent_jax.load(runs("dual")[0].path).add_entities(texts)


def test_printed_answers_take_no_name_for_markup(capsys):
    print_answers(["[a] film"], [[RankedEntity("The Matrix (1999) [tt0133093] [/b]", 0.5)]])
    title, *_, row, _ = capsys.readouterr().out.splitlines()
    assert title.strip() == "[a] film"
    assert row == "│    1 │ The Matrix (1999) [tt0133093] [/b] │ 0.5000 │"


def test_vectors_in_word2vec_format(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    path = tmp_path / "vectors.txt"
    write_word2vec(path, ["plain", "two  words", "naïve"], vectors)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "3 5"
    fields = [line.split(" ") for line in lines[1:]]
    assert [row[0] for row in fields] == ["plain", "two_words", "naïve"]
    np.testing.assert_array_equal(np.array([row[1:] for row in fields], np.float32), vectors)


def test_the_command_line_writes_both_formats(runs, tmp_path, monkeypatch):
    run = runs("dual")[0].path
    vectors = docent_jax.load(run).entity_vectors
    for name in ("npy", "word2vec"):
        output = tmp_path / f"vectors.{name}"
        words = ["entities", "--run", str(run), "--output", str(output), "--format", name]
        monkeypatch.setattr(sys, "argv", ["docent_jax", *words])
        main()
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), vectors)
    lines = (tmp_path / "vectors.word2vec").read_text().splitlines()
    assert lines[0] == "8 16"
    np.testing.assert_array_equal(np.array(lines[1].split(" ")[1:], np.float32), vectors[0])


def test_names_stand_beside_the_vectors_of_the_same_name(runs, tmp_path, monkeypatch):
    for name, kind in {"v1.5": "dual", "v1.6": "hybrid"}.items():
        words = ["entities", "--run", str(runs(kind)[0].path), "--output", str(tmp_path / name)]
        monkeypatch.setattr(sys, "argv", ["docent_jax", *words])
        main()
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == ["v1.5.npy", "v1.5.txt", "v1.6.npy", "v1.6.txt"]
    for name, kind in {"v1.5": "dual", "v1.6": "hybrid"}.items():
        ranker = docent_jax.load(runs(kind)[0].path)
        assert (tmp_path / f"{name}.txt").read_text().splitlines() == list(ranker.entities)
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), ranker.entity_vectors)


def test_the_command_line_writes_entities_to_a_store(runs, tmp_path, monkeypatch, capsys):
    pytest.importorskip("lancedb")
    first, second = (docent_jax.load(runs(kind)[0].path) for kind in ("dual", "hybrid"))

    def write(kind):
        words = ["entities", "--run", str(runs(kind)[0].path), "--output", str(tmp_path / "store")]
        monkeypatch.setattr(sys, "argv", ["docent_jax", *words, "--format", "store"])
        main()

    write("dual")
    write("dual")  # again: nothing twice
    store = EmbeddingStore.open(tmp_path / "store", first.fingerprint)
    ids, vectors, _ = store.read()
    order = np.argsort(np.array(first.entities, object))
    assert ids == tuple(first.entities[i] for i in order)
    np.testing.assert_array_equal(vectors, first.entity_vectors[order])
    found = store.search(first.encode(["one two"]), 3)
    expected = first.rank(["one two"], 3)[0]
    assert found.ids == [[entity for entity, _ in expected]]
    np.testing.assert_allclose(found.scores[0], [score for _, score in expected], atol=1e-6)
    with pytest.raises(SystemExit):
        write("hybrid")
    message = capsys.readouterr().err
    assert first.fingerprint in message
    assert second.fingerprint in message
    with pytest.raises(SystemExit):
        write("full")
    assert "is no cosine" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["full", "hybrid"])
def test_a_vocabulary_without_mask_is_refused_but_serves_dual(tmp_path, kind):
    folder = tmp_path / "encoder"
    write_tiny_bert(folder, words=(*TOPICS, *FILLERS))
    vocabulary = (folder / "vocab.txt").read_text().replace("[MASK]", "[unused]")
    (folder / "vocab.txt").write_text(vocabulary)
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer", "do_lower_case": true, "mask_token": null}'
    )
    steps = {"steps": 1, "evaluate_every": 1, "checkpoint_every": 1}
    with pytest.raises(InputError, match=r"has no \[MASK\]"):
        pretrain(toy_config(str(folder), kind=kind, **steps), CORPUS, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_full_needs_room_for_the_entity_and_two_segments(encoder_folder, tmp_path):
    config = toy_config(encoder_folder, kind="full")
    longer = dataclasses.replace(config, data=DataConfig(max_length=63))
    with pytest.raises(InputError, match="of which the entity takes 2"):
        pretrain(longer, CORPUS, tmp_path / "run")


def test_full_needs_an_encoder_of_two_segments(tmp_path):
    folder = tmp_path / "encoder"
    write_tiny_bert(folder, words=(*TOPICS, *FILLERS), type_vocab_size=1)
    with pytest.raises(InputError, match="knows one segment"):
        pretrain(toy_config(str(folder), kind="full"), CORPUS, tmp_path / "run")


@pytest.mark.parametrize(
    "wrong",
    [
        {"word_mask_rate": 0.0},
        {"entity_mask_rate": 1.5},
        {"mlm_weight": -1.0},
        {"temperature": 0.0},
        {"fit_epochs": 0.0},
        {"fit_learning_rate": float("nan")},
        {"dropout": 1.0},
    ],
)
def test_rates_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        ModelConfig(**wrong)
