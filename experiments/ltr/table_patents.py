"""Cross-lingual retrieval of patents (section 3.2): text, meta, text+meta, ensemble.

COMMAND   python -m experiments.ltr.table_patents --data.folder FOLDER --results RESULTS.json
TIME      not measured: the collections need a download and a licence
HARDWARE  accelerators; --preset smoke runs on CPU cores
SCORE     none yet

Experiment 1 is the rows of text, meta and text+meta; experiment 2 the ensemble of a text and a meta
model, weighted on dev; for experiment 3 see `experiments.ltr.rerank`. Queries are Japanese
abstracts of BoostCLIR, documents English ones, categories MAREC's IPC codes.
"""

import dataclasses
from typing import Annotated

import tyro

import ltr_jax
from experiments.ltr import comparison
from retrieval_jax.config import parse_command_line
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries


@dataclasses.dataclass(frozen=True)
class Command(comparison.Command):
    """The table of patents; see `comparison.Command`."""

    config: Annotated[ltr_jax.Config, tyro.conf.arg(name="")]
    pairs: tuple[str, ...] = ("ja-en",)


@one_screen_errors
def main() -> None:
    """Trains and evaluates as the command line says."""
    smoke = ltr_jax.PRESETS["smoke"]
    patents = dataclasses.replace(smoke.data, source="boost_clir", pair="ja-en")
    configs = {
        "paper-patents": ltr_jax.PRESETS["paper-patents"],
        "smoke": dataclasses.replace(smoke, data=patents),
    }
    commands = {name: Command(config) for name, config in configs.items()}
    command = parse_command_line(
        commands,
        "python -m experiments.ltr.table_patents",
        "Trains and compares rankers of patents, over features and seeds.",
        default="paper-patents",
    )
    quiet_libraries()
    source = command.config.data.source
    comparison.run_table(command, f"ltr {source}", f"Patents ({source})")


if __name__ == "__main__":
    main()
