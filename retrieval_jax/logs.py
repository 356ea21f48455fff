"""What a run tells: metrics as JSON lines, TensorBoard when asked, progress on the screen."""

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from retrieval_jax.errors import InputError

FILE_COLUMNS = 200


class MetricWriter:
    """Appends one JSON object a call to `metrics.jsonl`; a context manager.

    Args:
        folder: run folder.
        tensorboard: also write TensorBoard events under `folder/tensorboard`.
    """

    def __init__(self, folder: Path, tensorboard: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = self._path = folder / "metrics.jsonl"
        cut_off = path.is_file() and not path.read_bytes().endswith(b"\n")
        self._lines = path.open("a", encoding="utf-8")
        if cut_off:  # by the end of an earlier process: what follows gets a line of its own
            self._lines.write("\n")
        self._board = None
        if tensorboard:
            from tensorboardX import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"))

    def write(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        """Writes the values of one step; `kind` is "train" or "dev".

        Raises:
            InputError: the file takes no more.
        """
        # JSON has no NaN: null says that there is no number.
        finite = {n: v if math.isfinite(v) else None for n, v in values.items()}
        line = {"step": step, "kind": kind, "time": round(time.time(), 3), **finite}
        try:
            self._lines.write(json.dumps(line) + "\n")
            self._lines.flush()
        except OSError as error:
            raise InputError(
                f"{self._path} cannot be written: {error.strerror}",
                "Is the disk full? Once there is room, the same command goes on from the last"
                " checkpoint.",
            ) from error
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def __enter__(self) -> "MetricWriter":
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the files."""
        # What could not be written before cannot be now; the first error is the one to show.
        with contextlib.suppress(*(() if error is None else (OSError,))):
            self._lines.close()
        if self._board is not None:
            self._board.close()


def read_metrics(folder: Path) -> list[dict]:
    """Reads `metrics.jsonl`; of lines written twice (after a resume) the last counts."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return []
    latest = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # cut off when the process was killed
            continue
        latest[entry["step"], entry["kind"]] = entry
    return [latest[key] for key in sorted(latest)]


class TrainingProgress:
    """A progress bar on a terminal, else a line a log; a context manager.

    Args:
        steps: steps in all.
        start: steps done before.
        enabled: False shows nothing.
    """

    def __init__(self, steps: int, start: int, enabled: bool = True) -> None:
        self._console = Console(stderr=True, quiet=not enabled, markup=False, emoji=False)
        self._steps = steps
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not (enabled and self._console.is_terminal),
        )
        self._row = self._bar.add_task("", total=steps, completed=start, values="compiling")

    def update(self, step: int, values: Mapping[str, float]) -> None:
        """Shows the values of the last log interval."""
        text = f"loss {values['loss']:.4f}  {values['examples_per_second']:.0f} examples/s"
        self._bar.update(self._row, completed=step, values=text)
        if self._bar.disable:
            self.say(f"step {step}/{self._steps}  {text}")

    def show(self, step: int, measures: Mapping[str, float]) -> None:
        """Shows an evaluation on a line of its own."""
        text = "  ".join(f"{name} {value:.4f}" for name, value in measures.items())
        self.say(f"step {step}/{self._steps}  dev  {text}")

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def __enter__(self) -> "TrainingProgress":
        """Starts drawing."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops drawing."""
        self._bar.stop()


def result_console() -> Console:
    """A console for tables of results: the terminal's, or one wide enough for a file to hold all.

    Without it rich takes 80 columns for a file and cuts numbers off. `COLUMNS` is obeyed. What
    looks like rich's markup or names of emoji is shown as it is: names and paths may hold it.
    """
    console = Console(markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = FILE_COLUMNS
    return console


def print_ranked(
    query: str, columns: Sequence[str], answers: Iterable[Sequence[str | float]]
) -> None:
    """Prints a table of what was found for a query; every text as it is.

    Args:
        query: the table's title.
        columns: what an answer has, such as "entity" and "score".
        answers: of each column a text or a number, the best answer first.
    """
    # Of a plain string rich takes `[tt0133093]` for markup and leaves it out.
    table = Table(title=Text(query, style="table.title"), title_justify="left")
    table.add_column("rank", justify="right")
    for name in columns:
        table.add_column(name, justify="right" if name == "score" else "left")
    for rank, answer in enumerate(answers, 1):
        cells = (cell if isinstance(cell, str) else f"{cell:.4f}" for cell in answer)
        table.add_row(str(rank), *map(Text, cells))
    result_console().print(table)


def quiet_libraries() -> None:
    """Silences the libraries' own logs (what fails raises); called by commands, not on import."""
    for name in ("absl", "bm25s", "orbax", "jax"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
