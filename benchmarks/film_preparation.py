"""Preparing films from generated reviews: how fast, and whether memory stays as the file grows.

COMMAND   python -m benchmarks.film_preparation
TIME      about 8 minutes
HARDWARE  2 CPU cores, and disk for three times the reviews
RESULT    printed, and where --output says

The files are as Amazon ships them, gzipped JSON lines; a film has 50 reviews on average, of some 60
words. Each size is prepared in a process of its own, from the file to the last sentence. `peak_mib`
is the most that this process held, `workers_mib` the most that one of its workers did, both with
interpreter and libraries.
"""

import dataclasses
import gzip
import json
import multiprocessing
import random
import resource
import tempfile
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import tyro

from benchmarks.measure import give_record
from docent_jax.datasets.amazon import MAPPING, read_amazon
from docent_jax.datasets.films import prepared_films
from experiments.machine import peak_mib
from retrieval_jax.errors import one_screen_errors
from retrieval_jax.fingerprints import files_fingerprint
from retrieval_jax.runs import provenance_record

REVIEWS, MOVIELENS = "reviews.json.gz", "ml.zip"
REVIEWS_A_FILM = 50
_SYLLABLES = ("ba", "de", "ki", "lo", "mu", "ra", "se", "ti", "vo", "nu")


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        reviews: sizes of the files.
        processes: that prepare them.
        seed: of the reviews.
        output: JSON file to write; the line is printed in any case.
    """

    reviews: tuple[int, ...] = (500_000, 2_000_000)
    processes: int = 2
    seed: int = 0
    output: Path | None = None


def measure(command: Command) -> dict[str, Any]:
    """Prepares each file; gives the record that is written."""
    rows, files = [], []
    context = multiprocessing.get_context("spawn")
    for size in command.reviews:
        with tempfile.TemporaryDirectory() as folder:
            reviews = write_reviews(Path(folder), size, command.seed)
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                rows.append(pool.submit(prepare, Path(folder), command.processes).result())
            files.append(files_fingerprint([reviews]))
    return {
        "benchmark": "film_preparation",
        "settings": {"processes": command.processes, "seed": command.seed},
        "rows": rows,
        **provenance_record(" ".join(files)),
    }


def write_reviews(folder: Path, size: int, seed: int) -> Path:
    """Writes generated files of Amazon and MovieLens into an empty folder; gives the reviews."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4))) for _ in range(5000)]
    sentences = [" ".join(rng.choices(words, k=rng.randint(6, 18))) + "." for _ in range(5000)]
    films = max(2, size // REVIEWS_A_FILM)
    path = folder / REVIEWS
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        for number in range(size):
            film = rng.randrange(films)
            text = f"Film{film:07} number {number}. " + " ".join(rng.choices(sentences, k=5))
            file.write(json.dumps({"asin": f"B{film:07}", "reviewText": text}) + "\n")
    with (folder / MAPPING).open("w", encoding="utf-8") as file:
        file.write("asin,canon_asin,movielens_id,name\n")
        file.writelines(f"B{film:07},B{film:07},,Film{film:07}\n" for film in range(films))
    with zipfile.ZipFile(folder / MOVIELENS, "w") as archive:
        archive.writestr("ml/movies.csv", "movieId,title,genres\n")
        archive.writestr("ml/tags.csv", "userId,movieId,tag,timestamp\n")
    return path


def prepare(folder: Path, processes: int) -> dict[str, Any]:
    """Reads and prepares the reviews of a folder; counts, seconds and memory."""
    started = time.perf_counter()
    source = read_amazon(folder / REVIEWS, folder / MAPPING, folder / MOVIELENS)
    with prepared_films(source, processes=processes, scratch=folder) as films:
        sentences = sum(1 for _ in films.sentences())
        card = films.card
    seconds = time.perf_counter() - started
    # It starts at what this process held then, which is little more than interpreter and libraries.
    of_worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "reviews": card["reviews read"],
        "films": card["entities"],
        "sentences": sentences,
        "seconds": round(seconds, 1),
        "reviews_per_second": round(card["reviews read"] / seconds),
        "peak_mib": round(peak_mib()),
        "workers_mib": round(of_worker / 1024),
    }


@one_screen_errors
def main() -> None:
    """Measures as the command line says."""
    command = tyro.cli(Command, prog="python -m benchmarks.film_preparation", description=__doc__)
    give_record(measure(command), command.output)


if __name__ == "__main__":
    main()
