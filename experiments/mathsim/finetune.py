"""Fine-tunes an encoder on labelled pairs; what is not published is chosen by cross-validation.

COMMAND   python -m experiments.mathsim.finetune --run runs/mathsim/finetuned
          python -m experiments.mathsim.finetune --model.encoder runs/mathsim/adapted/encoder
          --choice runs/mathsim/finetuned/choice.json --run runs/mathsim/adapted_finetuned
TIME      small: about 8 minutes with the choice, 3 without; smoke: a minute
HARDWARE  small, smoke: 2 CPU cores; paper: accelerators
SCORE     see experiments.mathsim.table

The pairs of zbMATH abstracts in `math_text` have 16 seeds in train and 4 in dev: too few for a dev
set. So candidates (loss, further pairs) are compared by cross-validation over both, grouped by
seed, by Spearman's correlation over the pairs that are not German; the best is trained on all that
are not German (`--german`: on all) with several random seeds. The test pairs are not looked at
here. Each seed's encoder is a sentence-transformers folder, RUN/seed_0/encoder.

`--choice FILE` trains what an earlier run chose, `--as-configured` what the command line says. With
`--pairs FOLDER` (of experiments.mathsim.make_pairs) it trains on that folder's train as configured,
chooses the best step on its dev, as published, and measures its test: all pairs of each, German
too. `--german` is of zbMATH's pairs, where that gives the label away. An option that has no effect
in the way that is chosen is refused.
"""

import dataclasses
import json
import sys
from collections.abc import Set
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from mathsim_jax.adaptation import load_encoder
from mathsim_jax.config import FINE_TUNING_PRESETS, FineTuningConfig
from mathsim_jax.datasets.math_text import data_folder, german_pairs, read_abstract_pairs
from mathsim_jax.datasets.msc_pairs import read_pairs
from mathsim_jax.datasets.pairs import Pairs, join_pairs
from mathsim_jax.evaluation import pair_measures
from mathsim_jax.fine_tuning import cross_validate, fine_tune, score_pairs, training_pairs
from retrieval_jax.config import given_options, parse_command_line, to_dict
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

Way = Literal["with --pairs", "with --as-configured", "with --choice", "where it is chosen"]
CHOSEN = "--objective", "--extra", "--chunk-pairs"
OF_DEV = "--training.evaluate-every", "--training.best-measure", "--training.patience"
NO_DEV = "There are no dev pairs, the last step is taken: leave it out."
NOT_CHOOSING = "It is of the cross-validation, which is not done: leave it out."
NO_EFFECT: dict[Way, dict[tuple[str, ...], str]] = {
    "with --pairs": {
        ("--seeds",): "One seed is trained: give --training.seed.",
        ("--folds", "--choice", "--as-configured"): NOT_CHOOSING,
        ("--german", "--no-german"): "Pairs of your own are taken as they are: leave it out.",
    },
    "with --as-configured": {
        ("--choice",): "Leave one of the two out.",
        ("--folds", "--test-length"): NOT_CHOOSING,
        ("--training.seed",): "Give --seeds.",
        OF_DEV: NO_DEV,
    },
    "with --choice": {
        CHOSEN: "The file says it: leave it out, or give --as-configured instead of --choice.",
        ("--folds", "--test-length"): NOT_CHOOSING,
        ("--training.seed",): "Give --seeds.",
        OF_DEV: NO_DEV,
    },
    "where it is chosen": {
        CHOSEN: "Add --as-configured to train what the command line says, or leave it out.",
        OF_DEV: NO_DEV,
    },
}
"""Options that would be ignored in each way to train, and the remedy."""


