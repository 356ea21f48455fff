"""The adapter by MTEB's protocol, and in a task of MTEB where it is installed."""

import enum
from types import SimpleNamespace

import numpy as np
import pytest

from mathsim_jax.inference import SentenceEncoder
from mathsim_jax.mteb import MtebEncoder
from mathsim_jax.sentence_transformers_format import SentenceModules, write_modules
from retrieval_jax.errors import InputError
from tests.bert_folders import write_tiny_bert

TEXTS = ["a b c", "fourier transforms of x", "a group (g) acts on x."]
PROMPTS = {"query": "q ", "Retrieval": "r ", "Retrieval-query": "rq ", "Toy": "t "}
PromptType = enum.Enum("PromptType", {"query": "query", "document": "document"}, type=str)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    config = write_tiny_bert(path, words=("fourier", "group"))
    modules = SentenceModules(normalize=True, prompts=PROMPTS)
    write_modules(path, modules, config.hidden_size)
    return path


@pytest.fixture(scope="module")
def encoder(folder):
    return SentenceEncoder.from_pretrained(folder)


def encode(adapter, batches, prompt_type=None, name="Other", kind="STS", **options):
    """Calls it as MTEB 2 does."""
    return adapter.encode(
        batches,
        task_metadata=SimpleNamespace(name=name, type=kind),
        hf_split="test",
        hf_subset="default",
        prompt_type=prompt_type,
        **options,
    )


def test_batches_of_a_data_loader_are_encoded(encoder):
    batches = [{"text": TEXTS[:2], "title": ["", ""]}, {"text": TEXTS[2:]}]
    vectors = encode(MtebEncoder(encoder), batches, batch_size=2, show_progress_bar=False)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-6)
    assert encode(MtebEncoder(encoder), []).shape == (0, encoder.dim)


@pytest.mark.parametrize(
    ("name", "kind", "prompt_type", "prompt"),
    [
        ("Other", "STS", None, ""),
        ("Other", "STS", PromptType.query, "q "),
        ("Other", "STS", "query", "q "),
        ("Other", "Retrieval", PromptType.query, "rq "),
        ("Other", "Retrieval", PromptType.document, "r "),
        ("Toy", "Retrieval", PromptType.query, "t "),
    ],
)
def test_the_most_specific_prompt_is_taken(encoder, name, kind, prompt_type, prompt):
    vectors = encode(MtebEncoder(encoder), [{"text": TEXTS}], prompt_type, name, kind)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS, prompt=prompt), atol=1e-6)


def test_similarities(encoder):
    adapter, vectors = MtebEncoder(encoder), 2 * encoder.encode(TEXTS)
    cosines = adapter.similarity(vectors, vectors[:2])
    np.testing.assert_allclose(cosines, vectors @ vectors[:2].T / 4, atol=1e-6)
    pairwise = adapter.similarity_pairwise(vectors, vectors[::-1])
    np.testing.assert_allclose(pairwise, (vectors * vectors[::-1]).sum(axis=1) / 4, atol=1e-6)


def test_what_it_cannot_do_is_said(encoder):
    with pytest.raises(InputError, match="batch 0 of the task has image, no text"):
        encode(MtebEncoder(encoder), [{"image": [0]}])
    with pytest.raises(InputError, match="precision 'int8'"):
        encode(MtebEncoder(encoder), [], precision="int8")


def test_it_is_loaded_by_name_as_the_command_line_of_mteb_does(folder):
    meta = object()
    adapter = MtebEncoder(str(folder), None, device="cpu", model_meta=meta)
    assert adapter.mteb_model_meta is meta
    assert encode(adapter, [{"text": TEXTS}]).shape == (3, 16)


def test_a_task_of_mteb_is_evaluated(encoder):
    mteb = pytest.importorskip("mteb")
    sts = pytest.importorskip("mteb.mocks.mock_tasks.sts")
    protocols = pytest.importorskip("mteb.models.models_protocols")
    adapter = MtebEncoder(encoder)
    assert isinstance(adapter, protocols.EncoderProtocol)
    results = mteb.evaluate(adapter, sts.MockSTSTask(), cache=None, co2_tracker=False)
    # Two pairs, labels 1 and 0: the correlation of ranks is 1 or -1, of the cosines of the pairs.
    pairs = [
        ("This is a test sentence", "dette er en test sætning"),
        ("This is another test sentence", "denne her matche ikke den ovenstående"),
    ]
    first, second = (encoder.similarity(*pair).item() for pair in pairs)
    score = results.task_results[0].scores["test"][0]["cosine_spearman"]
    assert score == pytest.approx(1.0 if first > second else -1.0)
