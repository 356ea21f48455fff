"""Using a trained DocEnt model: `load` a run folder, then encode texts and rank entities."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from docent_jax.config import Config
from docent_jax.model import entity_vectors
from docent_jax.pretraining import ENCODER, ENTITIES, PACKAGE, TOKENIZER
from retrieval_jax.bert import BertConfig
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.config import from_dict
from retrieval_jax.encoding import encode, jit_encoder
from retrieval_jax.errors import InputError
from retrieval_jax.huggingface import save_bert
from retrieval_jax.losses import l2_normalize
from retrieval_jax.params import Params
from retrieval_jax.pipeline import tokenize
from retrieval_jax.pretrained import copy_tokenizer, load_tokenizer
from retrieval_jax.runs import open_run
from retrieval_jax.search import top_k


class RankedEntity(NamedTuple):
    """One line of an answer.

    Attributes:
        entity: its name.
        score: s(e, s), a cosine.
    """

    entity: str
    score: float


class EntityRanker:
    """A trained DocEnt model in memory; made by `load`.

    Args:
        path: run folder.

    Attributes:
        config: configuration of the run.
        entities: names.
        entity_vectors: `[entities, dim]` float32, of unit length.
    """

    def __init__(self, path: Path | str) -> None:
        run, self.config = open_run(path, PACKAGE, Config)
        self.entities: tuple[str, ...] = tuple(run.read_json(ENTITIES))
        bert = from_dict(BertConfig, run.read_json(ENCODER), str(run.path / ENCODER))
        self._bert, self._tokenizer_folder = bert, run.path / TOKENIZER
        self._tokenizer = load_tokenizer(self._tokenizer_folder, bert)
        params = restore_params(run.path)
        self._encoder: Params = params["encoder"]
        run_encoder = jit_encoder(bert, self.config.model.pooling)
        self._encode_batch = functools.partial(run_encoder, self._encoder)
        table = l2_normalize(entity_vectors(params, len(self.entities)))
        self._table: jax.Array = table
        self.entity_vectors = np.asarray(table)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Encodes texts as f(s), of unit length.

        Args:
            texts: cut to the `max_length` of training.

        Returns:
            float32 `[texts, dim]`.

        Raises:
            InputError: no text, or something that is no text.
        """
        wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
        if isinstance(texts, str) or not texts or wrong is not None:
            what = "none" if not texts else repr(texts if wrong is None else texts[wrong])
            raise InputError(f"texts to encode: {what[:80]}", "Give a list of one or more strings.")
        table = tokenize(texts, self._tokenizer, self.config.data.max_length)
        vectors = encode(self._encode_batch, table)
        return np.asarray(l2_normalize(jnp.asarray(vectors)))

    def export_encoder(self, folder: Path) -> None:
        """Writes sentence encoder and tokenizer as a BERT folder that transformers opens."""
        save_bert(folder, self._bert, self._encoder)
        copy_tokenizer(self._tokenizer_folder, folder)

    def rank(self, queries: Sequence[str], k: int = 10) -> list[list[RankedEntity]]:
        """Ranks entities for queries in plain text.

        Args:
            queries: texts.
            k: entities for each; all if there are fewer.

        Returns:
            For each query the best entities, best first.

        Raises:
            InputError: as `encode`.
        """
        scores, indices = top_k(self.encode(queries), self._table, k)
        return [
            [RankedEntity(self.entities[i], float(s)) for i, s in zip(row, row_scores, strict=True)]
            for row, row_scores in zip(np.asarray(indices), np.asarray(scores), strict=True)
        ]


def load(path: Path | str) -> EntityRanker:
    """Loads a run folder for inference; the training data is not needed.

    Raises:
        InputError: no such folder, no DocEnt run in it, or a run without checkpoint.
    """
    return EntityRanker(path)


def print_answers(queries: Sequence[str], answers: Sequence[Sequence[RankedEntity]]) -> None:
    """Prints a table of ranked entities for each query."""
    console = Console()
    for query, entities in zip(queries, answers, strict=True):
        table = Table(title=query, title_justify="left")
        table.add_column("rank", justify="right")
        table.add_column("entity")
        table.add_column("score", justify="right")
        for rank, entity in enumerate(entities, 1):
            table.add_row(str(rank), entity.entity, f"{entity.score:.4f}")
        console.print(table)
