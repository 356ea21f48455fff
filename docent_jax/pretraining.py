"""Pre-training a DocEnt model: from a configuration and documents to a run folder."""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from docent_jax.baselines import mean_vectors
from docent_jax.config import Config, ModelConfig
from docent_jax.data import ENTITY_PIECES, EncodedCorpus, tokenize_corpus
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.model import Full, Hybrid, make_model, with_spare_rows
from docent_jax.task import DualTask, FullTask, HybridTask, TableTask
from retrieval_jax.bert import BertConfig, stack_layers
from retrieval_jax.bert_sharding import bert_rules
from retrieval_jax.chunking import Chunking
from retrieval_jax.config import to_dict
from retrieval_jax.distributed import broadcast_array, on_main
from retrieval_jax.encoding import encode, encode_to_file, jit_encoder
from retrieval_jax.errors import InputError
from retrieval_jax.kept import content_name, keep
from retrieval_jax.masking import make_masking
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.params import Params
from retrieval_jax.pretrained import (
    PretrainedBert,
    copy_tokenizer,
    load_pretrained,
    start_mlm_head,
)
from retrieval_jax.runs import RunFolder, create_run
from retrieval_jax.sharding import DATA, MODEL, MeshConfig, make_mesh
from retrieval_jax.training import Trained, TrainingConfig, train

PACKAGE = "docent_jax"
FIT_BATCH = 256
TOKENIZER, ENCODER, ENTITIES = "tokenizer", "encoder.json", "entities.json"
# Folders below the one where what runs share is kept.
TOKENS, VECTORS, VECTORS_FILE = "tokens", "vectors", "vectors.npy"
ENCODING = "encoding sentences"


def load_encoder(config: ModelConfig) -> PretrainedBert:
    """Loads the encoder that a configuration starts from; an MLM head only if it has a use."""
    overrides = {name: getattr(config, name) for name in ("dtype", "remat", "scan_layers")}
    if config.dropout is not None:
        overrides |= {"hidden_dropout": config.dropout, "attention_dropout": config.dropout}
    encoder = load_pretrained(
        config.encoder, config.layers, mlm_head=config.kind != "dual", **overrides
    )
    if not config.scan_layers:
        return encoder
    stacked = stack_layers(encoder.params, encoder.config.num_layers)
    return dataclasses.replace(encoder, params=stacked)


