"""From documents to a run folder and back: training, entity tables, resume, refusals."""

import dataclasses

import numpy as np
import pytest

import docent_jax
from docent_jax.baselines import mean_vectors
from docent_jax.config import DataConfig
from docent_jax.data import tokenize_corpus
from docent_jax.datasets.corpus import Query
from docent_jax.evaluation import cosine_scores, zero_shot_measures
from docent_jax.pretraining import encode_frozen, fit_table, load_encoder, pretrain
from retrieval_jax.errors import InputError
from retrieval_jax.logs import read_metrics
from tests.bert_folders import write_tiny_bert
from tests.docent_jax.toy_documents import FILLERS, TOPICS, toy_config, toy_corpus

CORPUS = toy_corpus()


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    write_tiny_bert(folder, words=(*TOPICS, *FILLERS))
    return str(folder)


@pytest.fixture(scope="module")
def trained(encoder_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "first"
    return pretrain(toy_config(encoder_folder), CORPUS, path)


def test_training_ranks_the_right_entity_first(trained):
    run, result = trained
    assert result.best["RR"] > 0.9
    ranker = docent_jax.load(run.path)
    answers = ranker.rank(["the fourier of a value", "random array"], k=3)
    assert [row[0].entity for row in answers] == ["lib.fourier", "lib.random"]
    assert all(len(row) == 3 for row in answers)
    for row in answers:
        scores = [entity.score for entity in row]
        assert scores == sorted(scores, reverse=True)
        assert all(-1.0001 <= score <= 1.0001 for score in scores)


def test_the_loaded_model_has_the_measures_of_its_best_step(trained):
    run, result = trained
    ranker = docent_jax.load(str(run.path))
    queries = [query.text for query in CORPUS.queries["dev"]]
    measures = zero_shot_measures(ranker.score(queries), CORPUS, "dev")
    assert measures == pytest.approx(result.best, abs=1e-6)
    np.testing.assert_allclose(np.linalg.norm(ranker.entity_vectors, axis=1), 1, atol=1e-5)


def test_the_exported_encoder_starts_another_run_where_this_one_ended(trained, tmp_path):
    ranker = docent_jax.load(trained[0].path)
    ranker.export_encoder(tmp_path)
    config = toy_config(str(tmp_path)).model
    encoder = load_encoder(config)
    data = tokenize_corpus(CORPUS, encoder.tokenizer, DataConfig(max_length=16))
    vectors, _ = encode_frozen(encoder, data, config)
    expected = ranker.encode(CORPUS.sentences)
    np.testing.assert_allclose(
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True), expected, atol=1e-5
    )


def test_more_answers_than_entities_gives_them_all(trained):
    answers = docent_jax.load(trained[0].path).rank(["graph"], k=100)
    assert sorted(entity.entity for entity in answers[0]) == sorted(CORPUS.entities)


def test_one_text_and_many_texts_are_encoded_alike(trained):
    ranker = docent_jax.load(trained[0].path)
    texts = [f"{filler} {topic}" for topic in TOPICS for filler in FILLERS]
    together = ranker.encode(texts)
    np.testing.assert_allclose(together[33], ranker.encode([texts[33]])[0], atol=1e-5)
    np.testing.assert_array_equal(ranker.encode(np.array(texts)), together)


@pytest.mark.parametrize("texts", [[], "a string", [None], ["a", 3], np.array([1.0])])
def test_what_is_no_list_of_texts_is_refused(trained, texts):
    with pytest.raises(InputError, match="texts to encode"):
        docent_jax.load(trained[0].path).encode(texts)


def test_a_finished_run_is_loaded_not_trained_again(trained, encoder_folder):
    run, result = trained

    def never():
        raise AssertionError("the frozen encoder is not needed to resume")

    again_run, again = pretrain(toy_config(encoder_folder), CORPUS, run.path, never)
    assert again_run == run
    assert (again.step, again.best_step) == (result.step, result.best_step)


