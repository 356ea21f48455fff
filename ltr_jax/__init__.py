"""Cross-lingual learning to rank with embedded meta-text.

"Embedding Meta-Textual Information for Improved Learning to Rank", 2020.
`load(run_folder).rank("a query", ["ein Dokument", ...])` uses a trained model; `train_ranker` makes
one.
"""

from ltr_jax.config import PRESETS, Config
from ltr_jax.inference import DocumentRanker, RankedDocument, load
from ltr_jax.training import prepare_vectors, train_ranker

__all__ = [
    "PRESETS",
    "Config",
    "DocumentRanker",
    "RankedDocument",
    "load",
    "prepare_vectors",
    "train_ranker",
]
