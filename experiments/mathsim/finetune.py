"""Fine-tunes an encoder on labelled pairs; what is not published is chosen by cross-validation.

COMMAND   python -m experiments.mathsim.finetune --run runs/mathsim/finetuned
          python -m experiments.mathsim.finetune --model.encoder runs/mathsim/adapted/encoder
          --choice runs/mathsim/finetuned/choice.json --run runs/mathsim/adapted_finetuned
TIME      small: about 8 minutes with the choice, 3 without; smoke: a minute
HARDWARE  small, smoke: 2 CPU cores; paper: accelerators
SCORE     see experiments.mathsim.table

The pairs of zbMATH abstracts in `math_text` have 16 seeds in train and 4 in dev: too few for a dev
set. So candidates (loss, further pairs) are compared by cross-validation over both, grouped by
seed, by Spearman's correlation over the pairs that are not German; the best is trained on all of
them with several random seeds. The test pairs are not looked at here. Each seed's encoder is a
sentence-transformers folder, RUN/seed_0/encoder.

With `--pairs FOLDER` (of experiments.mathsim.make_pairs) it trains on that folder's train, chooses
the best step on its dev, as published, and measures its test.
"""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import tyro

from mathsim_jax.adaptation import load_encoder
from mathsim_jax.config import FINE_TUNING_PRESETS, FineTuningConfig
from mathsim_jax.datasets.math_text import data_folder, german_pairs, read_abstract_pairs
from mathsim_jax.datasets.msc_pairs import read_pairs
from mathsim_jax.datasets.pairs import Pairs, join_pairs
from mathsim_jax.evaluation import pair_measures
from mathsim_jax.fine_tuning import cross_validate, fine_tune, score_pairs, training_pairs
from retrieval_jax.config import parse_command_line, to_dict
from retrieval_jax.distributed import is_main
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.files import write_json
from retrieval_jax.logs import quiet_libraries

# What is chosen among; all else is as configured. AFP's titles and abstracts are the only further
# pairs of a short and a long text; MSC titles bring the hierarchy that the labels come from. AMS
# classes of conjectures are left out: two in three statements are of one class.
CANDIDATES: dict[str, dict[str, Any]] = {
    "cosine": {"objective": "cosine", "extra": ()},
    "cosine, AFP": {"objective": "cosine", "extra": ("afp",)},
    "contrastive": {"objective": "contrastive", "extra": ()},
    "contrastive, AFP and MSC": {"objective": "contrastive", "extra": ("afp", "msc")},
}
CHOICE = "choice.json"


@dataclasses.dataclass(frozen=True)
class Command:
    """What to fine-tune and where.

    Attributes:
        config: the configuration.
        run: folder, made here, with a run folder for each seed.
        folder: `math_text`; by default in the folder that RETRIEVAL_DATA names.
        pairs: folder of train, dev and test pairs of your own, instead.
        seeds: random seeds of the final trainings.
        folds: of the cross-validation.
        test_length: word pieces a text is cut to when it is tested.
        choice: a file that an earlier run wrote, instead of choosing again.
        as_configured: train what the command line says, without choosing.
    """

    config: Annotated[FineTuningConfig, tyro.conf.arg(name="")]
    run: Path = Path("runs/mathsim/finetuned")
    folder: Path | None = None
    pairs: Path | None = None
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    folds: int = 3
    test_length: int = 256
    choice: Path | None = None
    as_configured: bool = False


def read_training_pairs(folder: Path) -> Pairs:
    """Pairs of zbMATH abstracts of train and dev together."""
    return join_pairs([read_abstract_pairs(folder, split) for split in ("train", "dev")])


def with_fields(config: FineTuningConfig, fields: dict[str, Any]) -> FineTuningConfig:
    """The configuration of a candidate; chunks are for the contrastive loss alone."""
    if fields["objective"] != "contrastive":
        fields = fields | {"chunk_pairs": None}
    return dataclasses.replace(config, **fields)


