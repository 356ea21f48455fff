"""Cross-lingual retrieval of articles (the paper's table 2): text, meta, text+meta, baselines.

COMMAND   python -m experiments.ltr.table_wikipedia --results RESULTS.json
          and, with the files of Sasaki et al. (2018), --preset paper --pairs en-ja en-de en-fr
TIME      small: 27 runs, with their evaluation about 45 minutes of one core
HARDWARE  small: a CPU core; paper: accelerators
SCORE     experiments/results/ltr_debian_clir.json

The Wikipedia collection needs a download; `debian_clir`, descriptions of Debian packages, stands in
for it. Its documents of relevance 1 are linked either way, those of the paper both ways. `paper` is
the published model; `small` differs from it where data are few and time is short: word vectors of
both languages in one space, from the training pairs; sides that meet in a cosine; a loss over all
documents of a batch. Finished runs are not trained again.
"""

import dataclasses
from typing import Annotated

import tyro

import ltr_jax
from experiments.ltr import comparison
from retrieval_jax.config import parse_command_line
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries

PRESETS = ("small", "smoke", "paper")


@dataclasses.dataclass(frozen=True)
class Command(comparison.Command):
    """The table of articles; see `comparison.Command`."""

    config: Annotated[ltr_jax.Config, tyro.conf.arg(name="")]
    pairs: tuple[str, ...] = ("en-de", "en-fr", "en-ja")


@one_screen_errors
def main() -> None:
    """Trains and evaluates as the command line says."""
    commands = {name: Command(ltr_jax.PRESETS[name]) for name in PRESETS}
    description = "Trains and compares rankers of articles, over pairs, features and seeds."
    command = parse_command_line(commands, "python -m experiments.ltr.table_wikipedia", description)
    quiet_libraries()
    source = command.config.data.source
    comparison.run_table(command, f"ltr {source}", f"Articles ({source})")


if __name__ == "__main__":
    main()
