"""Bags of sentences: how each encoder reads texts, the same for rankings and for tags."""

import dataclasses

import numpy as np
import pytest

from docent_jax.config import ModelConfig
from docent_jax.data import tokenize_corpus
from docent_jax.pretraining import encode_frozen, load_encoder
from experiments.docent import tag_prediction
from experiments.docent.bags import bag_names, make_bag
from experiments.docent.tag_comparison import PARTS
from retrieval_jax.encoding import unit_length
from retrieval_jax.errors import InputError
from retrieval_jax.runs import RunFolder
from tests.bert_folders import write_tiny_bert
from tests.docent_jax.toy_documents import FILLERS, TOPICS, toy_config, toy_corpus
from tests.experiments.test_tag_prediction import SPLIT

CORPUS = toy_corpus()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two encoders of two layers."""
    made = [tmp_path_factory.mktemp(name) for name in ("own", "other")]
    for folder in made:
        write_tiny_bert(folder, words=(*TOPICS, *FILLERS))
    return made


def vectors(config, **model):
    """What an encoder gives for the sentences, with settings that are given outright."""
    model = ModelConfig(**model)
    encoder = load_encoder(model)
    data = tokenize_corpus(CORPUS, encoder.tokenizer, config.data)
    return encode_frozen(encoder, data, model)


def test_the_runs_encoder_reads_as_they_do_and_others_by_the_mean(folders, tmp_path):
    own, other = map(str, folders)
    config = toy_config(own, pooling="cls", layers=1)
    expected = {
        None: vectors(config, encoder=own, pooling="cls", layers=1),
        other: vectors(config, encoder=other, pooling="mean"),
        own: vectors(config, encoder=own, pooling="mean"),
    }
    for name, (sentences, queries) in expected.items():
        bag = make_bag(config, CORPUS, tmp_path, name)
        assert bag.encoder.config.num_layers == (1 if name is None else 2)
        np.testing.assert_allclose(bag.sentences, sentences, atol=1e-5)
        np.testing.assert_allclose(bag.queries["test"], queries["test"], atol=1e-5)
    assert np.abs(expected[None][0] - expected[own][0]).max() > 0.1


@pytest.mark.parametrize(("named", "pooling"), [(False, "cls"), (True, "mean")])
def test_tags_are_read_as_rankings_are(folders, tmp_path, named, pooling):
    own, other = map(str, folders)
    config = toy_config(own, pooling="cls")
    tags = [query.text for query in CORPUS.queries["test"]]
    films = type("Films", (), {"corpus": CORPUS, "vocabulary": tags})
    command = tag_prediction.Command((tmp_path,), data_dir=tmp_path)
    run, name = RunFolder(tmp_path, "x"), other if named else None
    bag, system = tag_prediction.bag_of_sentences(command, run, config, films, name)
    assert bag.model().pooling == pooling
    sentences, queries = vectors(config, encoder=other if named else own, pooling=pooling)
    cosines = unit_length(sentences) @ unit_length(queries["test"]).T
    expected = cosines.reshape(8, 8, -1).mean(axis=1)  # eight sentences of each entity
    tags = np.arange(8, dtype=np.int32)
    split = dataclasses.replace(SPLIT, dev_tags=tags, test_tags=tags)
    for part in PARTS:
        np.testing.assert_allclose(system(split)[part], split.part(part, expected), atol=1e-5)


def test_encoders_that_would_have_one_name_are_refused():
    assert bag_names(["runs/a", "google-bert/bert-base-uncased"]) == ["a", "bert-base-uncased"]
    with pytest.raises(InputError, match="--bags runs/a/encoder runs/b/encoder would have one"):
        bag_names(["runs/a/encoder", "x", "runs/b/encoder"])
