"""Structure-preserving graph contrastive learning for formula retrieval.

`parse(r"\\frac{a}{b}", layout="opt")` gives a formula's tree.
`load(run_folder).encode([r"\\frac{a}{b}"])` uses a trained encoder; `index` puts a collection of
formulas into a store, which `load(run_folder, store).search(formula)` searches; `pretrain` trains.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gcl_jax.config import PRESETS, Config
    from gcl_jax.formulas import FormulaError, Tree, parse
    from gcl_jax.inference import FormulaSearcher, FoundFormula, index, load
    from gcl_jax.pretraining import pretrain

__all__ = [
    "PRESETS",
    "Config",
    "FormulaError",
    "FormulaSearcher",
    "FoundFormula",
    "Tree",
    "index",
    "load",
    "parse",
    "pretrain",
]

_HOMES = {
    "PRESETS": "config",
    "Config": "config",
    "FormulaError": "formulas",
    "FormulaSearcher": "inference",
    "FoundFormula": "inference",
    "Tree": "formulas",
    "index": "inference",
    "load": "inference",
    "parse": "formulas",
    "pretrain": "pretraining",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: the parser's workers need none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
