"""Using a trained DocEnt model: `load` a run folder, then encode texts and rank entities."""

import copy
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from docent_jax.config import Config
from docent_jax.data import tokenize_after_entities
from docent_jax.model import (
    entity_biases,
    entity_factors,
    entity_vectors,
    jit_text_encoder,
    make_model,
    text_factors,
)
from docent_jax.pretraining import ENCODER, ENTITIES, PACKAGE, TOKENIZER
from retrieval_jax.bert import BertConfig
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.config import from_dict
from retrieval_jax.encoding import encode
from retrieval_jax.errors import InputError, check_texts
from retrieval_jax.huggingface import save_bert
from retrieval_jax.logs import print_ranked
from retrieval_jax.losses import l2_normalize
from retrieval_jax.params import Params, fingerprint
from retrieval_jax.pipeline import tokenize
from retrieval_jax.pretrained import copy_tokenizer, load_tokenizer
from retrieval_jax.runs import open_run
from retrieval_jax.search import top_k


class RankedEntity(NamedTuple):
    """One line of an answer.

    Attributes:
        entity: its name.
        score: s(e, s), a cosine; of DocEnt-Full, whose P(e | s) is a softmax of logits, the logit.
            An entity of `add_entities` has a bias besides.
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
        entity_vectors: `[entities, dim]` float32; of unit length, but for DocEnt-Full, whose rows
            are as long as training left them.
        factors: `[entities, columns]`: its products with `text_factors` are the scores.
    """

    def __init__(self, path: Path | str) -> None:
        run, self.config = open_run(path, PACKAGE, Config)
        self._is_full = self.config.model.kind == "full"
        entities = tuple(run.read_json(ENTITIES))
        bert = from_dict(BertConfig, run.read_json(ENCODER), str(run.path / ENCODER))
        self._bert, self._tokenizer_folder = bert, run.path / TOKENIZER
        self._tokenizer = load_tokenizer(self._tokenizer_folder, bert)
        self._params: Params = restore_params(run.path)
        model = make_model(self.config.model, bert, len(entities))
        self._encode_batch = functools.partial(jit_text_encoder(model), self._params)
        table = entity_vectors(self._params, len(entities))
        self._set_entities(entities, table, entity_biases(self._params, len(entities)))

    def _set_entities(
        self, names: tuple[str, ...], vectors: jax.Array, biases: jax.Array | None
    ) -> None:
        self.entities = names
        vectors = vectors if self._is_full else l2_normalize(vectors)
        self.entity_vectors = np.asarray(vectors)
        self._biases = biases
        self.factors = entity_factors(vectors, biases)

    @property
    def fingerprint(self) -> str:
        """Names the encoder by its parameters; vectors of one name can be compared."""
        return f"{PACKAGE} {fingerprint(self._params)}"

    def encode(self, texts: Sequence[str], sentences: bool = False) -> np.ndarray:
        """Encodes texts as vectors that are compared with those of entities.

        Args:
            texts: one or more.
            sentences: they are sentences of documents, cut to the `max_length` of training; else
                queries, cut to its `query_length`.

        Returns:
            float32 `[texts, dim]`: f(s), of unit length; of DocEnt-Full the transformed hidden
            state at the place of the masked entity.

        Raises:
            InputError: no text, or something that is no text.
        """
        check_texts("texts to encode", texts)
        tokenize_texts = tokenize_after_entities if self._is_full else tokenize
        data = self.config.data
        max_length = data.max_length if sentences else data.longest_query
        table = tokenize_texts(texts, self._tokenizer, max_length)
        vectors = encode(self._encode_batch, table)
        return vectors if self._is_full else np.asarray(l2_normalize(jnp.asarray(vectors)))

    def export_encoder(self, folder: Path) -> None:
        """Writes sentence encoder and tokenizer as a BERT folder that transformers opens.

        DocEnt-Full's has its MLM head too; Hybrid's head needs entities, so it stays behind.
        """
        params = self._params["encoder"]
        if self._is_full:
            params = params | {"mlm_head": self._params["word_head"]}
        save_bert(folder, self._bert, params)
        copy_tokenizer(self._tokenizer_folder, folder)

    def score(self, queries: Sequence[str]) -> np.ndarray:
        """Scores all entities for queries in plain text, float32 `[queries, entities]`.

        Raises:
            InputError: as `encode`.
        """
        return self._scores(self.encode(queries))

    def tag_scores(self, tags: Sequence[str]) -> np.ndarray:
        """Scores by which tags are ranked for each entity, float32 `[entities, tags]`.

        They are the cosines of `score`; of DocEnt-Full log P(e | t), the softmax over all entities:
        logits of one text compare entities, those of different texts are not on one scale.

        Args:
            tags: texts.

        Raises:
            InputError: as `encode`.
        """
        scores = self.score(tags)
        return np.asarray(jax.nn.log_softmax(scores, axis=1) if self._is_full else scores).T

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
        scores, indices = top_k(self.text_factors(self.encode(queries)), self.factors, k)
        return [
            [RankedEntity(self.entities[i], float(s)) for i, s in zip(row, row_scores, strict=True)]
            for row, row_scores in zip(np.asarray(indices), np.asarray(scores), strict=True)
        ]

    def text_factors(self, encoded: np.ndarray) -> jax.Array:
        """What is multiplied with `factors`, `[texts, columns]`, of what `encode` gives."""
        return text_factors(jnp.asarray(encoded), self._biases is not None)

    def _scores(self, encoded: np.ndarray) -> np.ndarray:
        return np.asarray(self.text_factors(encoded)) @ np.asarray(self.factors).T

    def add_entities(self, texts: Mapping[str, Sequence[str]]) -> "EntityRanker":
        """Adds entities that were unknown in training, from their texts alone.

        Nothing is trained: an entity's vector is the mean of its encoded texts, each of unit
        length, as long as the known vectors are on average. A bias makes it score on its own texts
        what the best known entity does, on average: what all encoded texts have in common would
        otherwise put new entities above or below all known ones.

        Args:
            texts: name of a new entity -> its texts, one or more.

        Returns:
            A ranker of the known entities and, after them, the new ones.

        Raises:
            InputError: nothing to add, a known name, or texts that `encode` refuses.
        """
        known = sorted(set(texts) & set(self.entities))
        if not texts or known:
            raise InputError(
                f"entities to add: {', '.join(known)[:80] or 'none'}",
                "Give one or more names that are not known yet, each with its texts.",
            )
        encoded = [self.encode(of_entity, sentences=True) for of_entity in texts.values()]
        means = [np.asarray(l2_normalize(jnp.asarray(of))).mean(axis=0) for of in encoded]
        length = np.linalg.norm(self.entity_vectors, axis=1).mean()
        vectors = length * np.asarray(l2_normalize(jnp.asarray(np.stack(means))))
        biases = jnp.zeros(len(self.entities)) if self._biases is None else self._biases
        best_known = [self._scores(of_entity).max(axis=1).mean() for of_entity in encoded]
        own = [(of @ vector).mean() for of, vector in zip(encoded, vectors, strict=True)]
        biases = jnp.concatenate([biases, jnp.asarray(np.subtract(best_known, own), jnp.float32)])
        extended = copy.copy(self)
        table = jnp.asarray(np.concatenate([self.entity_vectors, vectors]))
        extended._set_entities((*self.entities, *texts), table, biases)
        return extended


def load(path: Path | str) -> EntityRanker:
    """Loads a run folder for inference; the training data is not needed.

    Of several processes all must call it.

    Raises:
        InputError: no such folder, no DocEnt run in it, or a run without checkpoint.
    """
    return EntityRanker(path)


def print_answers(queries: Sequence[str], answers: Sequence[Sequence[RankedEntity]]) -> None:
    """Prints a table of ranked entities for each query."""
    for query, entities in zip(queries, answers, strict=True):
        print_ranked(query, RankedEntity._fields, entities)
