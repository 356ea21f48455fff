"""Training steps of the DocEnt models at toy sizes."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import docent_models, measure
from retrieval_jax.masking import MaskedPieces, masked_piece_loss
from tests.bert_folders import write_tiny_bert
from tests.docent_jax.toy_documents import FILLERS, TOPICS, toy_corpus

OPTIONS = measure.Options(repeats=1, threads=len(os.sched_getaffinity(0)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder")
    write_tiny_bert(path, words=(*TOPICS, *FILLERS))
    return str(path)


def compare(folder, what):
    command = docent_models.Command(OPTIONS, what, "smoke", folder, batches=2)
    corpus = toy_corpus()
    return measure.compare(
        "docent_models", lambda command: docent_models.compare_on(corpus, command), command, OPTIONS
    )


@pytest.mark.long
def test_all_models_are_trained(folder):
    record = compare(folder, "models")
    assert list(record["sides"]) == ["dual", "hybrid", "hybrid_one_pass", "full"]
    # The words' loss, log of the vocabulary, comes on top of the entities'.
    assert record["first_loss"]["hybrid"] > record["first_loss"]["dual"] + 1
    assert record["settings"]["batch"] == 16


@pytest.mark.long
def test_hybrid_has_the_same_loss_with_logits_at_all_places(folder):
    losses = compare(folder, "places")["first_loss"]
    assert losses["ours"] == pytest.approx(losses["all_places"], abs=1e-4)


def test_all_places_hold_the_same_pieces():
    ids = jnp.array([[5, 6, 7, 0], [8, 9, 0, 0]])
    masked = MaskedPieces(
        input_ids=jnp.array([[5, 1, 7, 0], [1, 9, 0, 0]]),
        positions=jnp.array([[1, 0], [0, 3]]),
        labels=jnp.array([[6, 5], [8, 0]]),
        weights=jnp.array([[1.0, 0], [1, 0]]),
    )
    everywhere = docent_models.all_places(ids, masked)
    logits = jax.random.normal(jax.random.key(0), (2, 4, 10))
    at_places = jnp.take_along_axis(logits, masked.positions[:, :, None], axis=1)
    np.testing.assert_array_equal(everywhere.weights, [[0, 1, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_allclose(
        masked_piece_loss(logits, everywhere), masked_piece_loss(at_places, masked), rtol=1e-6
    )


def test_losses_that_are_not_finite_are_refused():
    with pytest.raises(measure.DisagreementError, match="losses of full"):
        docent_models.finite_losses({"dual": np.array([1.0]), "full": np.array([np.nan])})
