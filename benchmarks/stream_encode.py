"""A long stream of short texts through `python -m mathsim_jax encode`: does its memory grow?

COMMAND   python -m benchmarks.stream_encode --tiny --output benchmarks/results/stream_encode.json
TIME      10 minutes with --tiny, an hour without
HARDWARE  1 CPU core
RESULT    benchmarks/results/stream_encode.json

Texts are generated: random words of the tokenizer's vocabulary, whose numbers follow one law from
the first text to the last. The command line runs in a process of its own, which is looked at while
its file of vectors grows. `quarters_mib` is the highest resident memory in each quarter of the
rows; the first has loading and compiling in it.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import tyro

from benchmarks.measure import DisagreementError, give_record
from experiments.machine import resident_mib
from mathsim_jax.adaptation import load_encoder
from mathsim_jax.config import EncoderConfig
from mathsim_jax.inference import SentenceEncoder
from retrieval_jax.bert import Bert, init_params
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.pretrained import DEFAULT_ENCODER, PretrainedBert, find_encoder
from retrieval_jax.runs import provenance_record

WORDS_PER_TEXT = (3, 24)  # of the shortest and of the longest
INTERVAL = 0.05  # seconds between two looks
BLOCK = 10_000  # texts or vectors at a time


@dataclasses.dataclass(frozen=True)
class Command:
    """What to stream.

    Attributes:
        texts: how many.
        encoder: BERT folder, package or hub name.
        tiny: random weights of one layer of 32 in place of the encoder's; all else is as it is.
        growth_mib: by which the last quarter's peak may exceed the second's; in the first the
            process still loads and compiles.
        seed: of the texts.
        output: JSON file to write; the line is printed in any case.
    """

    texts: int = 1_000_000
    encoder: str = DEFAULT_ENCODER
    tiny: bool = False
    growth_mib: float = 16.0
    seed: int = 0
    output: Path | None = None


class Look(NamedTuple):
    """The process at one moment.

    Attributes:
        rows: vectors that it has written.
        resident: MiB.
    """

    rows: int
    resident: float


def stream(command: Command) -> dict[str, Any]:
    """Encodes generated texts; gives the record that is written.

    Raises:
        InputError: no such encoder.
        DisagreementError: the vectors are not as many as the texts, or not finite.
        CalledProcessError: the command failed.
    """
    encoder = load_encoder(EncoderConfig(command.encoder))
    if command.tiny:
        encoder = tiny_encoder(encoder)
    dim = encoder.config.hidden_size
    with tempfile.TemporaryDirectory() as name:
        folder, texts, vectors = (Path(name) / part for part in ("model", "texts.txt", "v.npy"))
        if command.tiny:
            SentenceEncoder(encoder.config, encoder.params, encoder.tokenizer).save_pretrained(
                folder
            )
        else:
            folder = find_encoder(command.encoder)
        digest = write_texts(texts, whole_words(encoder), command.texts, command.seed)
        options = {"--model": folder, "--input": texts, "--output": vectors}
        arguments = [str(word) for option in options.items() for word in option]
        started = time.perf_counter()
        looks = watch([sys.executable, "-m", "mathsim_jax", "encode", *arguments], vectors, dim)
        seconds = time.perf_counter() - started
        check_vectors(vectors, command.texts, dim)
    quarters = quarter_peaks(looks, command.texts)
    growth = quarters[-1] - quarters[1]
    return {
        "benchmark": "stream_encode",
        "settings": {
            "encoder": Path(command.encoder).name,
            "layers": encoder.config.num_layers,
            "dim": dim,
            "texts": command.texts,
        },
        "data": {"name": f"generated, seed {command.seed}", "fingerprint": digest},
        "sides": {
            "ours": {
                "items_per_second": round(command.texts / seconds, 1),
                "seconds": round(seconds, 1),
                "peak_mib": round(max(quarters)),
            }
        },
        "quarters_mib": [round(peak, 1) for peak in quarters],
        "growth_mib": round(growth, 1),
        "passed": growth <= command.growth_mib,
        **provenance_record(digest),
    }


def tiny_encoder(encoder: PretrainedBert) -> PretrainedBert:
    """Random weights of one layer, 32 wide, with the tokenizer of `encoder`."""
    config = dataclasses.replace(
        encoder.config, hidden_size=32, num_layers=1, num_heads=2, intermediate_size=64
    )
    params = jax.jit(functools.partial(init_params, Bert(config)))(jax.random.key(0))
    return dataclasses.replace(encoder, config=config, params=params)


def whole_words(encoder: PretrainedBert) -> list[str]:
    """Words that are one piece of the encoder's tokenizer, sorted."""
    return sorted(word for word in encoder.tokenizer.get_vocab() if word.isalpha())


def write_texts(path: Path, words: Sequence[str], number: int, seed: int) -> str:
    """Writes a file of so many texts, one a line; gives its SHA-256."""
    rng = np.random.default_rng(seed)
    table, digest = np.array(words), hashlib.sha256()
    least, most = WORDS_PER_TEXT
    with path.open("wb") as file:
        for start in range(0, number, BLOCK):
            lengths = rng.integers(least, most + 1, min(BLOCK, number - start))
            drawn = iter(rng.choice(table, lengths.sum()).tolist())
            lines = [" ".join(itertools.islice(drawn, length)) for length in lengths.tolist()]
            block = "".join(f"{line}\n" for line in lines).encode()
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def watch(arguments: Sequence[str], vectors: Path, dim: int) -> list[Look]:
    """Runs a command that writes float32 `[rows, dim]`, and looks at it until its end.

    Linux only.

    Raises:
        CalledProcessError: it failed.
    """
    unfinished = vectors.with_name(f"{vectors.name}.part")
    looks = []
    rows = 0
    with subprocess.Popen(arguments) as process:
        while process.poll() is None:
            with contextlib.suppress(FileNotFoundError):  # not yet, or renamed at the end
                rows = unfinished.stat().st_size // (4 * dim)
            looks.append(Look(rows, resident_mib("VmRSS", process.pid)))
            time.sleep(INTERVAL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return looks


def quarter_peaks(looks: Iterable[Look], rows: int) -> list[float]:
    """The highest resident memory, MiB, in each quarter of so many rows.

    Raises:
        DisagreementError: a quarter passed between two looks.
    """
    peaks = [0.0] * 4
    for look in looks:
        quarter = min(4 * look.rows // rows, 3)
        peaks[quarter] = max(peaks[quarter], look.resident)
    if not all(peaks):
        raise DisagreementError(f"quarters without a look at the process: {peaks}; more --texts")
    return peaks


def check_vectors(path: Path, rows: int, dim: int) -> None:
    """Refuses a file that does not hold so many finite vectors.

    Raises:
        DisagreementError: it does not.
    """
    vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    if vectors.shape != (rows, dim):
        raise DisagreementError(f"vectors of shape {vectors.shape}, not {(rows, dim)}")
    for start in range(0, rows, BLOCK):
        if not np.isfinite(vectors[start : start + BLOCK]).all():
            raise DisagreementError(f"a vector of row {start} or after is not finite")


@one_screen_errors
def main() -> None:
    """Streams as the command line says; ends with 1 if memory grew."""
    command = tyro.cli(Command, prog="python -m benchmarks.stream_encode", description=__doc__)
    record = stream(command)
    give_record(record, command.output)
    if not record["passed"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
