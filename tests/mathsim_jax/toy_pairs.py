"""A tiny world: texts about a few subjects, alike if they share one; a BERT knows the words."""

import dataclasses

import numpy as np

from mathsim_jax.config import (
    ADAPTATION_PRESETS,
    FINE_TUNING_PRESETS,
    AdaptationConfig,
    EncoderConfig,
    FineTuningConfig,
)
from mathsim_jax.datasets.pairs import Pairs
from retrieval_jax.optimizers import OptimizerConfig

SUBJECTS = ("graph", "group", "field", "curve")
FILLERS = ("finite", "the", "proof", "of", "on", "about", "every", "new")


def toy_texts(subject: str, count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [
        " ".join(rng.permutation([subject, *rng.choice(FILLERS, 3, replace=False)]).tolist())
        for _ in range(count)
    ]


def toy_pairs(seed: int = 0, per_subject: int = 16) -> Pairs:
    """Each text with one of its subject and one of another, groups of four pairs."""
    rng = np.random.default_rng(seed)
    texts = {s: toy_texts(s, per_subject, seed + i) for i, s in enumerate(SUBJECTS)}
    rows = []
    for subject, of_subject in texts.items():
        others = [other for other in SUBJECTS if other != subject]
        for i, text in enumerate(of_subject):
            group = f"{subject} {i // 2}"
            like = of_subject[(i + 1) % per_subject]
            unlike = texts[str(rng.choice(others))][i]
            rows += [(text, like, 1, group), (text, unlike, 0, group)]
    first, second, labels, groups = zip(*rows, strict=True)
    return Pairs(first, second, np.array(labels, np.int32), groups)


def fine_tuning_config(encoder: str, steps: int = 30, **changes) -> FineTuningConfig:
    smoke = FINE_TUNING_PRESETS["smoke"]
    training = dataclasses.replace(
        smoke.training,
        steps=steps,
        evaluate_every=10,
        checkpoint_every=10,
        optimizer=OptimizerConfig(learning_rate=5e-3),
    )
    model = EncoderConfig(encoder=encoder, dropout=0.0)
    return dataclasses.replace(smoke, model=model, max_length=16, training=training, **changes)


def adaptation_config(encoder: str, steps: int = 30, **changes) -> AdaptationConfig:
    smoke = ADAPTATION_PRESETS["smoke"]
    training = dataclasses.replace(
        smoke.training,
        steps=steps,
        evaluate_every=10,
        checkpoint_every=10,
        optimizer=OptimizerConfig(learning_rate=5e-3),
    )
    start = dataclasses.replace(smoke, model=EncoderConfig(encoder=encoder), new_commands=0)
    return dataclasses.replace(start, max_length=16, training=training, dev_share=0.2, **changes)
