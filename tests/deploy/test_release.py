"""The release workflow: each step is a target of the Makefile, and a tag names one version everywhere."""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github/workflows/release.yml"

#: Commands that need GitHub's identity or its variables; and the whole of the tests.
_OTHERS = (
    ".ci/run", "docker ", "helm push ", "gh release ", "mkdir pypi ", "echo ", "image=", "version=",
    "digest=",
)  # fmt: skip


def program(name: str) -> ModuleType:
    """A program of `deploy/` as a module; `import wheel` would take the package of that name."""
    spec = importlib.util.spec_from_file_location(f"deploy_{name}", ROOT / "deploy" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def jobs() -> dict[str, Any]:
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]  # type: ignore[no-any-return]


def test_each_command_of_the_workflow_is_a_target_or_needs_an_identity() -> None:
    """What only GitHub can do: logins, pushes, the release itself."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made = set()
    for job in jobs().values():
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                if line.startswith("make "):
                    made.add(line.split()[1])
                else:
                    assert line.startswith(_OTHERS), line
    assert made <= targets
    assert {"tag", "wheel", "smoke", "sdist", "sbom", "audit", "image", "chart", "docs", "matrix"} <= made


def test_a_release_waits_for_all_its_parts_and_has_no_secret_of_an_index() -> None:
    publish = jobs()["publish"]
    assert set(publish["needs"]) == set(jobs()) - {"publish", "pages"}
    assert publish["permissions"]["id-token"] == "write"
    assert set(re.findall(r"secrets\.(\w+)", WORKFLOW.read_text(encoding="utf-8"))) == {"GITHUB_TOKEN"}


def test_wheels_are_for_each_python_that_the_package_names() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    requires = re.search(r'requires-python = ">=3\.(\d+)"', declared)
    assert requires is not None
    pythons = jobs()["wheels"]["strategy"]["matrix"]["python"]
    assert pythons == [f"3.{minor}" for minor in range(int(requires[1]), 15)]


def test_actionlint_finds_nothing() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint isn't installed")
    done = subprocess.run([actionlint], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_tag_is_the_version_of_all_parts() -> None:
    tag = program("tag")
    assert tag.faults("v0.2.0") == []
    [*faults] = tag.faults("v0.2.1")
    assert [fault.split()[0] for fault in faults] == [
        "pyproject.toml", *["deploy/helm/prequential/Chart.yaml"] * 2, "CHANGELOG.md",
    ]  # fmt: skip
    assert "has version 0.2.0: expected 0.2.1" in faults[0]
    for wrong in ("0.2.0", "v0.2", ""):
        assert tag.faults(wrong) == [f"the tag is {wrong!r}: expected v and a version, such as v0.2.0"]


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [("Linux", "x86_64", "manylinux_2_28_x86_64"), ("Linux", "aarch64", "manylinux_2_28_aarch64"),
     ("Darwin", "arm64", "macosx_11_0_arm64")],
)  # fmt: skip
def test_a_wheel_has_a_platform_that_indexes_accept(
    system: str, machine: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform_wheels = program("wheel")
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert platform_wheels.platform_tag() == expected
    processor, features = platform_wheels._PROCESSORS.get(machine, platform_wheels._GENERIC)
    assert bool(features) == (processor == "x86-64-v2") == (machine == "x86_64")
