"""From entity documents to arrays: tokenised sentences and queries."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from docent_jax.config import DataConfig
from docent_jax.datasets.corpus import EntityCorpus
from retrieval_jax.encoding import EncodeBatch, encode
from retrieval_jax.masking import check_mask_token
from retrieval_jax.pipeline import TokenTable, tokenize

# Pieces that DocEnt-Full puts before a text: the place of the entity and [SEP].
ENTITY_PIECES = 2


@dataclasses.dataclass(frozen=True)
class EncodedCorpus:
    """An `EntityCorpus` as word pieces.

    Attributes:
        corpus: the texts.
        sentences: one row a sentence.
        queries: split -> one row a query.
    """

    corpus: EntityCorpus
    sentences: TokenTable
    queries: dict[str, TokenTable]

    @property
    def sentence_entities(self) -> np.ndarray:
        """int32 `[sentences]`, the entity of each sentence."""
        return self.corpus.sentence_entities

    def encode_queries(self, split: str, encode_batch: EncodeBatch) -> np.ndarray:
        """Encodes a split's queries, `[queries, dim]` float32."""
        return encode(encode_batch, self.queries[split])


def tokenize_corpus(
    corpus: EntityCorpus,
    tokenizer: PreTrainedTokenizerBase,
    config: DataConfig,
    entity_places: bool = False,
    folder: Path | None = None,
) -> EncodedCorpus:
    """Tokenises sentences and queries, cut to `max_length` and `query_length` word pieces.

    With `entity_places` each stands after the place of its entity, as `tokenize_after_entities`
    gives it to DocEnt-Full. With `folder` the sentences are kept there (`pipeline.tokenize`).

    Raises:
        InputError: `entity_places`, and a vocabulary without [MASK].
    """
    tokenize_texts = tokenize_after_entities if entity_places else tokenize
    return EncodedCorpus(
        corpus,
        tokenize_texts(corpus.sentences, tokenizer, config.max_length, folder),
        {
            split: tokenize_texts(
                [query.text for query in queries], tokenizer, config.longest_query
            )
            for split, queries in corpus.queries.items()
        },
    )


def tokenize_after_entities(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    folder: Path | None = None,
) -> TokenTable:
    """Tokenises texts as `[CLS] [MASK] [SEP] text [SEP]`, `max_length` and two pieces at most.

    `folder` as in `pipeline.tokenize`.

    Raises:
        InputError: a vocabulary without [MASK].
    """
    check_mask_token(tokenizer)
    before = f"{tokenizer.mask_token}{tokenizer.sep_token}"
    marked = [before + text for text in texts]
    return tokenize(marked, tokenizer, max_length + ENTITY_PIECES, folder)
