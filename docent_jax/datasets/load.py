"""The corpus that a configuration names."""

from pathlib import Path

from docent_jax.config import DataConfig
from docent_jax.datasets import python_api
from docent_jax.datasets.corpus import EntityCorpus


def load_documents(config: DataConfig, data_dir: Path) -> EntityCorpus:
    """Builds the documents that a configuration names below `data_dir`, or finds them there.

    Raises:
        InputError: a package that is not installed or has no docstrings.
    """
    corpus = python_api.load_corpus(python_api.prepare(config.packages, data_dir))
    return corpus.subset(config.entities, config.sentences_per_entity)
