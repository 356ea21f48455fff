"""Experiments of mathsim_jax: domain adaptation, fine-tuning, and the table of both."""
