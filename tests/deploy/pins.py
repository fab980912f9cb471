"""The image's packages, each pinned to a version and its files' hashes; `make pins` resolves them anew.

One file serves both processors that the image is built for: a version's hashes are those of all its files.
The packages that a build needs are pinned, too. A test holds the files against pyproject.toml.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

#: What the image and the feeder's image hold, and what their packages are built with.
IMAGE, FEEDER, BUILD = (DEPLOY / f"requirements{part}.txt" for part in ("", "-feeder", "-build"))

#: Of our extras, what the image holds: what the commands that run in a cluster need.
EXTRAS = ("files", "ingest", "mcp", "otlp")

#: What the feeder's models are of, beside the program.
FEEDER_NEEDS = ("river>=0.21",)

#: Of our own wheel, and of the one dependency that has no wheel for arm64 (faust-streaming).
BUILD_NEEDS = ("setuptools>=69", "setuptools_scm[toml]", "wheel", "cython>=3.1")

#: Processors, as the image's glibc has them.
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28")

_HEADER = "# {what}: made by `make pins` for Python {python}, amd64 and arm64.\n"

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?P<rest>( --hash=sha256:[0-9a-f]{64})+)")


class Pin(NamedTuple):
    """A package of one version, and the hashes of its files."""

    name: str
    version: str
    hashes: frozenset[str]


def python_of_image() -> str:
    """The minor version of Python that the image has, `3.11`."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"^ARG PYTHON=python:(\d+\.\d+)\.", text, re.MULTILINE)
    assert found is not None
    return found[1]


def pins(path: Path) -> list[Pin]:
    """What a file pins; raises ValueError at a line that pins nothing, or without hashes."""
    text = path.read_text(encoding="utf-8").replace(" \\\n", "")
    found = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        pin = _PIN.fullmatch(re.sub(" +", " ", line))
        if pin is None:
            raise ValueError(f"{path.name}: expected NAME==VERSION with --hash=sha256:…, got {line[:80]!r}")
        found.append(Pin(pin["name"], pin["version"], frozenset(pin["rest"].split())))
    return found


def compile_pins(what: str, path: Path, *sources: str | Path, needs: tuple[str, ...] = ()) -> None:
    """Resolve what is needed, to the newest versions that fit, and write the file.

    Raises SystemExit if the platforms need different packages: one file must do.
    """
    uv = Path(sysconfig.get_path("scripts"), "uv")
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        extra = Path(folder, "needs.in")
        extra.write_text("\n".join(needs), encoding="utf-8")
        for platform in PLATFORMS:
            out = Path(folder, f"{platform}.txt")
            command = [uv, "pip", "compile", "--quiet", "--no-config", "--upgrade", "--generate-hashes"]
            command += ["--python-version", python_of_image(), "--python-platform", platform]
            # No address of an index, whatever the one is that this machine has.
            command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
            subprocess.run([*command, "--output-file", out, *sources, extra], cwd=ROOT, check=True)
            texts.append(out.read_text(encoding="utf-8"))
    if len(set(texts)) > 1:
        sys.exit(f"{path.name}: {' and '.join(PLATFORMS)} need different packages")
    path.write_text(_HEADER.format(what=what, python=python_of_image()) + texts[0], encoding="utf-8")


def main() -> None:
    project = ("pyproject.toml", *(word for extra in EXTRAS for word in ("--extra", extra)))
    compile_pins("Packages of the image", IMAGE, *project)
    # The same versions as the image's, and more.
    compile_pins(
        "Packages of the feeder's image", FEEDER, *project, "--constraint", IMAGE, needs=FEEDER_NEEDS
    )
    compile_pins("What the image's packages are built with", BUILD, needs=BUILD_NEEDS)


if __name__ == "__main__":
    main()
