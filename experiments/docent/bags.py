"""Encoders whose bags of sentences DocEnt is compared with: that of the runs, and others.

The runs' own encoder is as they start from it, in layers and pooling. Another one (`--bags`) is
whole, and reads a text by the mean of its word pieces' vectors, as the paper's BoS-BERT* of section
5.4.3: [CLS] says little before anything is fine-tuned. Rankings and tags follow one rule.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import docent_jax
from docent_jax.config import ModelConfig
from docent_jax.data import EncodedCorpus, tokenize_corpus
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.pretraining import TOKENS, VECTORS, encode_frozen, load_encoder
from retrieval_jax.errors import InputError
from retrieval_jax.pretrained import PretrainedBert


@dataclasses.dataclass(frozen=True, eq=False)
class Bag:
    """An untrained encoder and what it makes of all texts.

    Attributes:
        model: how texts are read: layers, pooling.
        encoder: the encoder.
        data: the texts as its word pieces.
        sentences: `[sentences, dim]`, memory-mapped.
        queries: split -> `[queries, dim]`.
    """

    model: ModelConfig
    encoder: PretrainedBert
    data: EncodedCorpus
    sentences: np.ndarray
    queries: dict[str, np.ndarray]


def make_bag(
    config: docent_jax.Config, corpus: EntityCorpus, data_dir: Path, other: str | None = None
) -> Bag:
    """Encodes all sentences and queries, or finds them encoded below `data_dir`.

    Args:
        config: of the runs.
        corpus: documents and queries.
        data_dir: where word pieces and vectors are kept.
        other: folder, package or hub name of another encoder; None = that of the runs.

    Raises:
        InputError: an encoder that cannot be had, or a folder that cannot be written.
    """
    model = dataclasses.replace(config.model, kind="dual")
    if other is not None:
        model = dataclasses.replace(model, encoder=other, layers=None, pooling="mean")
    encoder = load_encoder(model)
    data = tokenize_corpus(corpus, encoder.tokenizer, config.data, folder=data_dir / TOKENS)
    sentences, queries = encode_frozen(encoder, data, model, data_dir / VECTORS)
    return Bag(model, encoder, data, sentences, queries)


def bag_names(encoders: Sequence[str]) -> list[str]:
    """What tables call the encoders of bags of sentences: the last part of path or hub name.

    Raises:
        InputError: two would be called the same.
    """
    names = [Path(encoder).name for encoder in encoders]
    repeated = [encoder for encoder in encoders if names.count(Path(encoder).name) > 1]
    if repeated:
        raise InputError(
            f"--bags {' '.join(repeated)} would have one name in the table",
            "Give each once; rename folders of the same name, or compare them in two calls.",
        )
    return names
