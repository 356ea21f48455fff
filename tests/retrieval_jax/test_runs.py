"""Run folders: creation, resume, and refusals."""

import dataclasses
import json

import pytest

from retrieval_jax.config import added_later
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.files import write_json
from retrieval_jax.runs import create_run, open_run, provenance_record
from retrieval_jax.sharding import MeshConfig
from retrieval_jax.training import TrainingConfig

CONFIG = TrainingConfig()


@dataclasses.dataclass(frozen=True)
class Names:
    keep_names: bool


def test_a_run_is_found_again_with_its_configuration(tmp_path):
    path = tmp_path / "runs" / "first"
    run = create_run(path, "toy", CONFIG, "abc")
    run.write_json("results.json", {"RR": 0.5})
    opened, config = open_run(str(path), "toy", TrainingConfig)
    assert config == CONFIG
    assert opened.read_json("results.json") == {"RR": 0.5}
    provenance = opened.read_json("provenance.json")
    assert provenance["data_fingerprint"] == "abc"
    assert provenance["versions"]["jax"]
    assert opened.plots.is_dir()


def test_the_same_configuration_opens_it_again_and_keeps_its_provenance(tmp_path):
    create_run(tmp_path, "toy", CONFIG, "abc")
    before = (tmp_path / "provenance.json").read_text()
    create_run(tmp_path, "toy", CONFIG, "abc")
    assert (tmp_path / "provenance.json").read_text() == before


def test_another_configuration_data_or_package_is_refused_with_the_difference(tmp_path):
    create_run(tmp_path, "toy", CONFIG, "abc")
    with pytest.raises(InputError, match=r"config\.steps: 1000 -> 5"):
        create_run(tmp_path, "toy", dataclasses.replace(CONFIG, steps=5), "abc")
    with pytest.raises(InputError, match="data fingerprint: abc -> xyz"):
        create_run(tmp_path, "toy", CONFIG, "xyz")
    with pytest.raises(InputError, match="package: 'toy' -> 'other'"):
        create_run(tmp_path, "other", CONFIG, "abc")


def test_what_does_not_change_the_result_may_change_on_resume(tmp_path):
    create_run(tmp_path, "toy", CONFIG, "abc")
    other = dataclasses.replace(
        CONFIG, mesh=MeshConfig(data=2, model=4), profile=True, keep=5, prefetch=0, tensorboard=True
    )
    create_run(tmp_path, "toy", other, "abc")


@dataclasses.dataclass(frozen=True)
class Later:
    keep_names: bool
    passes: int = added_later(2, earlier=1)


def test_fields_that_came_later_have_the_value_that_earlier_runs_meant(tmp_path):
    create_run(tmp_path, "toy", Names(keep_names=False), "abc")
    create_run(tmp_path, "toy", Later(keep_names=False, passes=1), "abc")
    with pytest.raises(InputError, match="passes: 1 -> 2"):
        create_run(tmp_path, "toy", Later(keep_names=False), "abc")


def test_a_folder_whose_making_was_cut_short_is_made_again(tmp_path, monkeypatch):
    def full(path, values):
        if path.name == "config.json":
            (tmp_path / "config.json.7.partial").touch()
            raise OSError(28, "No space left on device")
        write_json(path, values)

    with monkeypatch.context() as patch, pytest.raises(InputError, match="No space left"):
        patch.setattr("retrieval_jax.runs.write_json", full)
        create_run(tmp_path, "toy", CONFIG, "abc")
    assert (tmp_path / "provenance.json").is_file()
    create_run(tmp_path, "toy", CONFIG, "xyz")
    assert open_run(tmp_path, "toy", TrainingConfig)[1] == CONFIG


def test_a_field_whose_name_begins_like_one_of_these_may_not(tmp_path):
    create_run(tmp_path, "toy", Names(keep_names=False), "abc")
    with pytest.raises(InputError, match="keep_names: False -> True"):
        create_run(tmp_path, "toy", Names(keep_names=True), "abc")


def test_provenance_does_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance_record("abc")["git_revision"] is None


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="not empty"):
        create_run(tmp_path, "toy", CONFIG, "abc")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_is_no_run_of_the_package_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such run folder"):
        open_run(tmp_path / "none", "toy", TrainingConfig)
    with pytest.raises(InputError, match=r"no config\.json"):
        open_run(tmp_path, "toy", TrainingConfig)
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 3}))
    with pytest.raises(InputError, match="BERT folder"):
        open_run(tmp_path, "toy", TrainingConfig)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="no JSON"):
        open_run(tmp_path, "toy", TrainingConfig)
    create_run(tmp_path / "run", "gcl_jax", CONFIG, "abc")
    with pytest.raises(InputError, match=r"run of gcl_jax, not of toy(.|\n)*gcl_jax\.load"):
        open_run(tmp_path / "run", "toy", TrainingConfig)


def test_commands_show_input_errors_on_one_screen(capsys):
    @one_screen_errors
    def main():
        raise InputError("the problem", "the remedy")

    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    assert capsys.readouterr().err == "error: the problem\nthe remedy\n"


def test_commands_show_files_that_cannot_be_written_on_one_screen(capsys):
    @one_screen_errors
    def main():
        raise PermissionError(13, "Permission denied", "runs/first")

    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: runs/first: Permission denied\n")
    assert "Traceback" not in err


def test_the_command_names_no_folder_of_the_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    inside, outside = tmp_path / "runs" / "a", "/elsewhere/reviews.xz"
    arguments = ["-m", "docent_jax", "--run", str(inside), f"--data={outside}", "a=b", "1e-3"]
    monkeypatch.setattr("sys.orig_argv", ["/usr/bin/python", *arguments])
    expected = "python -m docent_jax --run runs/a --data=reviews.xz a=b 1e-3"
    assert provenance_record("abc")["command"] == expected
