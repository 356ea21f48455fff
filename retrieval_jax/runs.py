"""Run folders: what a training run leaves, and how another process finds it again.

`config.json` (package and configuration), `provenance.json` (versions, data, command),
`metrics.jsonl`, `checkpoints/`, `best/`, `results.json`, `ranking.trec`, `plots/`, and what the
package itself adds (tokenizer, entity names).
"""

import dataclasses
import importlib.metadata
import json
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

import jax

from retrieval_jax import config as config_lib
from retrieval_jax.distributed import is_main, on_main
from retrieval_jax.errors import InputError
from retrieval_jax.files import write_json

C = TypeVar("C")
VERSIONED = ("jax", "flax", "optax", "orbax-checkpoint", "grain", "numpy", "scipy", "transformers")
# Fields of a configuration that may change when a run is resumed: what is computed stays the same,
# but for the mesh: sums in another order, and with chunks other dropout.
RESUMABLE = ("mesh", "prefetch", "profile", "keep", "tensorboard")


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """A run folder on disk.

    Attributes:
        path: the folder.
        package: which package's run it is, for example "docent_jax".
    """

    path: Path
    package: str

    @property
    def plots(self) -> Path:
        """Folder of pictures, made if absent."""
        (self.path / "plots").mkdir(exist_ok=True)
        return self.path / "plots"

    def write_json(self, name: str, values: Any) -> None:
        """Writes `values` as the folder's file `name`, whole or not at all.

        Of several processes the first writes.

        Raises:
            InputError: it cannot be written.
        """
        if not is_main():
            return
        try:
            write_json(self.path / name, values)
        except OSError as error:
            raise InputError(
                f"{self.path / name} cannot be written: {error.strerror}",
                "Is the disk full, or the folder read-only?",
            ) from error

    def read_json(self, name: str) -> Any:
        """Reads the folder's file `name`.

        Raises:
            InputError: absent, or no JSON.
        """
        path = self.path / name
        if not path.is_file():
            raise InputError(f"no {name} in {self.path}", "Is it a finished run folder?")
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is no JSON: {error}", "Restore it or train again.") from error


def create_run(path: Path, package: str, config: Any, data_fingerprint: str) -> RunFolder:
    """Makes a run folder, or opens it again to resume the same run.

    Of several processes, which must all call it, the first does so.

    Args:
        path: the folder.
        package: name of the calling package.
        config: its configuration, a dataclass.
        data_fingerprint: hash of what is trained on, and of what chooses the best step.

    Raises:
        InputError: the folder holds a run of another package, configuration or data (differences
            shown), or files but no run.
    """
    run = RunFolder(path, package)
    on_main(lambda: _make_or_check(run, config, data_fingerprint))
    return run


def _make_or_check(run: RunFolder, config: Any, data_fingerprint: str) -> None:
    path = run.path
    described = {"package": run.package, "config": config_lib.to_dict(config)}
    if (path / "config.json").is_file():
        earlier = run.read_json("config.json")
        if earlier.get("package") == run.package:
            earlier["config"] = _in_present_form(type(config), earlier["config"])
        changed = [
            line
            for line in config_lib.differences(earlier, described)
            if set(line.split(":")[0].split(".")).isdisjoint(RESUMABLE)
        ]
        before = run.read_json("provenance.json")["data_fingerprint"]
        if before != data_fingerprint:
            changed.append(f"data fingerprint: {before[:12]} -> {data_fingerprint[:12]}")
        if changed:
            shown = "\n  ".join(changed[:20])
            raise InputError(
                f"{path} holds another run; it differs in\n  {shown}",
                "Give another --run folder, or the same configuration to resume.",
            )
        return
    if path.is_dir() and not all(_is_left_by_creation(file) for file in path.iterdir()):
        raise InputError(f"{path} is not empty and no run folder", "Give a new --run folder.")
    path.mkdir(parents=True, exist_ok=True)
    run.write_json("provenance.json", provenance_record(data_fingerprint))
    run.write_json("config.json", described)


def _in_present_form(config_class: type[Any], written: Any) -> Any:
    """A written configuration with the fields that came later; as it is if of another form."""
    try:
        return config_lib.to_dict(config_lib.from_dict(config_class, written, "config.json"))
    except InputError:
        return written


def _is_left_by_creation(file: Path) -> bool:
    """Whether a folder that was begun, on a disk that was full, holds such a file."""
    return file.name == "provenance.json" or file.suffix == ".partial"


def open_run(path: Path | str, package: str, config_class: type[C]) -> tuple[RunFolder, C]:
    """Opens a run folder for reading.

    Raises:
        InputError: no such folder, no run in it, a run of another package, or one written by a
            version with other fields.
    """
    path = Path(path)
    if not path.is_dir():
        raise InputError(f"no such run folder: {path}", "Check the path; train one first.")
    run = RunFolder(path, package)
    if not (path / "config.json").is_file():
        raise InputError(f"{path} is no run folder: it has no config.json", "Train one first.")
    described = run.read_json("config.json")
    if "package" not in described or "config" not in described:
        raise InputError(
            f"{path / 'config.json'} is no run's configuration",
            "A run folder is wanted, not an encoder's (a BERT folder).",
        )
    if described["package"] != package:
        raise InputError(
            f"{path} is a run of {described['package']}, not of {package}",
            f"Load it with {described['package']}.load({str(path)!r}).",
        )
    return run, config_lib.from_dict(config_class, described["config"], f"{path / 'config.json'}")


def provenance_record(data_fingerprint: str) -> dict[str, Any]:
    """Says what a result was made with: command, versions, revision, devices, data."""
    return {
        "command": shlex.join(["python", *map(without_machine_paths, sys.orig_argv[1:])]),
        "data_fingerprint": data_fingerprint,
        "git_revision": _git_revision(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in VERSIONED},
        "devices": [f"{device.platform}:{device.device_kind}" for device in jax.devices()],
    }


def without_machine_paths(argument: str) -> str:
    """An argument or text without folders of this machine: relative to the current, or the name."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return argument
    inside = path.is_relative_to(Path.cwd())
    return f"{option}{equals}{path.relative_to(Path.cwd()) if inside else path.name}"


def _git_revision() -> str | None:
    """Revision of this code's own checkout; None for an installed copy or without git."""
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout.strip() or None
