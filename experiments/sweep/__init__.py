"""Sweeps: any experiment with any settings and seeds; see `python -m experiments.sweep --help`."""
