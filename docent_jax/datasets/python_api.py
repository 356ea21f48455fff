"""The `python_api` data set: functions and classes of installed packages, by their docstrings.

Entities are public functions and classes, documents the sentences of their docstrings, queries
their summary lines; names are taken out of both. Nothing is downloaded.
"""

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from docent_jax.datasets.builders import CorpusBuilder, query_and_alias_rows
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.documents import entity_corpus
from docent_jax.datasets.public_objects import PublicObject, collect
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import stable_hash

DEFAULT_PACKAGES = ("jax", "numpy", "scipy")
MAX_NAME = 200  # The name is a folder, and file systems end at 255 bytes.


@dataclasses.dataclass(eq=False)
class PythonApiConfig(tfds.core.BuilderConfig):
    """Which packages; made by `python_api_config`, whose name tells their versions.

    Attributes:
        packages: import names.
    """

    packages: tuple[str, ...] = ()


def python_api_config(packages: Sequence[str] = DEFAULT_PACKAGES) -> PythonApiConfig:
    """The configuration for packages as they are installed, so that an upgrade is a new data set.

    The name also tells the Python version: packages differ between versions, and a class may
    inherit from the standard library.

    Raises:
        InputError: no package, or one that is not installed.
    """
    packages = tuple(sorted(set(packages)))
    if not packages:
        raise InputError("No package is named.", "Name at least one, as in `numpy`.")
    python = ".".join(map(str, sys.version_info[:2]))
    distributions = importlib.metadata.packages_distributions()
    parts = [f"{package}-{_version(package, distributions)}" for package in packages]
    name = "_".join([*parts, f"python-{python}"])
    if len(name) > MAX_NAME:
        name = f"{len(packages)}-packages-{stable_hash(name):032x}"
    return PythonApiConfig(name=name, packages=packages)


def _version(package: str, distributions: Mapping[str, Sequence[str]]) -> str:
    """The installed version; a hash of the sources of a package that was not installed as one."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise InputError(
            f"The package {package!r} is not installed.",
            f"Install it (`pip install {package}`) or leave it out; names are import names.",
        )
    providers = distributions.get(package.partition(".")[0])
    if providers:
        return importlib.metadata.version(providers[0])
    sources = hashlib.md5(usedforsecurity=False)
    for place in map(Path, spec.submodule_search_locations or [spec.origin or ""]):
        for source in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            sources.update(source.read_bytes() if source.is_file() else b"")
    return sources.hexdigest()[:12]


class PythonApi(CorpusBuilder):
    """Public functions and classes of installed Python packages, described by their docstrings."""

    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {
        "1.0.0": "First version.",
        "2.0.0": "Rows hold the ids of queries, and many sentences.",
    }

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        del dl_manager
        if not isinstance(self.builder_config, PythonApiConfig):
            raise InputError(
                "`python_api` is not told which packages to read.",
                "Build it by `docent_jax.datasets.python_api.prepare(packages, data_dir)`.",
            )
        corpus = _collect_corpus(self.builder_config.packages)
        sentences = zip(corpus.sentence_entities.tolist(), corpus.sentences, strict=True)
        rows = query_and_alias_rows(corpus.queries, corpus.aliases)
        return self._splits(corpus.entities, sentences, rows, corpus.card)


def collect_importable(
    packages: Sequence[str],
) -> tuple[list[PublicObject], dict[str, int]]:
    """The public objects of packages (`public_objects.collect`), and counts.

    Raises:
        InputError: a package that is not installed, or a module of one ends the interpreter.
    """
    try:
        return collect(packages)
    except RuntimeError as error:
        raise InputError(
            f"Importing the modules of {', '.join(packages)} ended the interpreter: {error}",
            "Leave out the package whose module does that.",
        ) from error


def _collect_corpus(packages: Sequence[str]) -> EntityCorpus:
    objects, counts = collect_importable(packages)
    try:
        corpus = entity_corpus(objects, counts)
    except InputError as error:
        raise InputError(f"{', '.join(packages)}: {error.problem}", error.remedy) from None
    paths = {*corpus.entities, *itertools.chain.from_iterable(corpus.aliases)}
    for package in packages:
        if not any(path.startswith(f"{package}.") for path in paths):
            raise InputError(
                f"{package}: the document set is empty, no function or class has a docstring of "
                "enough sentences.",
                "Leave the package out.",
            )
    return corpus


def prepare(packages: Sequence[str], data_dir: str | Path) -> PythonApi:
    """Builds the data set below `data_dir`, or finds it there.

    Args:
        packages: import names of installed packages.
        data_dir: the folder of tensorflow-datasets.

    Raises:
        InputError: a package that is not installed or has no usable docstring.
    """
    builder = PythonApi(
        config=python_api_config(packages), data_dir=str(data_dir), file_format="array_record"
    )
    builder.download_and_prepare()
    return builder
