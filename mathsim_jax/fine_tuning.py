"""Fine-tuning on pairs: from an encoder and labelled pairs to one whose cosine tells them apart."""

import dataclasses
import functools
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh

from mathsim_jax.adaptation import (
    ENCODER,
    MAX_LENGTH,
    PACKAGE,
    encoder_modules,
    load_encoder,
    sentence_encoder,
)
from mathsim_jax.config import FineTuningConfig
from mathsim_jax.data import grouped_folds, tokenize_pairs
from mathsim_jax.datasets.math_text import extra_pairs, german_pairs
from mathsim_jax.datasets.pairs import Pairs, join_pairs
from mathsim_jax.evaluation import pair_cosines
from mathsim_jax.inference import check_length
from mathsim_jax.task import PairTask
from retrieval_jax.bert import Pooling
from retrieval_jax.bert_sharding import bert_rules
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.chunking import Chunking
from retrieval_jax.distributed import broadcast, is_main, local_copy, on_main
from retrieval_jax.encoding import jit_encoder
from retrieval_jax.errors import InputError
from retrieval_jax.pretrained import PretrainedBert
from retrieval_jax.runs import RunFolder, create_run
from retrieval_jax.sharding import DATA, MODEL, make_mesh
from retrieval_jax.training import Trained, train


def training_pairs(config: FineTuningConfig, pairs: Pairs, folder: Path | None) -> Pairs:
    """The pairs that a configuration trains on.

    Args:
        config: without `german` the pairs in German are left out, with `extra` others join.
        pairs: labelled ones.
        folder: of the data, for `extra`.

    Raises:
        InputError: no positive or no negative is left; `extra` without a folder.
    """
    if not config.german:
        pairs = pairs.take(~german_pairs(pairs))
    pairs = pairs.require_both_labels("the training pairs")
    if not config.extra:
        return pairs
    if folder is None:
        raise InputError(f"extra pairs {config.extra} come from no folder", "Give the data folder.")
    extra = [extra_pairs(folder, source, config.extra_limit, seed=0) for source in config.extra]
    return join_pairs([pairs, *extra])


def pooling_of(config: FineTuningConfig) -> Pooling:
    """The pooling that a configuration means: its own, else that of its encoder's folder.

    Raises:
        InputError: as `encoder_modules`.
    """
    return config.pooling or encoder_modules(config.model).pooling


def make_task(
    config: FineTuningConfig,
    encoder: PretrainedBert,
    pairs: Pairs,
    dev: Pairs | None,
    mesh: Mesh | None = None,
) -> PairTask:
    """The task that a configuration means, on the devices of `mesh`; all that are its by default.

    Raises:
        InputError: a `max_length` that the encoder does not hold, or dev pairs of one label.
    """
    check_length(config.max_length, encoder)
    if dev is not None:
        dev.require_both_labels("the dev pairs")
    params = {part: encoder.params[part] for part in ("embeddings", "encoder")}
    length, tokenizer = config.max_length, encoder.tokenizer
    mesh = make_mesh(config.training.mesh) if mesh is None else mesh
    task = PairTask(
        encoder.config,
        params,
        pooling_of(config),
        tokenize_pairs(pairs, tokenizer, length),
        None if dev is None else tokenize_pairs(dev, tokenizer, length),
        config.objective,
        config.temperature,
        Chunking(config.chunk_pairs, mesh.shape[DATA]),
    )
    task.rules = bert_rules(encoder.config, mesh.shape[MODEL])
    return task


def fine_tune(
    config: FineTuningConfig, pairs: Pairs, dev: Pairs | None, path: Path
) -> tuple[RunFolder, Trained, Path]:
    """Trains on pairs, or takes an interrupted run up.

    Of several processes, which must all call it, each learns from its part of every batch.

    Args:
        config: what to train and how.
        pairs: as `training_pairs` gives.
        dev: pairs by whose Spearman correlation the best step is chosen; None = the last step.
        path: the run folder.

    Returns:
        The run folder, what training gave, and the sentence-transformers folder of the encoder of
        the best step inside it.

    Raises:
        InputError: as `make_task`, and what `load_encoder`, `create_run` and `train` refuse.
    """
    encoder = load_encoder(config.model)
    task = make_task(config, encoder, pairs, dev)
    data = pairs.fingerprint if dev is None else f"{pairs.fingerprint} {dev.fingerprint}"
    run = create_run(path, PACKAGE, config, data)
    run.write_json("card.json", dict(pairs.card))
    trained = train(task, config.training, run)
    params = jax.tree.map(np.asarray, restore_params(path))
    modules = dataclasses.replace(encoder_modules(config.model), pooling=pooling_of(config))
    best = sentence_encoder(encoder, params, modules)
    on_main(lambda: best.save_pretrained(path / ENCODER))
    return run, trained, path / ENCODER


def score_pairs(
    config: FineTuningConfig, encoder: PretrainedBert, pairs: Pairs, max_length: int = MAX_LENGTH
) -> np.ndarray:
    """Cosines float64 `[pairs]` by an encoder as it is, texts cut to `max_length` word pieces.

    Raises:
        InputError: a `max_length` that the encoder does not hold.
    """
    check_length(max_length, encoder)
    params = {part: encoder.params[part] for part in ("embeddings", "encoder")}
    encode_batch = functools.partial(jit_encoder(encoder.config, pooling_of(config)), params)
    return pair_cosines(encode_batch, tokenize_pairs(pairs, encoder.tokenizer, max_length))


def cross_validate(
    config: FineTuningConfig,
    pairs: Pairs,
    folds: int,
    folder: Path | None,
    test_length: int = MAX_LENGTH,
) -> np.ndarray:
    """Scores every pair by an encoder that was trained on pairs of other groups.

    Of several processes, which must all call it, all train, and the first scores.

    Args:
        config: what to train; its last step is taken.
        pairs: labelled, of several groups.
        folds: of groups.
        folder: of the data, for `config.extra`.
        test_length: word pieces a text is cut to when it is scored.

    Returns:
        Cosines float64 `[pairs]`.

    Raises:
        InputError: as `training_pairs`, `make_task` and `grouped_folds`.
    """
    encoder = load_encoder(config.model)
    check_length(test_length, encoder)
    mesh = make_mesh(config.training.mesh)
    scores = np.zeros(len(pairs))
    for known, held_out in grouped_folds(pairs.groups, folds):
        chosen = training_pairs(config, pairs.take(known), folder)
        task = make_task(config, encoder, chosen, None, mesh)
        trained = train(task, config.training, mesh=mesh, show_progress=False)
        params = local_copy(trained.params, mesh)
        tested = tokenize_pairs(pairs.take(held_out), encoder.tokenizer, test_length)
        of_fold = task.cosines(params, tested).tolist() if is_main() else []
        # All take the same: what is chosen by the scores must be chosen by all.
        scores[held_out] = broadcast(of_fold)
    return scores
