"""Tables and figures of all results: Markdown's blocks, and a page; `python -m` writes both."""

from experiments.report.markdown import PAGES, RESULTS, fill, table

__all__ = ["PAGES", "RESULTS", "fill", "table"]
