"""Tables and figures of all results: Markdown's blocks, and a page; `python -m` writes both."""

from experiments.report.readme import ALL_RESULTS, README, RESULTS, fill, table

__all__ = ["ALL_RESULTS", "README", "RESULTS", "fill", "table"]
