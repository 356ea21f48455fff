"""Collecting objects from small packages written for the test."""

from pathlib import Path

import pytest

from docent_jax.datasets.public_objects import PublicObject, collect, publicity


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write(site: Path, files: dict[str, str]) -> None:
    for name, source in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(source)


def test_objects_with_all_their_paths(site: Path) -> None:
    write(
        site,
        {
            "shop/__init__.py": "from shop.tools.saw import cut, Saw\nfrom json import dumps\n",
            "shop/tools/__init__.py": "",
            "shop/tools/saw.py": (
                "def cut():\n    'Cuts.'\n"
                "def _hidden():\n    'Hidden.'\n"
                "def silent(): pass\n"
                "class Saw:\n    'A saw.'\n    def sharpen(self): 'Sharpens.'\n"
                "class FineSaw(Saw):\n    'A fine saw.'\n"
            ),
            "shop/_private.py": "def secret(): 'Secret.'\n",
            "shop/tests/test_saw.py": "raise SystemExit\n",
        },
    )
    objects, counts = collect(["shop"])
    assert objects == [
        PublicObject(("shop.Saw", "shop.tools.saw.Saw"), "A saw."),
        PublicObject(
            ("shop.Saw.sharpen", "shop.tools.saw.Saw.sharpen", "shop.tools.saw.FineSaw.sharpen"),
            "Sharpens.",
        ),
        PublicObject(("shop.cut", "shop.tools.saw.cut"), "Cuts."),
        PublicObject(("shop.tools.saw.FineSaw",), "A fine saw."),
    ]
    assert counts == {
        "modules": 3,
        "objects": 4,
        "aliases of the same object": 4,
        "objects without a docstring": 1,
        "objects of other packages": 1,
    }


def test_all_declares_what_is_public(site: Path) -> None:
    write(
        site,
        {"shelf.py": "__all__ = ['a', 'gone']\ndef a(): 'A.'\ndef b(): 'B.'\n"},
    )
    objects, counts = collect(["shelf"])
    assert objects == [PublicObject(("shelf.a",), "A.")]
    assert counts["attributes that failed to load"] == 1


def test_instances_count_with_a_docstring_of_their_own(site: Path) -> None:
    write(
        site,
        {
            "box.py": (
                "class Call:\n    'The class.'\n    def __call__(self): pass\n"
                "plain, special = Call(), Call()\nspecial.__doc__ = 'The instance.'\n"
            )
        },
    )
    objects, _ = collect(["box"])
    assert objects == [
        PublicObject(("box.Call",), "The class."),
        PublicObject(("box.special",), "The instance."),
    ]


def test_modules_that_cannot_be_imported_are_counted(site: Path) -> None:
    write(
        site,
        {
            "torn/__init__.py": "",
            "torn/a.py": "import no_such_module",
            "torn/b.py": "raise SystemExit(1)",
            "torn/c.py": "print('noise')\ndef f(): 'Fine.'\n",
            "torn/d.py": "__all__ = 5",
        },
    )
    objects, counts = collect(["torn"])
    assert objects == [PublicObject(("torn.c.f",), "Fine.")]
    assert counts["modules that failed to import"] == 2
    assert counts["modules and classes that failed to list their names"] == 1


def test_a_module_that_ends_the_interpreter_is_an_error(site: Path) -> None:
    write(
        site,
        {"crash.py": "import os, sys\nsys.stderr.write('dying')\nsys.stderr.flush()\nos._exit(0)"},
    )
    with pytest.raises(RuntimeError, match="dying"):
        collect(["crash"])


def test_what_this_process_imported_does_not_matter(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(site, {"calm.py": "def f(): 'Fine.'\n"})
    before = collect(["calm"])
    import calm  # pyright: ignore[reportMissingImports]

    monkeypatch.setattr(calm, "g", lambda: None, raising=False)
    monkeypatch.delattr(calm, "f")
    assert collect(["calm"]) == before


def test_publicity_orders_by_dots_then_ownership_then_length() -> None:
    assert publicity("a.long_name") < publicity("a.b.c")
    assert publicity("a.Longer.c") < publicity("a.B.c", is_inherited=True)
    assert publicity("a.b") < publicity("a.bb")
