"""Tables and figures of all results: the README's blocks, and a page; `python -m` writes both."""

from experiments.report.readme import (
    README,
    RESULTS,
    benchmark_table,
    conversion_table,
    fill,
    table,
)

__all__ = ["README", "RESULTS", "benchmark_table", "conversion_table", "fill", "table"]
