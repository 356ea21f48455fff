"""A small world of entities for tests: each has words of its own, so that it can be learnt."""

import numpy as np

from docent_jax.config import Config, DataConfig, ModelConfig
from docent_jax.datasets.corpus import EntityCorpus, Query
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.sharding import MeshConfig
from retrieval_jax.training import TrainingConfig

TOPICS = ("fourier", "matrix", "random", "polynomial", "integral", "sparse", "image", "graph")
FILLERS = ("compute", "the", "of", "a", "given", "array", "return", "value", "with", "and")


def toy_corpus(sentences_per_entity: int = 8) -> EntityCorpus:
    """Eight entities; every sentence and query names its topic among filler words."""
    rng = np.random.default_rng(0)

    def text(topic: str) -> str:
        words = [*rng.choice(FILLERS, 5), topic]
        return " ".join(rng.permutation(words))

    entities = tuple(f"lib.{topic}" for topic in TOPICS)
    owners = np.repeat(np.arange(len(TOPICS), dtype=np.int32), sentences_per_entity)
    return EntityCorpus(
        entities=entities,
        sentences=tuple(text(TOPICS[owner]) for owner in owners),
        sentence_entities=owners,
        queries={
            split: tuple(Query(f"{split}{i}", text(t), (i,)) for i, t in enumerate(TOPICS))
            for split in ("dev", "test")
        },
    )


def toy_config(encoder: str, **changes) -> Config:
    """Trains in seconds on a tiny encoder folder."""
    training = {
        "steps": 120,
        "batch_size": 16,
        "log_every": 40,
        "evaluate_every": 40,
        "checkpoint_every": 40,
        "mesh": MeshConfig(data=8),
        "optimizer": OptimizerConfig(learning_rate=3e-3, scaled=(("^entities/", 10.0),)),
    }
    model = {"encoder": encoder, "fit_epochs": 2.0, "dropout": 0.0}
    for name, value in changes.items():
        (training if name in TrainingConfig.__dataclass_fields__ else model)[name] = value
    return Config(
        data=DataConfig(max_length=16),
        model=ModelConfig(**model),
        training=TrainingConfig(**training),
    )
