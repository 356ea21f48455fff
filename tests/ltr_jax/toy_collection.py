"""A small collection that can be learned: a query's topic names its documents' words."""

import dataclasses

import numpy as np

from ltr_jax.config import Config, DataConfig, ModelConfig, SamplingConfig
from ltr_jax.data import Vectors
from ltr_jax.datasets.collection import Collection, Texts, Topics
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.training import TrainingConfig
from retrieval_jax.word_vectors import WordVectors

TOPICS, TEXTS = 8, 64


def toy_collection(seed=0):
    """Query i has document i (relevance 2) and the split's others of its topic (1).

    Those of the last topic have no others. Documents from 48 on are relevant in dev and test only.
    """
    rng = np.random.default_rng(seed)

    def texts(language, prefix):
        words, categories = [], []
        for i in range(TEXTS):
            fillers = [f"{prefix}filler{n}" for n in rng.integers(0, 12, rng.integers(0, 5))]
            topic = [f"{prefix}topic{i % TOPICS}"] * int(rng.integers(2, 5))
            words.append(" ".join(rng.permutation([*topic, *fillers])))
            categories.append((f"c{i % TOPICS}", f"general{i % 3}"))
        ids = tuple(f"{prefix}{i}" for i in range(TEXTS))
        return Texts(language, ids, tuple(words), tuple(categories))

    queries, documents = texts("en", "q"), texts("de", "d")
    splits = {}
    for split, rows in {"train": range(48), "dev": range(48, 56), "test": range(56, 64)}.items():
        qrels, irrelevant = {}, {}
        for i in rows:
            near = range(48) if split == "train" else range(48, TEXTS)
            same = [j for j in near if j % TOPICS == i % TOPICS != TOPICS - 1 and j != i]
            qrels[f"q{i}"] = {f"d{i}": 2} | {f"d{j}": 1 for j in same}
            others = [j for j in rng.permutation(TEXTS) if j % TOPICS != i % TOPICS]
            irrelevant[f"q{i}"] = tuple(f"d{j}" for j in others[:40])
        splits[split] = Topics(tuple(qrels), qrels, {} if split == "train" else irrelevant)
    edges = tuple((f"c{i}", f"general{i % 3}") for i in range(TOPICS))
    return Collection("toy en-de", queries, documents, splits, edges)


def toy_vectors(seed=0):
    rng = np.random.default_rng(seed)

    def vectors(names, dim):
        return WordVectors(tuple(names), rng.normal(size=(len(names), dim)).astype(np.float32))

    def words(prefix):
        return [f"{prefix}topic{i}" for i in range(TOPICS)] + [
            f"{prefix}filler{i}" for i in range(9)
        ]

    categories = [f"c{i}" for i in range(TOPICS)] + [f"general{i}" for i in range(3)]
    return Vectors(vectors(words("q"), 13), vectors(words("d"), 13), vectors(categories, 6))


def toy_config(features="text+meta", objective="hinge", steps=120, **changes):
    model = {"filters": 16, "window": 2, "category_filters": 8, "layers": 2, "hidden": 32}
    model |= {"dropout": 0.1}
    training = {"batch_size": 16, "log_every": 20, "evaluate_every": 40, "checkpoint_every": 40}
    optimizer = OptimizerConfig(learning_rate=1e-2, weight_decay=0.0)
    return Config(
        data=DataConfig(max_words=12),
        model=ModelConfig(
            features=features,
            **model | {k: v for k, v in changes.items() if k in _names(ModelConfig)},
        ),
        sampling=SamplingConfig(objective=objective, documents_per_query=3),
        epochs=None,
        dev_difficulty=40,
        training=TrainingConfig(
            steps=steps,
            best_measure="nDCG",
            optimizer=optimizer,
            **training | {k: v for k, v in changes.items() if k in _names(TrainingConfig)},
        ),
    )


def _names(config_class):
    return {field.name for field in dataclasses.fields(config_class)}
