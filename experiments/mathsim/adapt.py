"""Adapts an encoder to mathematical texts by masked language modelling.

COMMAND   python -m experiments.mathsim.adapt --run runs/mathsim/adapted
TIME      small: about 8 minutes, smoke: half a minute
HARDWARE  small, smoke: 2 CPU cores; paper: accelerators
SCORE     see experiments.mathsim.table

Learns from the texts of the folder `math_text` (not those of the test pairs), or from files of your
own: `--texts a.txt b.jsonl.xz --field abstract`. Says before and after how far LaTeX breaks up into
word pieces; `--new-commands 100` adds frequent commands to the vocabulary.
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from mathsim_jax.adaptation import adapt, load_encoder
from mathsim_jax.config import ADAPTATION_PRESETS, AdaptationConfig
from mathsim_jax.datasets.corpora import read_texts
from mathsim_jax.datasets.math_text import adaptation_texts, data_folder
from mathsim_jax.vocabulary import Pieces, count_pieces
from retrieval_jax import plots
from retrieval_jax.config import parse_command_line
from retrieval_jax.distributed import is_main
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries, read_metrics

COUNTED = 2000  # texts of which the pieces are counted
FIELD = "text"


@dataclasses.dataclass(frozen=True)
class Command:
    """What to adapt and where.

    Attributes:
        config: the configuration.
        run: run folder, made here; an interrupted run is taken up.
        texts: files of texts; by default all texts of the data folder.
        field: of JSON lines of `texts`, where the text is.
        folder: `math_text`, if there are no `texts`; by default in the folder that RETRIEVAL_DATA
            names.

    Raises:
        InputError: a `folder` beside `texts`, or a `field` without them.
    """

    config: Annotated[AdaptationConfig, tyro.conf.arg(name="")]
    run: Path = Path("runs/mathsim/adapted")
    texts: tuple[Path, ...] = ()
    field: str = FIELD
    folder: Path | None = None

    def __post_init__(self) -> None:
        """Refuses what would have no effect."""
        if self.texts and self.folder is not None:
            raise InputError("--folder has no effect with --texts", "Leave one of the two out.")
        if not self.texts and self.field != FIELD:
            raise InputError("--field has no effect without --texts", "Name some, or leave it out.")


def load_texts(command: Command) -> list[str]:
    """The texts that the command line names."""
    if not command.texts:
        return adaptation_texts(data_folder(command.folder))
    texts: dict[str, None] = {}
    for path in command.texts:
        of_file, card = read_texts(path, command.field)
        print(f"{path}: {len(of_file):,} texts ({card})")
        texts |= dict.fromkeys(of_file)
    return list(texts)


def pieces_line(pieces: Pieces) -> str:
    """How texts break up, in words."""
    return (
        f"{pieces.pieces_per_text:.1f} pieces a text, {pieces.pieces_per_word:.2f} a word,"
        f" {pieces.pieces_per_formula:.1f} a formula, {pieces.pieces_per_command:.2f} a command of"
        f" LaTeX ({pieces.whole_commands:.0%} whole)"
    )


@one_screen_errors
def main() -> None:
    """Adapts as the command line says."""
    commands = {name: Command(config) for name, config in ADAPTATION_PRESETS.items()}
    description = "Adapts an encoder to texts by masked language modelling."
    command = parse_command_line(commands, "python -m experiments.mathsim.adapt", description)
    quiet_libraries()
    texts = load_texts(command)
    some = texts[:: max(len(texts) // COUNTED, 1)]
    print(f"{len(texts):,} texts")
    before = count_pieces(some, load_encoder(command.config.model).tokenizer)
    print(f"before: {pieces_line(before)}")
    run, trained, encoder = adapt(command.config, texts, command.run)
    adapted = dataclasses.replace(command.config.model, encoder=str(encoder), layers=None)
    after = count_pieces(some, load_encoder(adapted).tokenizer)
    print(f"after:  {pieces_line(after)}")
    measure = command.config.training.best_measure
    run.write_json(
        "results.json",
        {
            "texts": len(texts),
            "pieces": {"before": dataclasses.asdict(before), "after": dataclasses.asdict(after)},
            "best_step": trained.best_step,
            "dev": trained.best,
        },
    )
    if is_main():
        plots.training_curves(read_metrics(run.path), measure, run.plots / "training.png")
    best = f"{trained.best[measure]:.4f}" if trained.best else "unknown: no dev texts"
    print(
        f"{trained.step} steps; best dev {measure} {best} at step {trained.best_step}\n"
        f"encoder: {encoder}"
    )


if __name__ == "__main__":
    main()
