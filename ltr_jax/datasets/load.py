"""The collection that a configuration names."""

from pathlib import Path

from ltr_jax.config import DataConfig
from ltr_jax.datasets.apt_lists import is_lists_folder
from ltr_jax.datasets.builders import load_apt_lists, load_boost_clir, load_wikipedia_clir
from ltr_jax.datasets.collection import Collection
from ltr_jax.datasets.corpora import with_corpora
from ltr_jax.datasets.debian_folder import read_debian_folder
from retrieval_jax.data_folders import data_folder
from retrieval_jax.errors import InputError


def load_collection(config: DataConfig, data_dir: Path) -> Collection:
    """Reads the collection that a configuration names.

    `debian_clir` takes a folder of its tables, or one of apt's lists, such as /var/lib/apt/lists.

    Args:
        config: source, pair of languages, folder, names of files of further texts.
        data_dir: where collections that take long to make are kept.

    Raises:
        InputError: no such source or pair, files that are missing or cannot be read, or what
            `with_corpora` refuses.
    """
    language = config.pair.rpartition("-")[2]
    expected = "ja-en" if config.source == "boost_clir" else f"en-{language}"
    if config.pair != expected:
        raise InputError(
            f"`{config.source}` has no pair {config.pair!r}.",
            "Its pairs are of queries and documents: "
            + ("ja-en." if config.source == "boost_clir" else "en-de, en-fr, en-ja and the like."),
        )
    folder = data_folder(
        config.source,
        config.folder,
        "`data.folder`",
        " For debian_clir, a folder of apt's lists will do.",
    )
    collection = _load(config, folder, language, data_dir)
    return collection if config.corpus is None else with_corpora(collection, folder, config.corpus)


def _load(config: DataConfig, folder: Path, language: str, data_dir: Path) -> Collection:
    if config.source == "boost_clir":
        return load_boost_clir(folder, data_dir)
    if config.source == "wikipedia_clir":
        return load_wikipedia_clir(folder, language, data_dir)
    if config.source != "debian_clir":
        raise InputError(
            f"There is no collection `{config.source}`.",
            "Set `data.source` to debian_clir, wikipedia_clir or boost_clir.",
        )
    if is_lists_folder(folder):
        return load_apt_lists(folder, language, data_dir)
    return read_debian_folder(folder, language)
