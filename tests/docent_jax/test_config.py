"""Presets round trip and hold what the paper says."""

import json

import pytest

from docent_jax.config import PRESETS, Config
from retrieval_jax.config import from_dict, to_dict


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name):
    assert from_dict(Config, json.loads(json.dumps(to_dict(PRESETS[name])))) == PRESETS[name]


def test_paper_preset():
    paper = PRESETS["paper"]
    assert paper.model.encoder == "google-bert/bert-base-uncased"
    assert (paper.model.pooling, paper.model.negatives) == ("cls", "in_batch")
    assert paper.model.layers is None
