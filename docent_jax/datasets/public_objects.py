"""The public functions and classes of installed packages, with their docstrings.

Packages are imported by running this file as a script in a fresh interpreter: what is found depends
neither on what the caller has imported nor leaves hundreds of modules behind, and a module that
ends its interpreter is an error message. As a script it needs the standard library alone.
"""

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import types
import warnings
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

# Private modules and tests.
_NOT_PUBLIC = re.compile(r"_.*|conftest|tests?|test_.*|.*_test")


class PublicObject(NamedTuple):
    """A function or class.

    Attributes:
        paths: every public dotted path to it, the most public one first: few dots, then not by
            inheritance, then short.
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
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
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


def publicity(path: str, is_inherited: bool = False) -> tuple[int, bool, int, str]:
    """Sorts dotted paths, the most public one first."""
    return path.count("."), is_inherited, len(path), path


def _modules(name: str, counts: Counter[str]) -> Iterator[tuple[str, types.ModuleType]]:
    """Imports a module and the public modules below it, depth first."""
    try:
        module = importlib.import_module(name)
        children = sorted(
            info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ()))
        )
    except KeyboardInterrupt:
        raise
    except BaseException:  # A module may also end the interpreter, or skip itself as a test.
        counts["modules that failed to import"] += 1
        return
    counts["modules"] += 1
    yield name, module
    for child in children:
        if not _NOT_PUBLIC.fullmatch(child):
            yield from _modules(f"{name}.{child}", counts)


class _Member(NamedTuple):
    name: str
    value: object
    docstring: str | None
    root_package: str


def _members(owner: object, counts: Counter[str]) -> Iterator[_Member]:
    """The functions and classes that a module or class makes public, by name."""
    try:
        declared = getattr(owner, "__all__", None)
        names = sorted(dir(owner) if declared is None else declared)
    except Exception:
        counts["modules and classes that failed to list their names"] += 1
        return
    for name in names:
        if name.startswith("_"):
            continue
        try:  # Attributes may be computed, and fail.
            value = getattr(owner, name)
            value = getattr(value, "__func__", value)
            member = _Member(name, value, _own_docstring(value), _root_package(value))
        except Exception:
            counts["attributes that failed to load"] += 1
            continue
        if callable(value):
            yield member


def _own_docstring(value: object) -> str | None:
    """The docstring, unless it is only that of the value's class."""
    docstring = getattr(value, "__doc__", None)
    is_inherited = not isinstance(value, type) and docstring == type(value).__doc__
    return docstring if isinstance(docstring, str) and not is_inherited else None


def _root_package(value: object) -> str:
    """The package that defines a value; C methods and ufuncs know it by their class alone."""
    definer = getattr(value, "__module__", None)
    if not isinstance(definer, str):
        definer = getattr(value, "__objclass__", type(value)).__module__
    return definer.partition(".")[0]


def _paths(
    package: str, roots: Container[str], counts: Counter[str]
) -> Iterator[tuple[_Member, str, bool]]:
    """Every member below a package with a path to it, and whether that is by inheritance."""
    for module_name, module in _modules(package, counts):
        for member in _members(module, counts):
            path = f"{module_name}.{member.name}"
            yield member, path, False
            if isinstance(member.value, type) and member.root_package in roots:
                for method in _members(member.value, counts):
                    is_inherited = method.name not in vars(member.value)
                    yield method, f"{path}.{method.name}", is_inherited


def _collect_here(packages: Sequence[str]) -> tuple[list[PublicObject], Counter[str]]:
    """`collect`, in this interpreter."""
    counts: Counter[str] = Counter()
    roots = {package.partition(".")[0] for package in packages}
    # By id of the value; the member holds the value, so that no other one gets its id.
    members: dict[int, _Member] = {}
    ranks: defaultdict[int, set[tuple[int, bool, int, str]]] = defaultdict(set)
    for package in packages:
        for member, path, is_inherited in _paths(package, roots, counts):
            members.setdefault(id(member.value), member)
            ranks[id(member.value)].add(publicity(path, is_inherited))
    objects = []
    for key, member in members.items():
        if member.root_package not in roots:
            counts["objects of other packages"] += 1
        elif member.docstring is None:
            counts["objects without a docstring"] += 1
        else:
            counts["objects"] += 1
            counts["aliases of the same object"] += len(ranks[key]) - 1
            paths = tuple(path for *_, path in sorted(ranks[key]))
            objects.append(PublicObject(paths, member.docstring))
    return sorted(objects), counts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    result_path, *package_names = sys.argv[1:]
    all_objects, all_counts = _collect_here(package_names)
    Path(result_path).write_text(
        json.dumps({"objects": all_objects, "counts": all_counts}), encoding="utf-8"
    )
