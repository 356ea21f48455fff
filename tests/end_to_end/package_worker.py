"""Trains a small model of each package that has no run of its own here, in few steps.

`python -m retrieval_jax.distributed ... tests.end_to_end.package_worker FOLDER BERT`, a BERT
folder; the runs are `RUNS` in FOLDER.
"""

import dataclasses
import importlib.util
import sys
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import gcl_jax
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.embeddings import NodeEmbeddingConfig
from ltr_jax.training import train_ranker
from mathsim_jax.adaptation import adapt
from mathsim_jax.config import EncoderConfig
from mathsim_jax.fine_tuning import cross_validate, fine_tune
from retrieval_jax.distributed import is_main
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.masking import MaskedPieces, Masking
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.sharding import MeshConfig
from retrieval_jax.training import TrainingConfig
from tests.gcl_jax.toy_graphs import random_formulas
from tests.ltr_jax.toy_collection import toy_collection, toy_config, toy_vectors
from tests.mathsim_jax.toy_pairs import (
    SUBJECTS,
    adaptation_config,
    fine_tuning_config,
    toy_pairs,
    toy_texts,
)

# Without dropout, whose draws follow the rows that each process packs. A large eps, so that a
# gradient of rounding errors makes no step of full length.
TRAINING = TrainingConfig(
    steps=6,
    batch_size=16,
    log_every=2,
    evaluate_every=3,
    checkpoint_every=3,
    mesh=MeshConfig(fsdp_mib=0.0),
    optimizer=OptimizerConfig(learning_rate=5e-3, eps=1e-3),
)
SCORES = "scores.npy"


def with_training(config):
    """The configuration, trained as `TRAINING` by its own measure."""
    measure = config.training.best_measure
    return dataclasses.replace(config, training=dataclasses.replace(TRAINING, best_measure=measure))


def mask_by_content(
    rng: jax.Array, input_ids: jax.Array, attention_mask: jax.Array, masking: Masking
) -> MaskedPieces:
    """Masks every third piece of the vocabulary, wherever it stands: not by rows, as packed."""
    del rng
    special = jnp.isin(input_ids, jnp.array(masking.special_ids, input_ids.dtype))
    chosen = (attention_mask > 0) & ~special & (input_ids % 3 == 0)
    positions = jnp.broadcast_to(jnp.arange(input_ids.shape[1])[None], input_ids.shape)
    masked = jnp.where(chosen, masking.mask_id, input_ids)
    return MaskedPieces(masked, positions, input_ids, chosen.astype(jnp.float32))


def train_adaptation(path: Path, bert: str) -> None:
    """Masked language modelling, the head first, with new commands in the vocabulary."""
    texts = [f"{text} \\mathbb" for s in SUBJECTS for text in toy_texts(s, 30, seed=0)]
    config = with_training(adaptation_config(bert, head_steps=3))
    model = EncoderConfig(encoder=bert, dropout=0.0)
    config = dataclasses.replace(config, model=model, new_commands=4)
    with mock.patch("mathsim_jax.task.mask_pieces", mask_by_content):
        adapt(config, list(dict.fromkeys(texts)), path)


def train_fine_tuning(path: Path, bert: str) -> None:
    """Contrastive, in chunks; and scores of a cross-validation of the other objective."""
    config = with_training(fine_tuning_config(bert))
    contrastive = dataclasses.replace(config, objective="contrastive", chunk_pairs=2)
    fine_tune(contrastive, toy_pairs(), toy_pairs(seed=50, per_subject=8), path)
    scores = cross_validate(config, toy_pairs(), 2, None, test_length=16)
    if is_main():
        np.save(path / SCORES, scores)


def train_formulas(path: Path, bert: str, **model) -> None:
    """Formulas, chosen by judged ones."""
    del bert
    pool = random_formulas(6, 1)
    queries = dataclasses.replace(pool.subset([0, 1]), ids=("q-1", "q-2"))
    qrels = {"q-1": {"f0": 4, "f1": 0, "f2": 1, "f3": 0}, "q-2": {"f1": 0, "f2": 4}}
    judged = JudgedFormulas(pool, np.ones(6, bool), queries, qrels, {})
    config = with_training(gcl_jax.PRESETS["smoke"])
    config = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, **model),
        contrast=dataclasses.replace(config.contrast, chunk_graphs=2, temperature=0.5),
        embeddings=NodeEmbeddingConfig(dim=4, epochs=1, buckets=100),
    )
    gcl_jax.pretrain(config, random_formulas(80, 2), path, judged)


def train_fasttext(path: Path, bert: str) -> None:
    """Formulas by fixed vectors, which the first process trains."""
    train_formulas(path, bert, encoder="gin", features="fasttext", layout="opt")


def train_ltr(path: Path, bert: str) -> None:
    """A ranker, in chunks."""
    del bert

    def vectors():
        assert is_main()
        return toy_vectors()

    config = with_training(toy_config(objective="in_batch", dropout=0.0))
    sampling = dataclasses.replace(config.sampling, chunk_queries=2)
    train_ranker(dataclasses.replace(config, sampling=sampling), toy_collection(), vectors, path)


RUNS = {
    "adaptation": train_adaptation,
    "fine_tuning": train_fine_tuning,
    "formulas": train_formulas,
    "ranker": train_ltr,
}
if importlib.util.find_spec("gensim") is not None:
    RUNS["fasttext"] = train_fasttext


def train_all(folder: Path, bert: str) -> None:
    """Trains all of `RUNS`."""
    for name, train in RUNS.items():
        print("training", name)
        train(folder / name, bert)


@one_screen_errors
def main() -> None:
    """Trains into the folder that the command line names."""
    quiet_libraries()
    train_all(Path(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