@dataclasses.dataclass(frozen=True)
class Command:
    """What to fine-tune and where.

    Attributes:
        config: the configuration.
        run: folder, made here, with a run folder for each seed; with `pairs` the run folder.
        folder: `math_text`; by default in the folder that RETRIEVAL_DATA names.
        pairs: folder of train, dev and test pairs of your own, instead.
        seeds: random seeds of the final trainings; not with `pairs`.
        folds: of the cross-validation.
        test_length: word pieces a text is cut to when it is held out or tested.
        choice: the choice.json of an earlier run, instead of choosing again.
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


def way_of(command: Command) -> Way:
    """How a command trains."""
    if command.pairs is not None:
        return "with --pairs"
    if command.as_configured:
        return "with --as-configured"
    return "where it is chosen" if command.choice is None else "with --choice"


def refuse_options(way: Way, given: Set[str]) -> None:
    """Refuses options that have no effect in a way to train, by an `InputError`.

    Args:
        way: to train.
        given: options, as `given_options` has them.
    """
    for options, remedy in NO_EFFECT[way].items():
        refuse(options, given, way, remedy)


def refuse_unused(config: FineTuningConfig, given: Set[str], own_pairs: bool) -> None:
    """Refuses options that have no effect on what is trained in the end, by an `InputError`.

    Args:
        config: what is trained.
        given: options, as `given_options` has them.
        own_pairs: whether the pairs do not come from the folder of the data.
    """
    if config.objective != "contrastive":
        where, remedy = f"with the objective {config.objective!r}", "It is of 'contrastive'."
        refuse(("--temperature",), given, where, f"{remedy} Leave it out.")
    if not config.extra:
        remedy = "Name some (--extra), or leave it out."
        options = ("--extra-limit", *(("--folder",) if own_pairs else ()))
        refuse(options, given, "without further pairs", remedy)


def refuse(options: tuple[str, ...], given: Set[str], where: str, remedy: str) -> None:
    """Refuses those of `options` that are given."""
    found = [option for option in options if option in given]
    if found:
        raise InputError(f"no effect {where}: {', '.join(found)}", remedy)


def read_training_pairs(folder: Path) -> Pairs:
    """Pairs of zbMATH abstracts of train and dev together."""
    return join_pairs([read_abstract_pairs(folder, split) for split in ("train", "dev")])


def choose(command: Command, pairs: Pairs, folder: Path) -> dict[str, Any]:
    """Compares the candidates.

    Returns:
        What `choice.json` holds: the chosen candidate's name and fields, and all measures.
    """
    kept = ~german_pairs(pairs)
    encoder = load_encoder(command.config.model)
    scores = {"untouched": score_pairs(command.config, encoder, pairs, command.test_length)}
    for name, fields in CANDIDATES.items():
        config = dataclasses.replace(command.config, **fields)
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
        of = choice["fields"]
        fields = {"objective": of["objective"], "extra": tuple(of["extra"])}
        return choice | {"chosen": choice["chosen"], "fields": fields}
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
    """Trains on pairs of the user's, chooses the step on dev, measures test.

    All three are taken as they are, German too: that it gives the label away is of zbMATH's pairs.
    """
    splits = {name: read_pairs(folder / f"{name}.jsonl") for name in ("train", "dev", "test")}
    for name, part in splits.items():
        print(f"{name}: {part.summary}")
    config = dataclasses.replace(command.config, german=True)
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
    description = (
        "Fine-tunes an encoder on labelled pairs. Of zbMATH's pairs it chooses loss and further"
        " pairs by cross-validation, unless --choice or --as-configured says them; --pairs are your"
        " own, and all is as configured. Options without effect are refused."
    )
    command = parse_command_line(commands, "python -m experiments.mathsim.finetune", description)
    quiet_libraries()
    given = given_options(sys.argv[1:])
    refuse_options(way_of(command), given)
    config, choice = command.config, None
    if command.choice is not None:
        choice = read_choice(command.choice)
        config = dataclasses.replace(config, **choice["fields"])
    if way_of(command) != "where it is chosen":
        refuse_unused(config, given, command.pairs is not None)
    if command.pairs is not None:
        train_own_pairs(command, command.pairs)
        return
    folder = data_folder(command.folder)
    pairs = read_training_pairs(folder)
    print(f"zbMATH abstracts, train and dev: {pairs.summary}")
    if not command.as_configured:
        choice = choice or choose(command, pairs, folder)
        config = dataclasses.replace(config, **choice["fields"])
        if is_main():
            command.run.mkdir(parents=True, exist_ok=True)
            record = choice | {"config": to_dict(command.config)}
            write_json(command.run / CHOICE, record)  # which another process may be reading
        print(f"chosen: {choice['chosen']}")
    train_seeds(command, config, pairs, folder)


if __name__ == "__main__":
    main()
