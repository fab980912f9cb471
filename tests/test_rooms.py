"""The rooms: the picture shows the contracts, and the contracts name all rooms."""

from __future__ import annotations

import ast
import sys
from collections import Counter

import pytest

from tests import rooms

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with 3.11")


def test_the_picture_shows_the_contracts() -> None:
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.drawn(), "python tests/rooms.py draws it anew"


def test_the_contracts_name_all_rooms() -> None:
    house, core = ([room for floor in rooms.floors(one) for room in floor] for one in rooms.contracts())
    packages = rooms.ROOT / "pipeline" / "prequential"
    folders = {folder.parent.name for folder in packages.glob("*/__init__.py")}
    assert sorted(house) == sorted(folders | {"topics"})
    of_core = {folder.parent.name for folder in (packages / "core").glob("*/__init__.py")}
    of_core |= {file.stem for file in (packages / "core").glob("*.py")} - {"__init__"}
    assert sorted(core) == sorted(of_core)


def test_what_is_installed_has_all_rooms() -> None:
    """Tests run on the sources: nothing else notices a folder that an installation lacks."""
    import tomllib

    content = tomllib.loads((rooms.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(content["tool"]["setuptools"]["packages"])
    for root in (rooms.ROOT / "pipeline", rooms.ROOT / "topics"):
        for init in root.rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(root).parts)
            assert name in listed, f"pyproject.toml lists no package {name}: tool.setuptools.packages"


#: Names that two classes still have, until their rooms are tidied. No name is added to these.
_SHARED = {"Clusters", "Events", "Finding", "History", "MicroBatch", "Names", "Part", "Place", "Pool"}


def test_no_two_classes_have_one_name() -> None:
    """A reader should not have to look up the module to know which class is meant."""
    files = [path for root in ("pipeline", "topics") for path in (rooms.ROOT / root).rglob("*.py")]
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in files)
    names = Counter(one.name for tree in trees for one in ast.walk(tree) if isinstance(one, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} <= _SHARED
