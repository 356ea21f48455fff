"""Experiments of `ltr_jax`: training, the paper's tables, reranking."""
