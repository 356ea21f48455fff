"""Experiments on formula retrieval."""
