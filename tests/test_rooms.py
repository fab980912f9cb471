"""The rooms: the picture shows the contracts, and the contracts name all rooms."""

from __future__ import annotations

import sys

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
