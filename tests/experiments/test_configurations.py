"""Configurations of all packages refuse what is out of range, in the same words."""

import pytest

import docent_jax.config as docent
import gcl_jax.config as gcl
import ltr_jax.config as ltr
import mathsim_jax.config as mathsim
from retrieval_jax.errors import InputError
from retrieval_jax.sharding import MeshConfig, make_mesh
from retrieval_jax.training import TrainingConfig


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: docent.ModelConfig(dropout=1.0),
            "model.dropout is 1.0\nGive 0 or more, less than 1.",
        ),
        (
            lambda: docent.ModelConfig(entity_mask_rate=1.5),
            "model.entity_mask_rate is 1.5\nGive more",
        ),
        (lambda: docent.ModelConfig(chunk_texts=0), "model.chunk_texts is 0\nGive 1 or more."),
        (lambda: docent.ModelConfig(mlm_weight=-1), "model.mlm_weight is -1\nGive 0 or more."),
        (lambda: gcl.ModelConfig(hidden=0), "model.hidden is 0\nGive 1 or more."),
        (lambda: gcl.ContrastConfig(temperature=0.0), "contrast.temperature is 0.0\nGive 0.0"),
        (
            lambda: gcl.AugmentationConfig(rate=2),
            "augmentation.rate is 2\nGive 0 or more, 1 at most.",
        ),
        (
            lambda: ltr.ModelConfig(dropout=-0.1),
            "model.dropout is -0.1\nGive 0 or more, less than 1.",
        ),
        (lambda: ltr.Config(epochs=0), "epochs is 0\nGive 1 or more."),
        (
            lambda: mathsim.EncoderConfig(dropout=1.0),
            "model.dropout is 1.0\nGive 0 or more, less than 1.",
        ),
        (lambda: mathsim.EncoderConfig(dropout=-0.5), "model.dropout is -0.5\nGive 0 or more"),
        (lambda: mathsim.EncoderConfig(dropout=0.0), None),
        (
            lambda: mathsim.AdaptationConfig(mask_rate=1),
            "mask_rate is 1\nGive more than 0, less than 1.",
        ),
        (lambda: mathsim.FineTuningConfig(temperature=0), "temperature is 0\nGive more than 0."),
        (lambda: mathsim.FineTuningConfig(extra_limit=0), "extra_limit is 0\nGive 1 or more."),
        (lambda: TrainingConfig(steps=0), "training.steps is 0\nGive 1 or more."),
        (lambda: TrainingConfig(prefetch=-1), "training.prefetch is -1\nGive 0 or more."),
        (lambda: make_mesh(MeshConfig(model=0)), "training.mesh.model is 0\nGive 1 or more."),
    ],
)
def test_configurations_refuse_in_the_same_words(make, message):
    if message is None:
        make()
        return
    with pytest.raises(InputError) as refused:
        make()
    assert str(refused.value).startswith(message)
