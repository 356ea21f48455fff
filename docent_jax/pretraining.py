"""Pre-training a DocEnt model: from a configuration and documents to a run folder."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from docent_jax.baselines import mean_vectors
from docent_jax.config import Config, ModelConfig
from docent_jax.data import EncodedCorpus, tokenize_corpus
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.model import Dual, with_spare_rows
from docent_jax.task import DualTask, TableTask
from retrieval_jax.bert import stack_layers
from retrieval_jax.config import to_dict
from retrieval_jax.encoding import encode, jit_encoder
from retrieval_jax.errors import InputError
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.params import Params
from retrieval_jax.pretrained import PretrainedBert, copy_tokenizer, load_pretrained
from retrieval_jax.runs import RunFolder, create_run
from retrieval_jax.sharding import MeshConfig, make_mesh
from retrieval_jax.training import Trained, TrainingConfig, train

PACKAGE = "docent_jax"
FIT_BATCH = 256
TOKENIZER, ENCODER, ENTITIES = "tokenizer", "encoder.json", "entities.json"


def load_encoder(config: ModelConfig) -> PretrainedBert:
    """Loads the encoder that a configuration starts from."""
    overrides = {name: getattr(config, name) for name in ("dtype", "remat", "scan_layers")}
    if config.dropout is not None:
        overrides |= {"hidden_dropout": config.dropout, "attention_dropout": config.dropout}
    encoder = load_pretrained(config.encoder, config.layers, **overrides)
    if not config.scan_layers:
        return encoder
    stacked = stack_layers(encoder.params, encoder.config.num_layers)
    return dataclasses.replace(encoder, params=stacked)


def encode_frozen(
    encoder: PretrainedBert, data: EncodedCorpus, config: ModelConfig
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Encodes all sentences and queries by the untrained encoder.

    Returns:
        Sentence vectors `[sentences, dim]`, and per split query vectors `[queries, dim]`, float32.
    """
    params = jax.tree.map(jnp.asarray, encoder.params)
    encode_batch = functools.partial(jit_encoder(encoder.config, config.pooling), params)
    sentences = encode(encode_batch, data.sentences, progress="encoding sentences")
    queries = {split: data.encode_queries(split, encode_batch) for split in data.queries}
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
    mesh = make_mesh(MeshConfig(), jax.devices()[:1])
    fitted = train(task, training, mesh=mesh, show_progress=False)
    return np.asarray(fitted.params["entities"]["embedding"])


def pretrain(
    config: Config,
    corpus: EntityCorpus,
    path: Path,
    frozen_vectors: Callable[[], np.ndarray] | None = None,
) -> tuple[RunFolder, Trained]:
    """Trains DocEnt-Dual, or takes an interrupted run up where it stopped.

    Args:
        config: what to train and how.
        corpus: documents, and queries of split "dev" by which the best parameters are chosen.
        path: the run folder.
        frozen_vectors: gives the untrained encoder's sentence vectors if they are known already.

    Returns:
        The run folder, ready for `docent_jax.load`, and what training gave.

    Raises:
        InputError: an encoder that cannot be had or is too short for `max_length`, and what
            `create_run` and `train` refuse.
    """
    encoder = load_encoder(config.model)
    positions = encoder.config.max_positions
    if config.data.max_length > positions:
        raise InputError(
            f"data.max_length {config.data.max_length} is more than the {positions} positions of"
            f" encoder {config.model.encoder!r}",
            f"Give --data.max-length {positions} or less.",
        )
    data = tokenize_corpus(corpus, encoder.tokenizer, config.data.max_length)
    run = create_run(path, PACKAGE, config, corpus.fingerprint)
    run.write_json(ENTITIES, list(corpus.entities))
    run.write_json(ENCODER, to_dict(encoder.config))
    copy_tokenizer(encoder.folder, path / TOKENIZER)

    def warm_start() -> Params:
        if config.model.entity_init == "random":
            return {"encoder": encoder.params}
        if frozen_vectors is None:
            vectors, _ = encode_frozen(encoder, data, config.model)
        else:
            vectors = frozen_vectors()
        if config.model.entity_init == "mean":
            table = mean_vectors(vectors, data.sentence_entities, len(corpus.entities))
        else:
            table = fit_table(vectors, data, config)
        return {"encoder": encoder.params, "entities": {"embedding": with_spare_rows(table)}}

    settings = config.model
    model = Dual(
        encoder.config,
        len(corpus.entities),
        settings.pooling,
        settings.temperature,
        settings.learn_temperature,
    )
    task = DualTask(model, data, settings.negatives, warm_start)
    return run, train(task, config.training, run)