def encode_frozen(
    encoder: PretrainedBert, data: EncodedCorpus, config: ModelConfig, folder: Path | None = None
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Encodes all sentences and queries by the untrained encoder.

    Args:
        encoder: as `load_encoder` gives.
        data: whose sentences and queries they are.
        config: pooling.
        folder: where to keep sentence vectors, so that several runs on the same documents encode
            them once. Then they are never in memory together, neither while they are encoded nor
            in the result, which is memory-mapped. None = nowhere: they are in memory.

    Returns:
        Sentence vectors `[sentences, dim]`, and per split that has queries their vectors
        `[queries, dim]`, float32.

    Raises:
        InputError: the vectors cannot be kept in `folder`.
    """
    params = jax.tree.map(jnp.asarray, encoder.params)
    encode_batch = functools.partial(jit_encoder(encoder.config, config.pooling), params)

    if folder is None:
        sentences = encode(encode_batch, data.sentences, progress=ENCODING)
    else:
        # By what the vectors depend on, so that runs of another kind or dropout find them too.
        plain = dataclasses.replace(
            encoder.config, hidden_dropout=0.0, attention_dropout=0.0, remat="none"
        )
        settings = json.dumps([config.pooling, to_dict(plain)])
        body = [encoder.params[part] for part in ("embeddings", "encoder")]
        arrays = [*jax.tree.leaves(body), data.sentences.input_ids]
        kept = keep(
            folder,
            content_name([settings, *arrays, data.sentences.lengths]),
            lambda unfinished: encode_to_file(
                encode_batch,
                data.sentences,
                encoder.config.hidden_size,
                unfinished / VECTORS_FILE,
                ENCODING,
            ),
        )
        sentences = np.load(kept / VECTORS_FILE, mmap_mode="r", allow_pickle=False)
    asked = [split for split, queries in data.corpus.queries.items() if queries]
    queries = {split: data.encode_queries(split, encode_batch) for split in asked}
    return sentences, queries


def fit_table(vectors: np.ndarray, data: EncodedCorpus, config: Config) -> np.ndarray:
    """Fits the entity table to sentence vectors, starting from their means.

    Args:
        vectors: `[sentences, dim]` of an encoder that stays as it is.
        data: whose sentences they are.
        config: epochs, rate and temperature of the fit; the seed of the training.

    Returns:
        `[entities, dim]` float32.
    """
    model = config.model
    table = mean_vectors(vectors, data.sentence_entities, len(data.corpus.entities))
    batch_size = min(FIT_BATCH, len(vectors))
    training = TrainingConfig(
        steps=max(round(model.fit_epochs * len(vectors) / batch_size), 1),
        batch_size=batch_size,
        seed=config.training.seed,
        optimizer=OptimizerConfig(learning_rate=model.fit_learning_rate, weight_decay=0.0),
    )
    task = TableTask(vectors, data.sentence_entities, table, model.temperature)
    # One device: seconds of work, and any number of sentences makes a batch.
    mesh = make_mesh(MeshConfig(), jax.local_devices()[:1])
    fitted = train(task, training, mesh=mesh, show_progress=False)
    return np.asarray(fitted.params["entities"]["embedding"])


def start_word_head(encoder: PretrainedBert, kind: Literal["full", "hybrid"]) -> Params:
    """The word head that training starts from.

    It is `pretrained.start_mlm_head`. Hybrid's transform, of [f(s) ; g(e)], starts as that of the
    sum: g(e) gets a gradient from the first step, and rows are short beside hidden states.

    Args:
        encoder: loaded with its head.
        kind: whose head.

    Returns:
        Float32 parameters of `MaskedTokenHead`.
    """
    head = start_mlm_head(encoder)
    if kind == "full":
        return head
    kernel = np.concatenate([head["transform"]["kernel"]] * 2)
    return head | {"transform": head["transform"] | {"kernel": kernel}}


def like_words(table: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Scales a table so that its rows are on average as long as word vectors.

    For `Full`, where both stand in the same place: a layer normalises the sum of such a vector with
    those of position and segment, and the tied head's logits grow with it.

    Args:
        table: `[entities, dim]`.
        words: `[vocab_size, dim]`.
    """
    lengths = [np.linalg.norm(vectors, axis=1).mean() for vectors in (words, table)]
    return (table * (lengths[0] / lengths[1])).astype(np.float32)


def start_params(
    encoder: PretrainedBert, data: EncodedCorpus, config: Config, vectors: Callable[[], np.ndarray]
) -> Params:
    """What training starts from, as host arrays; all else is random.

    Args:
        encoder: as `load_encoder` gives.
        data: whose entities they are.
        config: of the run.
        vectors: gives sentence vectors `[sentences, dim]` of the untrained encoder.

    Returns:
        The encoder, the word head of Full and Hybrid, and the entity table unless it is random.
    """
    model = config.model
    params: Params = {"encoder": {part: encoder.params[part] for part in ("embeddings", "encoder")}}
    if model.kind != "dual":
        params["word_head"] = start_word_head(encoder, model.kind)
    if model.entity_init == "random":
        return params
    if model.entity_init == "mean":
        table = mean_vectors(vectors(), data.sentence_entities, len(data.corpus.entities))
    else:
        # Trained in each process: unlike machines may round it differently.
        table = broadcast_array(fit_table(vectors(), data, config))
    if model.kind == "full":
        table = like_words(table, encoder.params["embeddings"]["word"]["embedding"])
    return params | {"entities": {"embedding": with_spare_rows(table)}}


def make_task(
    config: ModelConfig,
    encoder: PretrainedBert,
    data: EncodedCorpus,
    warm_start: Callable[[], Params],
    mesh: Mesh | None = None,
) -> DualTask | FullTask:
    """The task that trains the model of a configuration, on the devices of `mesh`; one by default.

    Raises:
        InputError: Full or Hybrid, and a vocabulary without [MASK].
    """
    model = make_model(config, encoder.config, len(data.corpus.entities))
    lanes, parts = (1, 1) if mesh is None else (mesh.shape[DATA], mesh.shape[MODEL])
    if isinstance(model, Full | Hybrid):
        masking = make_masking(encoder.tokenizer, config.word_mask_rate)
        weight = config.mlm_weight
        if isinstance(model, Full):
            task = FullTask(model, data, masking, weight, config.entity_mask_rate, warm_start)
        else:
            task = HybridTask(model, data, config.negatives, masking, weight, warm_start)
    else:
        chunking = Chunking(config.chunk_texts, lanes)
        task = DualTask(model, data, config.negatives, warm_start, chunking)
    task.rules = (*task.rules, *bert_rules(encoder.config, parts))
    return task


def pretrain(
    config: Config,
    corpus: EntityCorpus,
    path: Path,
    frozen_vectors: Callable[[], np.ndarray] | None = None,
    folder: Path | None = None,
) -> tuple[RunFolder, Trained]:
    """Trains a DocEnt model, or takes an interrupted run up where it stopped.

    Args:
        config: what to train and how.
        corpus: documents, and queries of split "dev" by which the best parameters are chosen.
        path: the run folder.
        frozen_vectors: gives the untrained encoder's sentence vectors if they are known already.
        folder: where word pieces and untrained vectors of sentences are kept, memory-mapped, for
            further runs; None = in memory.

    Returns:
        The run folder, ready for `docent_jax.load`, and what training gave.

    Raises:
        InputError: an encoder that cannot be had, is too short for the texts, or lacks what Full
            or Hybrid needs of it, and what `create_run` and `train` refuse.
    """
    encoder = load_encoder(config.model)
    is_full = config.model.kind == "full"
    _check_lengths(config, encoder.config)
    tokens, vectors = (folder / TOKENS, folder / VECTORS) if folder else (None, None)
    data = tokenize_corpus(corpus, encoder.tokenizer, config.data, is_full, tokens)

    def untrained_vectors() -> np.ndarray:
        if frozen_vectors is not None:
            return frozen_vectors()
        plain = data
        if is_full:
            plain = tokenize_corpus(corpus, encoder.tokenizer, config.data, False, tokens)
        return encode_frozen(encoder, plain, config.model, vectors)[0]

    def warm_start() -> Params:
        return start_params(encoder, data, config, untrained_vectors)

    mesh = make_mesh(config.training.mesh)
    task = make_task(config.model, encoder, data, warm_start, mesh)
    run = create_run(path, PACKAGE, config, corpus.fingerprint)
    run.write_json(ENTITIES, list(corpus.entities))
    run.write_json(ENCODER, to_dict(encoder.config))
    on_main(lambda: copy_tokenizer(encoder.folder, path / TOKENIZER))
    return run, train(task, config.training, run, mesh)


def _check_lengths(config: Config, encoder: BertConfig) -> None:
    """Refuses texts that the encoder's tables of positions and segments do not hold."""
    is_full = config.model.kind == "full"
    positions = encoder.max_positions - (ENTITY_PIECES if is_full else 0)
    longest = max(config.data.max_length, config.data.longest_query)
    if longest > positions:
        of = f"the {encoder.max_positions} positions of encoder {config.model.encoder!r}"
        of += f", of which the entity takes {ENTITY_PIECES}" if is_full else ""
        raise InputError(
            f"data.max_length or data.query_length {longest} is more than {of}",
            f"Give --data.max-length and --data.query-length {positions} or less.",
        )
    if is_full and encoder.type_vocab_size < 2:
        raise InputError(
            f"encoder {config.model.encoder!r} knows one segment, DocEnt-Full has two",
            "Take an encoder of BERT's own kind, or another model.",
        )
