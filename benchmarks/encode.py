"""Encoding real sentences into vectors: packed rows beside sentence-transformers.

COMMAND   python -m benchmarks.encode --memory --output benchmarks/results/encode.json
TIME      about 2 minutes
HARDWARE  2 CPU cores
RESULT    benchmarks/results/encode.json

A run goes from strings to unit vectors, tokenisation included. Sides: `ours`,
`mathsim_jax.SentenceEncoder`, and `encode` of sentence-transformers at its default batch size and
others; it sorts by length. Building a side loads its model, so that memory counts all of it.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure, reviews
from mathsim_jax.inference import SentenceEncoder
from retrieval_jax.pretrained import find_encoder


@dataclasses.dataclass(frozen=True)
class Command(reviews.SentenceCommand):
    """What to measure.

    Attributes:
        texts: sentences to encode.
        batch_sizes: of the peer.
    """

    texts: int = 500
    batch_sizes: tuple[int, ...] = (32, 16, 64)


def prepare(command: Command) -> measure.Comparison:
    """Reads the sentences and names the sides."""
    # Here, so that its import is no part of its memory.
    import sentence_transformers  # noqa: F401  # pyright: ignore[reportMissingImports]

    folder = find_encoder(command.encoder)
    texts = reviews.read_sentences(command.reviews, command.texts)
    sides = {"ours": functools.partial(our_side, folder, texts, command.max_length)}
    for size in command.batch_sizes:
        sides[f"sentence_transformers_{size}"] = functools.partial(
            peer_side, folder, texts, command.max_length, size
        )
    return measure.Comparison(
        settings=measure.settings_of(command),
        data=reviews.describe(command.reviews, texts, "sentences"),
        packages=("torch", "transformers", "sentence-transformers"),
        sides=sides,
        check=check_cosines,
    )


def our_side(folder: Path, texts: Sequence[str], max_length: int) -> measure.Side:
    """`SentenceEncoder.encode`; gives `[texts, dim]`."""
    encoder = SentenceEncoder.from_pretrained(folder)
    encoder.modules = dataclasses.replace(encoder.modules, max_length=max_length)
    return measure.Side(lambda: encoder.encode(texts, normalize=True), len(texts))


def peer_side(folder: Path, texts: Sequence[str], max_length: int, batch_size: int) -> measure.Side:
    """`SentenceTransformer.encode` in batches of so many texts; gives `[texts, dim]`."""
    from sentence_transformers import (  # pyright: ignore[reportMissingImports]
        SentenceTransformer,
    )

    from benchmarks import peer

    peer.prepare_torch()
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = max_length

    def run() -> np.ndarray:
        return model.encode(
            list(texts),
            batch_size=batch_size,
            show_progress_bar=False,
            normalize_embeddings=True,
        )

    return measure.Side(run, len(texts))


def check_cosines(vectors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Gives the least cosine between ours and each peer's vector of the same text.

    Raises:
        DisagreementError: it is not above 0.9999.
    """
    ours, *peers = vectors
    least = {side: float((vectors[ours] * vectors[side]).sum(axis=1).min()) for side in peers}
    for side, cosine in least.items():
        if not cosine > 0.9999:
            raise measure.DisagreementError(f"vectors of {ours} and {side}: cosine {cosine:.5f}")
    return {"least_cosine": {side: round(cosine, 6) for side, cosine in least.items()}}


if __name__ == "__main__":
    measure.command_line("encode", prepare, Command, __doc__)
