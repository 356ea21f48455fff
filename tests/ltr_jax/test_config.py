import dataclasses

import pytest

from ltr_jax.config import PRESETS, Config, DataConfig, ModelConfig, SamplingConfig
from retrieval_jax.config import from_dict, to_dict
from retrieval_jax.errors import InputError


@pytest.mark.parametrize("name", PRESETS)
def test_presets_round_trip(name):
    assert from_dict(Config, to_dict(PRESETS[name])) == PRESETS[name]


def test_epochs_give_steps_evaluations_and_checkpoints():
    training = PRESETS["small"].with_steps(5308).training
    assert training.steps == PRESETS["small"].epochs * 41
    assert training.evaluate_every == training.checkpoint_every == 41
    assert PRESETS["smoke"].with_steps(5308) == PRESETS["smoke"]
    tiny = PRESETS["small"].with_steps(3).training  # fewer than a batch: the loop refuses it
    assert tiny.evaluate_every == 1


def test_steps_that_epochs_decide_are_refused():
    small = PRESETS["small"]
    for name in ("steps", "evaluate_every", "checkpoint_every"):
        training = dataclasses.replace(small.training, **{name: 7})
        with pytest.raises(InputError, match=rf"training\.{name} is 7, but epochs is 5") as error:
            dataclasses.replace(small, training=training).refuse_idle_steps()
        assert "--epochs None" in error.value.remedy
        dataclasses.replace(small, training=training, epochs=None).refuse_idle_steps()
    for preset in PRESETS.values():
        preset.refuse_idle_steps()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ModelConfig(filters=0), r"model\.filters is 0"),
        (lambda: ModelConfig(dropout=1.0), r"model\.dropout is 1\.0"),
        (lambda: ModelConfig(start="similarity", layers=1), "similarity, with interaction sum"),
        (lambda: ModelConfig(start="similarity", interaction="cosine"), "cosine and 2 layers"),
        (lambda: SamplingConfig(irrelevant=0), r"sampling\.irrelevant is 0"),
        (lambda: SamplingConfig(chunk_queries=0), r"sampling\.chunk_queries is 0"),
        (lambda: SamplingConfig(partly_relevant=2, documents_per_query=3), "partly_relevant is 2"),
        (lambda: Config(epochs=0), "epochs is 0"),
        (lambda: Config(data=DataConfig(word_scale=0.0)), r"data\.word_scale is 0\.0"),
        (lambda: Config(data=DataConfig(category_scale=-1)), r"data\.category_scale is -1"),
        (lambda: Config(data=DataConfig(max_categories=-1)), r"data\.max_categories is -1"),
        (lambda: Config(data=DataConfig(max_words=3)), r"data\.max_words is 3"),
        (
            lambda: dataclasses.replace(PRESETS["small"], data=DataConfig(corpus="{language}.txt")),
            r"data\.corpus is \{language\}\.txt, but word_vectors\.method pairs",
        ),
        (lambda: dataclasses.replace(PRESETS["paper"], epochs=-1), "epochs is -1"),
    ],
)
def test_values_out_of_range_are_refused(make, problem):
    with pytest.raises(InputError, match=problem):
        make()
