"""DocEnt: self-supervised entity representations from large document collections.

Zemlyanskiy et al., 2021. `load(run_folder).rank(["a question"], k=10)` uses a trained model;
`pretrain` makes one.
"""

from docent_jax.config import PRESETS, Config
from docent_jax.inference import EntityRanker, RankedEntity, load
from docent_jax.pretraining import pretrain

__all__ = ["PRESETS", "Config", "EntityRanker", "RankedEntity", "load", "pretrain"]