def test_other_documents_or_settings_do_not_go_into_a_run(trained, encoder_folder):
    run, _ = trained
    with pytest.raises(InputError, match="data fingerprint"):
        pretrain(toy_config(encoder_folder), toy_corpus(5), run.path)
    with pytest.raises(InputError, match=r"temperature: 0\.05 -> 0\.1"):
        pretrain(toy_config(encoder_folder, temperature=0.1), CORPUS, run.path)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"negatives": "in_batch"}, marks=pytest.mark.long),
        pytest.param({"entity_init": "random", "learn_temperature": False}, marks=pytest.mark.long),
        {"entity_init": "mean", "pooling": "cls", "dropout": 0.1},
        pytest.param({"scan_layers": True, "remat": "dots"}, marks=pytest.mark.long),
        pytest.param({"dtype": "bfloat16", "layers": 1}, marks=pytest.mark.long),
    ],
)
def test_every_setting_trains_and_loads(tmp_path, encoder_folder, changes):
    config = toy_config(encoder_folder, steps=4, evaluate_every=2, checkpoint_every=2, **changes)
    run, result = pretrain(config, CORPUS, tmp_path / "run")
    assert result.step == 4
    entries = read_metrics(run.path)
    assert all(np.isfinite(e["loss"]) for e in entries if e["kind"] == "train")
    assert len(docent_jax.load(run.path).rank(["graph"])[0]) == 8


def test_a_fitted_table_ranks_at_least_as_well_as_means(encoder_folder):
    config = toy_config(encoder_folder, fit_epochs=30.0)
    encoder = load_encoder(config.model)
    data = tokenize_corpus(CORPUS, encoder.tokenizer, DataConfig(max_length=16))
    vectors, queries = encode_frozen(encoder, data, config.model)
    means = mean_vectors(vectors, data.sentence_entities, 8)
    fitted = fit_table(vectors, data, config)
    measures = [
        zero_shot_measures(cosine_scores(queries["dev"], table), CORPUS, "dev")["RR"]
        for table in (means, fitted)
    ]
    assert measures[1] >= measures[0]
    assert np.abs(fitted - means).max() > 1e-3


@pytest.mark.parametrize("init", ["mean", "random"])
def test_the_table_starts_as_told(encoder_folder, tmp_path, monkeypatch, init):
    started = {}

    def take_start(task, *_):
        started.update(task.warm_start())
        raise KeyboardInterrupt

    monkeypatch.setattr("docent_jax.pretraining.train", take_start)
    with pytest.raises(KeyboardInterrupt):
        pretrain(toy_config(encoder_folder, entity_init=init), CORPUS, tmp_path / "run")
    assert ("entities" in started) == (init == "mean")
    if init == "mean":
        config = toy_config(encoder_folder)
        encoder = load_encoder(config.model)
        data = tokenize_corpus(CORPUS, encoder.tokenizer, DataConfig(max_length=16))
        vectors, _ = encode_frozen(encoder, data, config.model)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        means = unit.reshape(8, 8, -1).mean(axis=1)  # eight sentences each, entity by entity
        table = started["entities"]["embedding"]
        np.testing.assert_allclose(table[:8], means, atol=1e-5)
        np.testing.assert_array_equal(table[8:], 0.0)


@pytest.mark.long
def test_an_entity_may_have_one_sentence(encoder_folder, tmp_path):
    corpus = toy_corpus()
    first = int(corpus.bounds[3])
    kept = np.delete(np.arange(len(corpus.sentences)), range(first + 1, int(corpus.bounds[4])))
    corpus = dataclasses.replace(
        corpus,
        sentences=tuple(corpus.sentences[row] for row in kept),
        sentence_entities=corpus.sentence_entities[kept],
    )
    assert np.bincount(corpus.sentence_entities).tolist() == [8, 8, 8, 1, 8, 8, 8, 8]
    config = toy_config(encoder_folder, steps=2, evaluate_every=2, checkpoint_every=2)
    run, trained = pretrain(config, corpus, tmp_path / "run")
    assert trained.step == 2
    vector = docent_jax.load(run.path).entity_vectors[3]
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_texts_longer_than_the_position_table_are_refused(encoder_folder, tmp_path):
    config = toy_config(encoder_folder)
    config = dataclasses.replace(config, data=DataConfig(max_length=65))
    with pytest.raises(InputError, match="more than the 64 positions"):
        pretrain(config, CORPUS, tmp_path / "run")


