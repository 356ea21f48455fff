"""Cross-validates one configuration of fine-tuning; what ablations of it are measured by.

COMMAND   python -m experiments.mathsim.cross_validation --objective contrastive --run RUN
TIME      small: about 2 minutes, smoke: half a minute
HARDWARE  small, smoke: 2 CPU cores
SCORE     results.json in --run

Pairs of zbMATH abstracts, train and dev together, in folds grouped by seed abstract; measured are
the held-out pairs that are not German. The test pairs are not looked at.
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from experiments.mathsim.finetune import read_training_pairs
from mathsim_jax.adaptation import PACKAGE
from mathsim_jax.config import FINE_TUNING_PRESETS, FineTuningConfig
from mathsim_jax.datasets.math_text import data_folder, german_pairs
from mathsim_jax.evaluation import pair_measures
from mathsim_jax.fine_tuning import cross_validate
from retrieval_jax.config import parse_command_line
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.runs import create_run


@dataclasses.dataclass(frozen=True)
class Command:
    """What to cross-validate.

    Attributes:
        config: the configuration.
        run: folder of the results, made here.
        folder: `math_text`; by default in the folder that RETRIEVAL_DATA names.
        folds: of groups.
        test_length: word pieces a text is cut to when it is scored.
    """

    config: Annotated[FineTuningConfig, tyro.conf.arg(name="")]
    run: Path = Path("runs/mathsim/cross_validation")
    folder: Path | None = None
    folds: int = 3
    test_length: int = 256


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the results depend on, beside the pairs; a run folder is of one.

    Attributes:
        fine_tuning: the configuration.
        folds: of groups.
        test_length: word pieces a text is cut to when it is scored.
    """

    fine_tuning: FineTuningConfig
    folds: int
    test_length: int


@one_screen_errors
def main() -> None:
    """Cross-validates as the command line says."""
    commands = {name: Command(config) for name, config in FINE_TUNING_PRESETS.items()}
    description = "Cross-validates one configuration of fine-tuning on pairs."
    prog = "python -m experiments.mathsim.cross_validation"
    command = parse_command_line(commands, prog, description)
    quiet_libraries()
    folder = data_folder(command.folder)
    pairs = read_training_pairs(folder)
    settings = Settings(command.config, command.folds, command.test_length)
    run = create_run(command.run, PACKAGE, settings, pairs.fingerprint)
    scores = cross_validate(command.config, pairs, command.folds, folder, command.test_length)
    kept = ~german_pairs(pairs)
    measures = pair_measures(scores[kept], pairs.labels[kept])
    results = {"pairs": pairs.summary, "held_out": int(kept.sum()), "measures": measures}
    run.write_json("results.json", results)
    print(", ".join(f"{name} {value:.4f}" for name, value in measures.items()))


if __name__ == "__main__":
    main()
