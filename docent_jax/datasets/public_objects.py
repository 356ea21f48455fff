"""The public functions and classes of installed packages, with their docstrings.

Packages are imported by running this file as a script in a fresh interpreter: what is found depends
neither on what the caller has imported nor leaves hundreds of modules behind, and a module that
ends its interpreter is an error message. As a script it needs the standard library alone.
"""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import types
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_TEST_MODULE = ("test", "tests", "conftest")


class PublicObject(NamedTuple):
    """A function or class.

    Attributes:
        paths: every public dotted path to it, the most public one (fewest dots) first.
        docstring: as written.
    """

    paths: tuple[str, ...]
    docstring: str


def collect(packages: Sequence[str]) -> tuple[list[PublicObject], dict[str, int]]:
    """Finds the public functions and classes of packages, in a fresh interpreter.

    Returns:
        The objects in the order of their first paths, and counts of what was seen and skipped.

    Raises:
        RuntimeError: the interpreter ended early, as when a module crashes it.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # Sets that modules print into docstrings keep their order.
        "PYTHONHASHSEED": "0",
        # The caller may hold the accelerator.
        "JAX_PLATFORMS": "cpu",
    }
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "objects.json")
        finished = subprocess.run(
            [sys.executable, "-P", __file__, str(result), *packages],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode or not result.exists():
            raise RuntimeError(finished.stderr[-2000:])
        found = json.loads(result.read_text(encoding="utf-8"))
    objects = [PublicObject(tuple(paths), docstring) for paths, docstring in found["objects"]]
    return objects, found["counts"]


def _modules(name: str, counts: Counter[str]) -> Iterator[types.ModuleType]:
    """Imports a module and the public modules below it, depth first."""
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit):
        counts["modules that failed to import"] += 1
        return
    counts["modules"] += 1
    yield module
    for child in sorted(info.name for info in pkgutil.iter_modules(getattr(module, "__path__", []))):
        if not child.startswith(("_", "test_")) and child not in _TEST_MODULE:
            yield from _modules(f"{name}.{child}", counts)


def publicity(path: str) -> tuple[int, int, str]:
    """Sorts dotted paths: few dots first, then short ones, then by alphabet."""
    return path.count("."), len(path), path


def _public_names(owner: object) -> list[str]:
    """What `__all__` declares, else the names without a leading underscore."""
    declared = getattr(owner, "__all__", None)
    return sorted(dir(owner) if declared is None else declared)


def _members(owner: object, counts: Counter[str]) -> Iterator[tuple[str, object]]:
    """The public functions and classes that a module or class holds, by name."""
    for name in _public_names(owner):
        if name.startswith("_"):
            continue
        try:
            member = getattr(owner, name)
            member = getattr(member, "__func__", member)
        except Exception:
            counts["attributes that failed to load"] += 1
            continue
        if callable(member):
            yield name, member


def _own_docstring(member: object) -> str | None:
    """The docstring, unless it is only that of the instance's class."""
    docstring = getattr(member, "__doc__", None)
    is_inherited = not isinstance(member, type) and docstring == type(member).__doc__
    return docstring if isinstance(docstring, str) and not is_inherited else None


def _root_package(member: object) -> str:
    """The package that defines an object; C methods and ufuncs know it by their class alone."""
    definer = getattr(member, "__module__", None)
    if not isinstance(definer, str):
        definer = getattr(member, "__objclass__", type(member)).__module__
    return definer.partition(".")[0]


def _collect_here(packages: Sequence[str]) -> tuple[list[PublicObject], Counter[str]]:
    """`collect`, in this interpreter."""
    counts: Counter[str] = Counter()
    roots = {package.partition(".")[0] for package in packages}
    # Holds the objects, so that no later one can have the id of an earlier one.
    found: dict[int, tuple[object, set[str]]] = {}
    for package in packages:
        for module in _modules(package, counts):
            for name, member in _members(module, counts):
                path = f"{module.__name__}.{name}"
                found.setdefault(id(member), (member, set()))[1].add(path)
                if isinstance(member, type) and _root_package(member) in roots:
                    for method_name, method in _members(member, counts):
                        found.setdefault(id(method), (method, set()))[1].add(
                            f"{path}.{method_name}"
                        )
    objects = []
    for member, paths in found.values():
        docstring = _own_docstring(member)
        if _root_package(member) not in roots:
            counts["objects of other packages"] += 1
        elif docstring is None:
            counts["objects without a docstring"] += 1
        else:
            counts["objects"] += 1
            counts["aliases of the same object"] += len(paths) - 1
            objects.append(PublicObject(tuple(sorted(paths, key=publicity)), docstring))
    return sorted(objects), counts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    result_path, *package_names = sys.argv[1:]
    all_objects, all_counts = _collect_here(package_names)
    Path(result_path).write_text(
        json.dumps({"objects": all_objects, "counts": all_counts}), encoding="utf-8"
    )