def test_encoders_that_cannot_be_had_are_explained(tmp_path):
    with pytest.raises(InputError, match="no such encoder folder"):
        pretrain(toy_config(str(tmp_path / "none")), CORPUS, tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no config\.json"):
        pretrain(toy_config(str(tmp_path / "empty")), CORPUS, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_another_package_is_refused(trained, tmp_path):
    text = (trained[0].path / "config.json").read_text().replace("docent_jax", "gcl_jax")
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match="run of gcl_jax"):
        docent_jax.load(tmp_path)


def test_a_run_without_checkpoint_is_refused(encoder_folder, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("docent_jax.pretraining.train", stop)
    with pytest.raises(KeyboardInterrupt):
        pretrain(toy_config(encoder_folder, entity_init="random"), CORPUS, tmp_path / "run")
    with pytest.raises(InputError, match="no checkpoint"):
        docent_jax.load(tmp_path / "run")


def test_queries_have_a_length_of_their_own_and_vectors_are_kept(
    encoder_folder, tmp_path, monkeypatch
):
    config = toy_config(encoder_folder)
    encoder = load_encoder(config.model)
    long = f"{TOPICS[0]} " * 40
    queries = {"dev": (Query("q", long, (0,)),)}
    corpus = dataclasses.replace(CORPUS, queries=queries)
    widths = {}
    for query_length in (None, 30):
        data_config = dataclasses.replace(config.data, query_length=query_length)
        data = tokenize_corpus(corpus, encoder.tokenizer, data_config)
        widths[query_length] = data.queries["dev"].lengths.tolist()
    assert widths == {None: [16], 30: [30]}
    vectors, _ = encode_frozen(encoder, data, config.model, tmp_path / "vectors")
    with monkeypatch.context() as patch:
        patch.setattr("docent_jax.pretraining.encode_to_file", None)  # nothing is encoded again
        again, _ = encode_frozen(encoder, data, config.model, tmp_path / "vectors")
        # Neither by a run with dropout, remat or a head for words.
        other = dataclasses.replace(
            encoder,
            config=dataclasses.replace(encoder.config, hidden_dropout=0.3, remat="full"),
            params={**encoder.params, "mlm_head": {"bias": np.zeros(3)}},
        )
        of_other, _ = encode_frozen(other, data, config.model, tmp_path / "vectors")
    np.testing.assert_array_equal(vectors, again)
    np.testing.assert_array_equal(vectors, of_other)
    in_memory, _ = encode_frozen(encoder, data, config.model)
    np.testing.assert_array_equal(vectors, in_memory)
    # So are vectors that were kept as one array, and those encoded by slices are the same.
    np.save(tmp_path / "array.npy", in_memory)
    (kept,) = (tmp_path / "vectors").glob("*/vectors.npy")
    assert kept.read_bytes() == (tmp_path / "array.npy").read_bytes()
    monkeypatch.setattr("retrieval_jax.encoding.SLICE", 10)
    sliced, _ = encode_frozen(encoder, data, config.model, tmp_path / "sliced")
    assert isinstance(sliced, np.memmap)
    np.testing.assert_allclose(sliced, in_memory, atol=1e-5)
    assert [path.name for path in (tmp_path / "sliced").iterdir()] == [kept.parent.name]


def test_new_entities_are_read_as_sentences_are(trained, monkeypatch):
    ranker = docent_jax.load(trained[0].path)
    longer = dataclasses.replace(ranker.config.data, query_length=30)
    ranker.config = dataclasses.replace(ranker.config, data=longer)
    long = f"{TOPICS[0]} " * 40
    asked, sentence = ranker.encode([long]), ranker.encode([long], sentences=True)
    assert not np.allclose(asked, sentence, atol=1e-4)
    extended = ranker.add_entities({"new": [long]})
    np.testing.assert_allclose(extended.entity_vectors[-1], sentence[0], atol=1e-5)
