"""The picture shows the contracts, the contracts name all packages, and class names are unique."""

from __future__ import annotations

import ast
import sys
from collections import Counter

import pytest

from tests.packages import PICTURE, ROOT, contracts, drawn, layers

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with 3.11")


def test_the_picture_shows_the_contracts() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(), "run tests/packages.py"


def test_the_contracts_name_all_packages() -> None:
    """A package without modules of its own stands for those in it."""
    every, engine = ([name for layer in layers(one) for name in layer] for one in contracts())
    root = ROOT / "pipeline" / "prequential"
    found = set()
    for init in (*root.glob("*/__init__.py"), *root.glob("*/*/__init__.py")):
        folder, outer = init.parent, init.parents[1]
        holds_packages_only = folder != root / "engine" and any(folder.glob("*/__init__.py"))
        if not holds_packages_only and outer != root / "engine":
            found.add(folder.relative_to(root).as_posix())
    assert sorted(every) == sorted(found | {"topics"})
    inside = {folder.parent.name for folder in (root / "engine").glob("*/__init__.py")}
    inside |= {file.stem for file in (root / "engine").glob("*.py")} - {"__init__"}
    assert sorted(engine) == sorted(inside)


def test_an_installation_has_all_packages() -> None:
    """Tests run on the sources: nothing else notices a folder that an installation lacks."""
    import tomllib

    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(content["tool"]["setuptools"]["packages"])
    for root in (ROOT / "pipeline", ROOT / "topics"):
        for init in root.rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(root).parts)
            assert name in listed, f"pyproject.toml lists no package {name}: tool.setuptools.packages"


def test_no_two_classes_have_one_name() -> None:
    """A reader should not have to look up the module to know which class is meant."""
    files = [path for root in ("pipeline", "topics") for path in (ROOT / root).rglob("*.py")]
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in files)
    names = Counter(one.name for tree in trees for one in ast.walk(tree) if isinstance(one, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == set()
