"""The pins of the image: whole, with hashes, and what pyproject.toml asks for; and the bill of materials."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pins import BUILD, BUILD_NEEDS, DEPLOY, EXTRAS, FEEDER, FEEDER_NEEDS, IMAGE, ROOT, pins, python_of_image

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OF_EXTRAS = [need for extra in EXTRAS for need in PROJECT["project"]["optional-dependencies"][extra]]
NEEDS = (*PROJECT["project"]["dependencies"], *OF_EXTRAS)
FILES = [IMAGE, FEEDER, BUILD]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_line_has_a_version_and_hashes(path: Path) -> None:
    found = pins(path)
    assert len(found) > 2
    assert len({canonicalize_name(pin.name) for pin in found}) == len(found)
    assert all(pin.hashes for pin in found)


def test_a_line_without_hashes_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("numpy==2.4.0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"r\.txt: expected NAME==VERSION with --hash=sha256:…, got 'numpy"):
        pins(tmp_path / "r.txt")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_index_is_named(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"://|index|find-links|@|\.(org|com|net|io)\b", text)


@pytest.mark.parametrize(
    ("path", "needs"),
    [
        (IMAGE, NEEDS),
        (FEEDER, (*NEEDS, *FEEDER_NEEDS)),
        (BUILD, (*BUILD_NEEDS, *PROJECT["build-system"]["requires"])),
    ],
    ids=lambda given: given.name if isinstance(given, Path) else "",
)
def test_pins_are_what_is_needed(path: Path, needs: tuple[str, ...]) -> None:
    """And whole, as far as the packages are installed here in the version that is pinned."""
    versions = {canonicalize_name(pin.name): pin.version for pin in pins(path)}
    environment = {"python_version": python_of_image(), "sys_platform": "linux", "extra": ""}
    looked_at = 0
    for name, version in versions.items():
        try:
            here = distribution(name)
        except PackageNotFoundError:
            continue
        if here.version == version:
            needs = (*needs, *(here.requires or ()))
            looked_at += 1
    assert looked_at > len(versions) // 2 or path == BUILD
    for line in needs:
        need = Requirement(line)
        if need.marker is None or need.marker.evaluate(environment):
            assert canonicalize_name(need.name) in versions, line
            assert need.specifier.contains(versions[canonicalize_name(need.name)]), line


def test_the_image_has_what_the_extras_of_its_packages_need() -> None:
    named = {canonicalize_name(pin.name) for pin in pins(IMAGE)}
    needed = set()
    for need in map(Requirement, OF_EXTRAS):
        for line in distribution(need.name).requires or ():
            one = Requirement(line)
            if one.marker is not None and any(one.marker.evaluate({"extra": extra}) for extra in need.extras):
                needed.add(canonicalize_name(one.name))
    assert {"fastavro", "protobuf"} <= needed <= named


def test_the_feeder_runs_on_the_packages_of_the_image() -> None:
    assert set(pins(IMAGE)) <= set(pins(FEEDER))


def test_pins_are_of_the_python_of_the_image() -> None:
    for path in FILES:
        assert f"for Python {python_of_image()}, amd64 and arm64" in path.read_text(encoding="utf-8")


def test_the_image_installs_nothing_else() -> None:
    """Each pip of the Dockerfile checks hashes, or asks no index."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    calls = re.findall(r"pip (?:install|wheel)[^&\n]*", re.sub(r"^#.*$", "", text, flags=re.MULTILINE))
    assert len(calls) >= 4
    for call in calls:
        assert "--require-hashes" in call or "--no-index" in call, call


def test_an_audit_fails_where_nothing_is_known() -> None:
    """Without `--strict` a package that the database has no answer for would be passed over."""
    lines = re.findall(r"/pip-audit .*", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert {path.name for path in FILES if any(f"/{path.name} " in line for line in lines)} == {
        IMAGE.name, FEEDER.name
    }  # fmt: skip
    assert all("--strict " in line and "--require-hashes " in line for line in lines)


def test_the_bill_of_materials_names_every_package(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    [recipe] = re.findall(r"/(cyclonedx-py .*)dist/", makefile)
    command = [Path(sysconfig.get_path("scripts"), "cyclonedx-py"), *recipe.split()[1:], tmp_path / "sbom"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    bill = json.loads((tmp_path / "sbom").read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["name"] == "prequential"
    named = []
    for one in bill["components"]:
        hashes = [hash for place in one["externalReferences"] for hash in place["hashes"]]
        named.append((one["name"], one["version"], {f"--hash=sha256:{hash['content']}" for hash in hashes}))
    assert sorted(named) == sorted(pins(IMAGE))
