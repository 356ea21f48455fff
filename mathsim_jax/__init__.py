"""Similarity of short mathematical texts: the model Bert-MLM_arXiv-MP-class_zbMath in JAX."""

from mathsim_jax.inference import SentenceEncoder
from mathsim_jax.mteb import MtebEncoder

__all__ = ["MtebEncoder", "SentenceEncoder"]