def choose(command: Command, pairs: Pairs, folder: Path) -> dict[str, Any]:
    """Compares the candidates.

    Returns:
        What `choice.json` holds: the chosen candidate's name and fields, and all measures.
    """
    kept = ~german_pairs(pairs)
    encoder = load_encoder(command.config.model)
    scores = {"untouched": score_pairs(command.config, encoder, pairs, command.test_length)}
    for name, fields in CANDIDATES.items():
        config = with_fields(command.config, fields)
        scores[name] = cross_validate(config, pairs, command.folds, folder, command.test_length)
    measures = {name: pair_measures(s[kept], pairs.labels[kept]) for name, s in scores.items()}
    for name, row in measures.items():
        print(f"{name}: Spearman {row['Spearman']:.4f}, AP {row['AP']:.4f} (held out, not German)")
    best = max(CANDIDATES, key=lambda name: measures[name]["Spearman"])
    return {
        "chosen": best,
        "fields": CANDIDATES[best],
        "encoder": command.config.model.encoder,
        "folds": command.folds,
        "by": "Spearman, held out pairs that are not German",
        "measures": measures,
    }


def read_choice(path: Path) -> dict[str, Any]:
    """What an earlier run chose.

    Raises:
        InputError: no such file, or none of a choice.
    """
    if not path.is_file():
        raise InputError(f"no such file: {path}", "Give the choice.json of an earlier run.")
    try:
        choice = json.loads(path.read_text(encoding="utf-8"))
        fields = choice["fields"]
        return choice | {"fields": fields | {"extra": tuple(fields["extra"])}}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no choice: {error!r}", "Choose again.") from error


def train_seeds(command: Command, config: FineTuningConfig, pairs: Pairs, folder: Path) -> None:
    """Trains the configuration with each seed, on all pairs."""
    chosen = training_pairs(config, pairs, folder)
    print(f"training on {chosen.summary}")
    for seed in command.seeds:
        training = dataclasses.replace(config.training, seed=seed)
        seeded = dataclasses.replace(config, training=training)
        _, trained, encoder = fine_tune(seeded, chosen, None, command.run / f"seed_{seed}")
        print(f"seed {seed}: {trained.step} steps, {encoder}")


def train_own_pairs(command: Command, folder: Path) -> None:
    """Trains on pairs of the user's, chooses the step on dev, measures test."""
    splits = {name: read_pairs(folder / f"{name}.jsonl") for name in ("train", "dev", "test")}
    for name, part in splits.items():
        print(f"{name}: {part.summary}")
    config = command.config
    extra = data_folder(command.folder) if config.extra else None
    chosen = training_pairs(config, splits["train"], extra)
    run, trained, encoder = fine_tune(config, chosen, splits["dev"], command.run)
    tuned = load_encoder(dataclasses.replace(config.model, encoder=str(encoder), layers=None))
    scores = score_pairs(config, tuned, splits["test"], command.test_length)
    measures = pair_measures(scores, splits["test"].labels)
    run.write_json("results.json", {"dev": trained.best, "test": measures})
    shown = ", ".join(f"{name} {value:.4f}" for name, value in measures.items())
    print(f"best step {trained.best_step}; test: {shown}\nencoder: {encoder}")


@one_screen_errors
def main() -> None:
    """Fine-tunes as the command line says."""
    commands = {name: Command(config) for name, config in FINE_TUNING_PRESETS.items()}
    description = "Fine-tunes an encoder on labelled pairs."
    command = parse_command_line(commands, "python -m experiments.mathsim.finetune", description)
    quiet_libraries()
    if command.pairs is not None:
        train_own_pairs(command, command.pairs)
        return
    folder = data_folder(command.folder)
    pairs = read_training_pairs(folder)
    print(f"zbMATH abstracts, train and dev: {pairs.summary}")
    config = command.config
    if not command.as_configured:
        choice = read_choice(command.choice) if command.choice else choose(command, pairs, folder)
        if is_main():
            command.run.mkdir(parents=True, exist_ok=True)
            record = choice | {"config": to_dict(config)}
            write_json(command.run / CHOICE, record)  # which another process may be reading
        print(f"chosen: {choice['chosen']}")
        config = with_fields(config, choice["fields"])
    train_seeds(command, config, pairs, folder)


if __name__ == "__main__":
    main()
