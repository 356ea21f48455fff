"""A tiny encoder and a tiny ranker, whose collections are as hostile as data can be."""

import dataclasses
import time

import jax
import pytest

import docent_jax
from docent_jax.model import init_params, make_model
from docent_jax.pretraining import ENCODER, ENTITIES, PACKAGE, TOKENIZER, load_encoder
from experiments.serve import docstring_formulas
from experiments.serve.docstring_formulas import SourcedFormula
from experiments.serve.entities import EntityIndex, encode_sentences
from experiments.serve.formulas import FormulaIndex, load_formulas
from experiments.serve.limits import Limits
from gcl_jax.config import Config, DataConfig, ModelConfig
from retrieval_jax.checkpoints import Checkpoints
from retrieval_jax.config import to_dict
from retrieval_jax.pretrained import copy_tokenizer
from retrieval_jax.runs import RunFolder, create_run
from tests.bert_folders import write_tiny_bert
from tests.docent_jax.toy_documents import FILLERS, TOPICS, toy_config, toy_corpus

EVIL = "<img src=x onerror=alert(1)>"
LATEX = (
    r"\frac{a}{b+c}",
    r"x^2+y^2=z^2",
    r"\sqrt{x+1}",
    r"\sum_{i=1}^n i^2",
    r"e^{i\pi}+1=0",
    r"\text{<script>alert(1)</script>}+x",
    '<math><mi onclick="alert(1)" href="javascript:alert(1)" style="color:red">x</mi><mo>+</mo>'
    "<mtext>&lt;script&gt;alert(1)&lt;/script&gt;</mtext><script>alert(2)</script></math>",
)
LIMITS = Limits(length=300, depth=10, nodes=60, body=4_000, items=3, answers=10)


@pytest.fixture(scope="session")
def formula_index(tmp_path_factory) -> FormulaIndex:
    run = tmp_path_factory.mktemp("serve") / "formulas"
    config = Config(
        data=DataConfig(min_count=1),
        model=ModelConfig(hidden=8, dim=16, depth=2),
    )
    sourced = [SourcedFormula(of, (f"lib.f{i}", EVIL), EVIL) for i, of in enumerate(LATEX)]
    sourced.append(SourcedFormula(r"\frac{", ("lib.broken",), ""))
    docstring_formulas.build(run, sourced, config)
    return load_formulas(run, LIMITS.answers, f"toys {EVIL}")


def untrained_run(config, corpus, path) -> RunFolder:
    """A run folder as training would leave it, but for the training."""
    encoder = load_encoder(config.model)
    run = create_run(path, PACKAGE, config, corpus.fingerprint)
    run.write_json(ENTITIES, list(corpus.entities))
    run.write_json(ENCODER, to_dict(encoder.config))
    copy_tokenizer(encoder.folder, path / TOKENIZER)
    params = init_params(make_model(config.model, encoder.config, 8), jax.random.key(0))
    with Checkpoints(path) as checkpoints:
        checkpoints.save_best(0, params)
    return run


@pytest.fixture(scope="session")
def entity_index(tmp_path_factory) -> EntityIndex:
    folder = tmp_path_factory.mktemp("serve_entities")
    corpus = toy_corpus()
    write_tiny_bert(folder / "bert", words=(*TOPICS, *FILLERS))
    corpus = dataclasses.replace(
        corpus,
        entities=(f"lib.{EVIL}", *corpus.entities[1:]),
        sentences=tuple(f"{text} {EVIL}" for text in corpus.sentences),
    )
    run = untrained_run(toy_config(str(folder / "bert")), corpus, folder / "run")
    ranker = docent_jax.load(run.path)
    sentences = encode_sentences(ranker, corpus, folder)
    return EntityIndex(ranker, "toys", LIMITS.answers, sentences)


@pytest.fixture
def service(formula_index, entity_index):
    """Not started."""
    from experiments.serve.service import Service

    return Service(formula_index, entity_index, LIMITS, processes=1)


@pytest.fixture(scope="session")
def client(formula_index, entity_index):
    """A client of a server that is warm."""
    from starlette.testclient import TestClient

    from experiments.serve.app import create_app
    from experiments.serve.service import Service

    service = Service(formula_index, entity_index, LIMITS, processes=1)
    with TestClient(create_app(service)) as client:
        deadline = time.monotonic() + 300
        while (answer := client.get("/health/ready")).status_code == 503:
            assert answer.json()["type"] == "urn:problem:starting"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield client
