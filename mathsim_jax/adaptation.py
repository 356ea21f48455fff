"""Domain adaptation: from an encoder and texts to an encoder that knows their language."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from mathsim_jax.config import AdaptationConfig, EncoderConfig
from mathsim_jax.datasets.corpora import hold_out
from mathsim_jax.inference import SentenceEncoder, check_length, lower_case_first
from mathsim_jax.sentence_transformers_format import SentenceModules, read_modules
from mathsim_jax.task import MaskedTask
from mathsim_jax.vocabulary import extend_vocabulary, frequent_commands
from retrieval_jax.bert_sharding import bert_rules
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.distributed import on_main
from retrieval_jax.errors import InputError, check_texts
from retrieval_jax.fingerprints import content_fingerprint
from retrieval_jax.masking import make_masking
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.params import Params
from retrieval_jax.pipeline import TokenTable, tokenize
from retrieval_jax.pretrained import (
    PretrainedBert,
    find_encoder,
    load_pretrained,
    start_mlm_head,
)
from retrieval_jax.runs import RunFolder, create_run
from retrieval_jax.sharding import MODEL, make_mesh
from retrieval_jax.training import Trained, TrainingConfig, train

PACKAGE = "mathsim_jax"
ENCODER, HEAD = "encoder", "head"  # folders of a run
HEAD_LEARNING_RATE = 1e-3
BELOW_HEAD = ("^embeddings/", "^encoder/")  # word vectors are those of its logits too
MAX_LENGTH = 256  # word pieces in use (model card, intended use)


def load_encoder(config: EncoderConfig, mlm_head: bool = False) -> PretrainedBert:
    """Loads the encoder that a configuration starts from, with its MLM head if asked for.

    Its tokenizer lower-cases texts where the folder of sentence-transformers says so.

    Raises:
        InputError: as `find_encoder`, `read_modules` and `load_pretrained`.
    """
    overrides = {name: getattr(config, name) for name in ("dtype", "remat")}
    if config.dropout is not None:
        overrides |= {"hidden_dropout": config.dropout, "attention_dropout": config.dropout}
    folder = find_encoder(config.encoder)
    modules = read_modules(folder)
    bert = str(folder / modules.bert)
    encoder = load_pretrained(bert, config.layers, mlm_head=mlm_head, **overrides)
    if modules.lower_case:
        lower_case_first(encoder.tokenizer)
    return encoder


def encoder_modules(config: EncoderConfig) -> SentenceModules:
    """How the encoder that a configuration starts from makes a text a vector, as its folder says.

    Raises:
        InputError: as `find_encoder` and `read_modules`.
    """
    return read_modules(find_encoder(config.encoder))


def adapt(
    config: AdaptationConfig, texts: Sequence[str], path: Path
) -> tuple[RunFolder, Trained, Path]:
    """Trains masked language modelling on texts, or takes an interrupted run up.

    The MLM head may learn first, alone: `config.head_steps`, in the run folder `head` inside. Of
    several processes, which must all call it, each learns from its part of every batch.

    Args:
        config: what to train and how.
        texts: what to learn from; a share of them chooses the best step.
        path: the run folder.

    Returns:
        The run folder, what training gave, and the sentence-transformers folder of the adapted
        encoder inside it.

    Raises:
        InputError: no text, a text of only white space, a `max_length` that the encoder does not
            hold, and what `load_encoder`, `make_masking`, `create_run` and `train` refuse.
    """
    check_texts("texts", texts)
    refuse_blank(texts)
    encoder = load_encoder(config.model, mlm_head=True)
    check_length(config.max_length, encoder)
    known, dev = hold_out(texts, config.dev_share)
    encoder = with_mlm_head(encoder)
    if config.new_commands:
        commands = frequent_commands(known, encoder.tokenizer, config.new_commands)
        encoder = extend_vocabulary(encoder, commands)
    learned = tokenize(known, encoder.tokenizer, config.max_length)
    held_out = _tokenize_some(dev, encoder, config.max_length)
    masking = make_masking(encoder.tokenizer, config.mask_rate, config.whole_words)
    mesh = make_mesh(config.training.mesh)

    def train_from(params: Params, training: TrainingConfig, run: RunFolder) -> Trained:
        task = MaskedTask(encoder.config, params, learned, held_out, masking)
        task.rules = bert_rules(encoder.config, mesh.shape[MODEL])
        return train(task, training, run, mesh)

    data = content_fingerprint(texts)
    run = create_run(path, PACKAGE, config, data)
    params = encoder.params
    if config.head_steps:
        first = dataclasses.replace(config, training=head_training(config))
        head = create_run(path / HEAD, PACKAGE, first, data)
        train_from(params, first.training, head)
        params = restore_params(head.path)
    trained = train_from(params, config.training, run)
    params = jax.tree.map(np.asarray, restore_params(path))
    params.pop("mlm_head")
    adapted = sentence_encoder(encoder, params, encoder_modules(config.model))
    on_main(lambda: adapted.save_pretrained(path / ENCODER))
    return run, trained, path / ENCODER


def head_training(config: AdaptationConfig) -> TrainingConfig:
    """How the MLM head is trained alone: as the whole, but for steps, rate and what is frozen."""
    return dataclasses.replace(
        config.training,
        steps=config.head_steps,
        evaluate_every=config.head_steps,
        optimizer=OptimizerConfig(learning_rate=HEAD_LEARNING_RATE, frozen=BELOW_HEAD),
    )


def sentence_encoder(
    encoder: PretrainedBert, params: Params, start: SentenceModules
) -> SentenceEncoder:
    """A trained encoder to use and to save: texts as in training, vectors of unit length.

    Args:
        encoder: whose architecture and tokenizer it is.
        params: of `Bert`, without heads.
        start: of the folder that training started from. Pooling and lower case stay; prompts do
            not, as training has none.
    """
    modules = SentenceModules(
        pooling=start.pooling,
        normalize=True,
        max_length=min(MAX_LENGTH, encoder.config.max_positions),
        lower_case=start.lower_case,
    )
    return SentenceEncoder(encoder.config, params, encoder.tokenizer, modules)


def with_mlm_head(encoder: PretrainedBert) -> PretrainedBert:
    """The encoder with the MLM head that training starts from (`start_mlm_head`)."""
    params = encoder.params | {"mlm_head": start_mlm_head(encoder)}
    return PretrainedBert(encoder.folder, encoder.config, params, encoder.tokenizer)


def refuse_blank(texts: Sequence[str]) -> None:
    """Refuses texts of only white space, by an `InputError`."""
    blank = next((i for i, text in enumerate(texts) if not text.strip()), None)
    if blank is not None:
        raise InputError(f"text {blank} is only white space", "Leave it out.")


def _tokenize_some(texts: Sequence[str], encoder: PretrainedBert, max_length: int) -> TokenTable:
    if not texts:
        return TokenTable(np.zeros((0, 1), np.int32), np.zeros(0, np.int32))
    return tokenize(texts, encoder.tokenizer, max_length)
