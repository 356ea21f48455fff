import dataclasses
import gzip
import json
import os
from pathlib import Path

import pytest

from ltr_jax.config import PRESETS, DataConfig
from ltr_jax.datasets import builders
from ltr_jax.datasets.boost_clir import PatentOptions
from ltr_jax.datasets.corpora import read_corpus
from ltr_jax.datasets.load import load_collection
from ltr_jax.datasets.wikipedia_clir import WikipediaOptions
from retrieval_jax.errors import InputError
from tests.ltr_jax.datasets.test_boost_clir import write_corpus, write_marec
from tests.ltr_jax.datasets.test_debian_apt import folder as apt_folder
from tests.ltr_jax.datasets.test_wikipedia import write_archive, write_dumps

REAL = (
    Path(os.environ.get("RETRIEVAL_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "debian_clir"
)
apt_lists = apt_folder


def same(first, second):
    assert first.fingerprint == second.fingerprint
    assert first.name == second.name
    assert first.card == second.card


def test_wikipedia_is_made_once(tmp_path, monkeypatch) -> None:
    source = tmp_path / "source"
    write_archive(source)
    write_dumps(source, "en")
    write_dumps(source, "de")
    options = WikipediaOptions(irrelevant=20)
    made = builders.read_wikipedia_clir(source, "de", options)
    kept = builders.load_wikipedia_clir(source, "de", tmp_path / "data", options)
    same(kept, made)
    assert kept.splits["test"].candidates == made.splits["test"].candidates
    with monkeypatch.context() as context:
        context.setattr(builders, "read_wikipedia_clir", None)
        same(builders.load_wikipedia_clir(source, "de", tmp_path / "data", options), made)
    other = dataclasses.replace(options, seed=1)
    assert (
        builders.load_wikipedia_clir(source, "de", tmp_path / "data", other).fingerprint
        != made.fingerprint
    )


def test_the_preset_of_the_paper_names_a_corpus_for_each_language(tmp_path, caplog) -> None:
    source = tmp_path / "source"
    write_archive(source)
    config = dataclasses.replace(PRESETS["paper"].data, folder=str(source))
    plain = load_collection(dataclasses.replace(config, corpus=None), tmp_path / "data")
    assert "holds no corpus" not in caplog.text

    alone = load_collection(config, tmp_path / "data")
    assert f"{source} holds no corpus_en.*: word2vec of en is trained on the 60" in caplog.text
    assert "holds no corpus_de.*" in caplog.text and "whole articles" in caplog.text
    assert alone.card["corpus of en"] == "none, but the 60 texts of the collection"
    assert (alone.fingerprint, alone.corpus_files) == (plain.fingerprint, {})

    (source / "corpus_en.txt").write_text("An article.\n\nAnother one.\n", encoding="utf-8")
    found = load_collection(config, tmp_path / "data")
    assert found.corpus_files == {"en": source / "corpus_en.txt"}
    assert found.card["corpus of en"] == "corpus_en.txt"
    assert found.card["corpus of de"].startswith("none, but the ")
    assert found.fingerprint != plain.fingerprint
    with pytest.raises(InputError, match=r"data\.corpus is 'en\.txt'(.|\n)*\{language\}"):
        load_collection(dataclasses.replace(config, corpus="en.txt"), tmp_path / "data")


def test_texts_of_a_corpus(tmp_path) -> None:
    path = tmp_path / "corpus_en.txt.gz"
    path.write_bytes(gzip.compress(b"An article.\n\nAnother one."))
    assert list(read_corpus(path)) == ["An article.", "Another one."]
    path = tmp_path / "corpus_en.jsonl.gz"
    articles = ({"title": "A", "section_texts": ["One.", "Two."]}, {"title": "B"})
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, articles)).encode()))
    texts = read_corpus(path)
    assert next(texts) == "One.\nTwo."
    with pytest.raises(InputError, match=r"jsonl\.gz, line 2: no article(.|\n)*segment_wiki"):
        next(texts)


def test_patents_are_made_once(tmp_path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_corpus(source)
    write_marec(source / "marec")
    options = PatentOptions()
    kept = builders.load_boost_clir(source, tmp_path / "data", options)
    same(kept, builders.read_boost_clir(source, options))
    config = DataConfig("boost_clir", "ja-en", folder=str(source))
    same(load_collection(config, tmp_path / "data"), kept)
    with pytest.raises(InputError, match=r"no pair 'en-ja'(.|\n)*ja-en"):
        load_collection(dataclasses.replace(config, pair="en-ja"), tmp_path / "data")


def test_lists_of_apt_are_made_once(tmp_path, apt_lists) -> None:
    config = DataConfig("debian_clir", "en-de", folder=str(apt_lists))
    kept = load_collection(config, tmp_path / "data")
    same(kept, builders.read_apt_lists(apt_lists, "de"))
    assert kept.corpora["en"]
    # Its first version had a graph with the packages of dev: what was kept of it is not taken.
    assert [path.name for path in (tmp_path / "data" / "debian_apt").glob("*/*")] == ["2.0.0"]


def test_sources_that_are_not_there(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("RETRIEVAL_DATA", raising=False)
    with pytest.raises(InputError, match=r"no folder to read(.|\n)*RETRIEVAL_DATA"):
        load_collection(DataConfig(), tmp_path)
    monkeypatch.setenv("RETRIEVAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"no collection of documents in 'de'"):
        load_collection(DataConfig(), tmp_path)
    for pair in ("de", "de-en", ""):
        with pytest.raises(InputError, match="has no pair"):
            load_collection(DataConfig(pair=pair), tmp_path)
    with pytest.raises(InputError, match="no collection `x`"):
        load_collection(DataConfig("x", folder=str(tmp_path)), tmp_path)


@pytest.mark.skipif(not REAL.is_dir(), reason="needs debian_clir in the folder RETRIEVAL_DATA")
def test_the_real_folder(tmp_path) -> None:
    collection = load_collection(DataConfig(pair="en-ja", folder=str(REAL)), tmp_path)
    assert len(collection.documents.ids) == 3519
