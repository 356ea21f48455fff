"""Pre-trained runs as the start of fine-tuning for tags."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docent_jax.config import Config
from docent_jax.data import tokenize_after_entities
from docent_jax.model import entity_vectors
from docent_jax.pretraining import ENCODER, ENTITIES, PACKAGE, TOKENIZER
from docent_jax.tag_classifier import ClassifierTagTask
from docent_jax.tag_evaluation import TagSplit
from docent_jax.tag_task import DevMeasures, SoftmaxTagTask, TagModel, TagTask, TagTuningConfig
from retrieval_jax.bert import BertConfig
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.config import from_dict
from retrieval_jax.errors import InputError
from retrieval_jax.params import Params
from retrieval_jax.pipeline import TokenTable, tokenize
from retrieval_jax.pretrained import load_tokenizer
from retrieval_jax.runs import open_run


@dataclasses.dataclass(frozen=True, eq=False)
class TagRun:
    """A pre-trained run, with the vocabulary as its model reads it.

    Attributes:
        path: run folder.
        config: of the run.
        bert: the encoder's architecture.
        encoder: its parameters.
        table: g(e) `[entities, dim]`.
        tags: the tokenised vocabulary.
    """

    path: Path
    config: Config
    bert: BertConfig
    encoder: Params
    table: np.ndarray
    tags: TokenTable

    def model(self) -> TagModel:
        """The encoder and the table, as fine-tuning starts from them."""
        pooling = self.config.model.pooling
        return TagModel(self.bert, pooling, self.encoder, self.table, self.tags)

    def task(
        self,
        votes: np.ndarray,
        split: TagSplit,
        tuning: TagTuningConfig,
        dev_measures: DevMeasures,
    ) -> TagTask:
        """The task that fine-tunes the run's model; arguments as `TagTask`.

        Args:
            votes: int `[entities, tags]`.
            split: which films and tags.
            tuning: how.
            dev_measures: by which to choose.
        """
        task = ClassifierTagTask if self.config.model.kind == "full" else SoftmaxTagTask
        return task(self.model(), votes, split, tuning, dev_measures)


def load_tag_run(path: Path, entities: Sequence[str], tags: Sequence[str]) -> TagRun:
    """Loads a run folder for fine-tuning.

    Args:
        path: run folder of any DocEnt model.
        entities: names, whose votes will be given.
        tags: the vocabulary.

    Raises:
        InputError: no such run, or one of other entities.
    """
    run, config = open_run(path, PACKAGE, Config)
    if tuple(run.read_json(ENTITIES)) != tuple(entities):
        raise InputError(
            f"{path} was trained on other entities than the {len(entities)} of its data now",
            "Prepare the same data again, or train again.",
        )
    bert = from_dict(BertConfig, run.read_json(ENCODER), str(run.path / ENCODER))
    tokenizer = load_tokenizer(run.path / TOKENIZER, bert)
    tokenize_texts = tokenize_after_entities if config.model.kind == "full" else tokenize
    params = restore_params(run.path)
    return TagRun(
        run.path,
        config,
        bert,
        params["encoder"],
        np.asarray(entity_vectors(params, len(entities))),
        tokenize_texts(tags, tokenizer, config.data.max_length),
    )
