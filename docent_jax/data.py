"""From entity documents to arrays: tokenised sentences and queries."""

import dataclasses

import numpy as np
from transformers import PreTrainedTokenizerBase

from docent_jax.datasets.corpus import EntityCorpus
from retrieval_jax.encoding import EncodeBatch, encode
from retrieval_jax.pipeline import TokenTable, tokenize


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
    corpus: EntityCorpus, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> EncodedCorpus:
    """Tokenises sentences and queries, cut to `max_length` word pieces."""
    return EncodedCorpus(
        corpus,
        tokenize(corpus.sentences, tokenizer, max_length),
        {
            split: tokenize([query.text for query in queries], tokenizer, max_length)
            for split, queries in corpus.queries.items()
        },
    )
