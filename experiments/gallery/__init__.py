"""Trained models to look at: answers, neighbours, maps; see `python -m experiments.gallery`."""
