"""The builder on small packages written for the test, and on numpy."""

import itertools
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import scipy

from docent_jax.datasets.builders import read_corpus
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.documents import MIN_SENTENCES, entity_corpus
from docent_jax.datasets.public_objects import collect
from docent_jax.datasets.python_api import PythonApi, prepare, python_api_config
from retrieval_jax.errors import InputError

FUNCTION = '''
def {name}():
    """Find the {about} thing.

    The first part of {about} is here.

    The second part of {about} is here.

    The third part of {about} is here.

    The fourth part of {about} is here.

    The fifth part of {about} is here.
    """
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path, with two packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    (folder / "fruit.py").write_text(
        "".join(FUNCTION.format(name=name, about=name * 2) for name in ("fig", "kiwi", "plum"))
        + "apple = fig\n"
    )
    (folder / "stones.py").write_text("def flint():\n    'Nothing much.'\n")
    return folder


def test_a_built_corpus_is_read_back_whole(site: Path, tmp_path: Path) -> None:
    builder = prepare(["fruit"], tmp_path / "data")
    corpus = read_corpus(builder)
    assert corpus.entities == ("fruit.fig", "fruit.kiwi", "fruit.plum")
    assert corpus.aliases == (("fruit.apple",), (), ())
    assert corpus.sentences[0] == "The first part of figfig is here."
    assert corpus.sentence_entities.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    built = entity_corpus(*collect(["fruit"]))
    assert corpus.fingerprint == built.fingerprint
    assert corpus.card == built.card
    assert corpus.card["entities"] == 3


def test_rows_are_array_records_in_entity_order(site: Path, tmp_path: Path) -> None:
    builder = prepare(["fruit"], tmp_path / "data")
    assert list(Path(builder.data_dir).glob("*train.array_record*"))
    features = cast(Any, builder.info.features)
    assert features["entity_id"].np_dtype == np.int32
    source = cast(Any, builder).as_data_source("train")
    assert len(source) == 3
    row = source[1]
    assert (row["entity"], row["entity_id"]) == (b"fruit.kiwi", 1)
    assert row["text"].decode().split("\n") == [
        f"The {part} part of kiwikiwi is here."
        for part in ("first", "second", "third", "fourth", "fifth")
    ]


def test_a_prepared_data_set_is_reused(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare(["fruit"], tmp_path / "data")
    monkeypatch.delattr(PythonApi, "_split_generators")
    second = prepare(["fruit", "fruit"], tmp_path / "data")
    assert second.data_dir == first.data_dir
    assert read_corpus(second).fingerprint == read_corpus(first).fingerprint


def test_a_changed_package_is_another_data_set(site: Path, tmp_path: Path) -> None:
    before = prepare(["fruit"], tmp_path / "data").data_dir
    with (site / "fruit.py").open("a") as file:
        file.write(FUNCTION.format(name="pear", about="pearpear"))
    builder = prepare(["fruit"], tmp_path / "data")
    assert builder.data_dir != before
    assert "fruit.pear" in read_corpus(builder).entities


def test_the_name_tells_packages_and_versions() -> None:
    config = python_api_config(["scipy", "numpy"])
    assert config.packages == ("numpy", "scipy")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert config.name == f"numpy-{np.__version__}_scipy-{scipy.__version__}_python-{python}"
    # Where the distribution has another name than the package.
    assert python_api_config(["sklearn"]).name.startswith(f"sklearn-{version('scikit-learn')}_")


def test_the_name_of_many_packages_fits_a_folder(site: Path) -> None:
    many = []
    for i in range(30):
        (site / f"package{i}.py").touch()
        many.append(f"package{i}")
    assert len(python_api_config(many).name) < 100
    assert python_api_config(many).name != python_api_config([*many[:-1], "fruit"]).name


@pytest.mark.parametrize(
    ("packages", "problem"),
    [
        (["fruit", "no_such_thing"], "'no_such_thing' is not installed"),
        (["fruit.no.such"], "'fruit.no.such' is not installed"),
        ([""], "'' is not installed"),
        ([], "No package"),
        (["stones"], "stones: .*document set is empty"),
        (["fruit", "stones"], "stones: .*document set is empty"),
        (["crash"], "crash ended the interpreter"),
    ],
)
def test_packages_that_give_nothing_are_named(
    site: Path, tmp_path: Path, packages: list[str], problem: str
) -> None:
    (site / "crash.py").write_text("import os\nos._exit(3)")
    with pytest.raises(InputError, match=problem):
        prepare(packages, tmp_path / "data")
    assert not list(tmp_path.glob("data/**/*.array_record*"))


def test_a_builder_without_packages_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which packages"):
        PythonApi(data_dir=str(tmp_path), file_format="array_record").download_and_prepare()


@pytest.fixture(scope="module")
def numpy_corpus() -> EntityCorpus:
    return entity_corpus(*collect(["numpy"]))


def test_numpy_is_a_corpus_of_the_expected_kind(numpy_corpus: EntityCorpus) -> None:
    assert len(numpy_corpus.entities) > 600
    assert {"numpy.sum", "numpy.linalg.svd", "numpy.ndarray.sort"} <= set(numpy_corpus.entities)
    by_name = dict(zip(numpy_corpus.entities, numpy_corpus.aliases, strict=True))
    assert "numpy.random.Generator.gamma" in by_name["numpy.random.gamma"]
    assert "numpy.ma.stack" in by_name["numpy.stack"]
    assert np.diff(numpy_corpus.bounds).min() >= MIN_SENTENCES


def test_numpy_sentences_hold_neither_names_nor_queries(numpy_corpus: EntityCorpus) -> None:
    queries = {q.text.lower() for qs in numpy_corpus.queries.values() for q in qs}
    documents = itertools.pairwise(numpy_corpus.bounds)
    for entity, (start, end) in zip(numpy_corpus.entities, documents, strict=True):
        own = re.compile(rf"(?<!\w){entity.rpartition('.')[2]}(?!\w)", re.IGNORECASE)
        sentences = numpy_corpus.sentences[start:end]
        assert not any(own.search(sentence) for sentence in sentences)
        assert len({s.lower() for s in sentences}) == len(sentences)
    assert not queries & {sentence.lower() for sentence in numpy_corpus.sentences}
    assert not any(">>>" in s or "``" in s or ":func:" in s for s in numpy_corpus.sentences)
