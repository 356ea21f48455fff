"""Ours beside what one would use instead, measured in one run: `python -m benchmarks.NAME`."""
