"""Folders of source files: given, below RETRIEVAL_DATA, or an error that names both ways."""

from pathlib import Path

import pytest

from retrieval_jax.data_folders import DATA_VARIABLE, data_folder, present_folder
from retrieval_jax.errors import InputError


def test_a_folder_that_is_given_comes_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert data_folder("films", "here", "--folder") == Path("here")
    assert data_folder("films", None, "--folder") == tmp_path / "films"


def test_no_folder_is_an_error_that_names_both_ways(monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(InputError, match="no folder to read films") as error:
        data_folder("films", None, "--folder", " Or download it.")
    assert error.value.remedy == (
        "Give it as --folder, or in RETRIEVAL_DATA the folder that holds a folder films."
        " Or download it."
    )


def test_a_folder_that_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(InputError) as error:
        present_folder("films", None, "--folder", "movies.tsv")
    assert error.value.problem == f"There is no folder {tmp_path / 'films'}."
    assert error.value.remedy == (
        "Check --folder, or RETRIEVAL_DATA; the folder holds movies.tsv and others."
    )
    (tmp_path / "films").mkdir()
    assert present_folder("films", None, "--folder", "movies.tsv") == tmp_path / "films"
    assert present_folder("films", str(tmp_path), "--folder", "movies.tsv") == tmp_path
