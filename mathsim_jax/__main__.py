"""Command line of a model: `python -m mathsim_jax encode --model X --input TEXTS --output NPY`."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import tyro

from mathsim_jax.inference import SentenceEncoder, VectorDtype
from mathsim_jax.streaming import encode_file
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.pretrained import DEFAULT_ENCODER


@dataclasses.dataclass(frozen=True)
class Encode:
    """Encode texts into vectors, saved as a NumPy file `[lines, dim]`.

    Memory does not grow with the file, which may be larger than it.

    Attributes:
        input: UTF-8 file, plain, gzip or xz, one text a line.
        output: file to write.
        model: folder of sentence-transformers or of a BERT, package or hub name.
        batch_size: full-length texts encoded at once at most; decided by the device if not given.
        normalize: vectors of unit length, or not; as the model says if not given.
        dtype: of the vectors.
    """

    input: Path
    output: Path
    model: str = DEFAULT_ENCODER
    batch_size: int | None = None
    normalize: bool | None = None
    dtype: VectorDtype = "float32"


@dataclasses.dataclass(frozen=True)
class Similarity:
    """Print the cosine of two texts.

    Attributes:
        texts: the two.
        model: folder of sentence-transformers or of a BERT, package or hub name.
    """

    texts: tyro.conf.Positional[tuple[str, str]]
    model: str = DEFAULT_ENCODER


@one_screen_errors
def main() -> None:
    """Does what the command line says."""
    command: Encode | Similarity = tyro.cli(
        Annotated[Encode, tyro.conf.subcommand("encode")]
        | Annotated[Similarity, tyro.conf.subcommand("similarity")],
        prog="python -m mathsim_jax",
        description="Uses a sentence-transformers model.",
    )
    quiet_libraries()
    if isinstance(command, Encode) and not command.input.is_file():
        raise InputError(f"no such file: {command.input}", "Give a text file, one text a line.")
    encoder = SentenceEncoder.from_pretrained(command.model)
    match command:
        case Encode():
            counts = encode_file(
                encoder,
                command.input,
                command.output,
                command.batch_size,
                command.normalize,
                command.dtype,
                show_progress=sys.stderr.isatty(),
            )
            shown = ", ".join(f"{number} {what}" for what, number in counts.items())
            print(shown or "0 texts", file=sys.stderr)
        case Similarity():
            first, second = command.texts
            print(f"{encoder.similarity(first, second).item():.4f}")


if __name__ == "__main__":
    main()
