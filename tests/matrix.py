"""The versions that are promised, tried: `make matrix`, some minutes a cell; no part of `make test`.

`python tests/matrix.py [--cell NAME …] [--tests PATH …]` makes an environment of each in `.venv-matrix`,
runs tests in it, and prints a row of a table. A cell is a Python with the oldest or the newest allowed
version of each dependency, and maybe a version of Apache Kafka.

A Python is looked for on the path, in pyenv's versions, and, where Go is installed, in a Go module that has
one. A cell whose Python can't be had is said to be missing, and makes the run fail.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-matrix"

#: The newest Kafka of each line, by what cells call it.
KAFKA = {"3.9": "3.9.1", "4.1": "4.1.0"}

#: What a version of Python or of a package could change: the engine, its numbers, and what crosses the wire.
ENGINE_TESTS = (
    "tests/engine/test_shard_against_oracle.py",
    "tests/engine/test_batching.py",
    "tests/engine/test_plain.py",
    "tests/engine/test_between_lives.py",
    "tests/engine/test_detector_registry.py",
    "tests/engine/test_merge.py",
    "tests/worker/test_stored_snapshot.py",
    "tests/topics",
    "tests/test_config.py",
    "tests/test_replay.py",
)  # fmt: skip
ENGINE_MARK = "not kafka and not embedded"

#: What a version of Kafka or of its client could change.
KAFKA_TESTS = ("tests/worker/test_end_to_end.py", "tests/worker/test_crash.py")

#: What tests need, in their newest versions whatever is tried.
TOOLS = (
    "fastavro", "hypothesis", "jsonschema", "pandas", "polars", "pyarrow", "pytest", "pytest-timeout",
    "river", "scikit-learn",
)  # fmt: skip

#: What is bound to a version for its insides, but not as Faust is to a single one.
UNCAPPED = ("numba",)

#: Shown of each cell.
SHOWN = ("numpy", "numba", "confluent-kafka", "faust-streaming", "msgspec")

#: Versions of a Go module that brings a Python along, by that Python.
GO_MODULE = "github.com/kluctl/go-embed-python"
GO_VERSIONS = {"3.10": "v0.0.0-3.10.16-20241219-1", "3.14": "v0.0.0-3.14.6-20260610-1"}

#: Where tests look for modules.
_PATHS = (".", "tests", "tests/engine", "pipeline", "topics")

_GO_PROGRAM = f"""package main

import (
	"os"

	"{GO_MODULE}/python"
)

func main() {{
	if _, err := python.NewEmbeddedPythonWithTmpDir(os.Args[1], false); err != nil {{
		panic(err)
	}}
}}
"""


class Cell(NamedTuple):
    """A Python, its packages, and the Kafka of the tests that need one, if any.

    Packages are the oldest or the newest ones that are allowed, or (`uncapped`) the newest with those of
    `UNCAPPED` beyond what is allowed: whether a bound can be raised.
    """

    python: str
    packages: str
    kafka: str | None = None

    @property
    def name(self) -> str:
        kafka = [f"kafka{self.kafka}"] if self.kafka else []
        return "-".join([f"python{self.python}", self.packages, *kafka])

    @property
    def environment(self) -> Path:
        return FOLDER / f"python{self.python}-{self.packages}"


CELLS = (
    Cell("3.10", "oldest"),
    Cell("3.10", "newest"),
    Cell("3.12", "oldest"),
    Cell("3.12", "newest"),
    Cell("3.14", "oldest"),
    Cell("3.14", "newest"),
    Cell("3.12", "uncapped"),
    Cell("3.10", "oldest", "3.9"),
    Cell("3.10", "oldest", "4.1"),
    Cell("3.14", "newest", "3.9"),
    Cell("3.14", "newest", "4.1"),
)


def find_python(version: str) -> Path | None:
    """An interpreter of that minor version that runs; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))]
    for place in chain(filter(None, places), _go_python(version)):
        asked = subprocess.run([place, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                               capture_output=True, text=True, check=False)  # fmt: skip
        if asked.stdout.strip() == version:
            return Path(place)
    return None


def _go_python(version: str) -> Iterator[Path]:
    """The interpreter of the Go module, unpacked by the module itself."""
    go, module = shutil.which("go"), GO_VERSIONS.get(version)
    if go is None or module is None:
        return
    home = FOLDER / f"go-python{version}"
    if not home.exists():
        with tempfile.TemporaryDirectory() as work:
            Path(work, "main.go").write_text(_GO_PROGRAM, encoding="utf-8")
            needs = f"module unpack\n\nrequire {GO_MODULE} {module}\n"
            Path(work, "go.mod").write_text(needs, encoding="utf-8")
            for command in (["mod", "tidy"], ["run", ".", home]):
                if subprocess.run([go, *command], cwd=work, check=False, stdout=sys.stderr).returncode:
                    return
    yield home / "bin" / f"python{version}"


def install(cell: Cell, python: Path) -> None:
    """Make the cell's environment, if it isn't there."""
    ready = cell.environment / ".ready"
    if ready.exists():
        return
    uv = Path(sysconfig.get_path("scripts"), "uv")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", python, cell.environment], check=True)
    in_it = ["--quiet", "--no-config", "--python", cell.environment / "bin" / "python"]
    with tempfile.TemporaryDirectory() as work:
        pinned = Path(work, "pinned.txt")
        resolution = "lowest-direct" if cell.packages == "oldest" else "highest"
        # Wheels alone: a version without one for this Python isn't one that users get.
        command = [uv, "pip", "compile", *in_it, "--resolution", resolution, "--only-binary", ":all:"]
        free = []
        if cell.packages == "uncapped":
            overrides = Path(work, "overrides.txt")
            overrides.write_text("\n".join(f"{name}>0" for name in UNCAPPED), encoding="utf-8")
            free = ["--override", overrides]
        subprocess.run([*command, *free, "--output-file", pinned, "pyproject.toml"], cwd=ROOT, check=True)
        needed = ["--constraint", pinned, *free, "--editable", ".", *TOOLS]
        subprocess.run([uv, "pip", "install", *in_it, *needed], cwd=ROOT, check=True)
    ready.touch()


def run(cell: Cell, tests: tuple[str, ...], options: list[str]) -> bool:
    """Run a cell's tests and print its row; whether all passed."""
    python = cell.environment / "bin" / "python"
    ask = "import sys, importlib.metadata as m; print(sys.version.split()[0], *map(m.version, sys.argv[1:]))"
    asked = subprocess.run([python, "-c", ask, *SHOWN], capture_output=True, text=True, check=True)
    versions = asked.stdout.split()
    # Compiled loops of its own; the broker's version.
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cell.environment / "loops"), "CI": "true"}
    environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / folder) for folder in _PATHS)
    if cell.kafka:
        environment["KAFKA_VERSION"] = KAFKA[cell.kafka]
        environment["PREQUENTIAL_TESTS"] = "large"  # chaos
    mark = [] if cell.kafka else ["-m", ENGINE_MARK]
    # Before the tests, which don't wait so long for a worker.
    compiling = "from prequential.runtime.compilation import compile_loops; compile_loops(print)"
    subprocess.run([python, "-c", compiling], env=environment, check=True, stdout=sys.stderr)
    # What other versions of packages warn of is in the log, and no failure.
    command = [python, "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider"]
    command += [*mark, *tests, *options]
    log = FOLDER / f"{cell.name}.log"
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=file, stderr=file, check=False)
    text = log.read_text(encoding="utf-8")
    said = re.findall(r"^.*\d+ (?:passed|failed|error).* in .*$", text, re.MULTILINE)
    outcome = said[-1].strip("= ") if said else f"no result: see {log}"
    digits = "" if cell.kafka else digest(python, environment)
    print("|", " | ".join([cell.name, *versions, outcome, digits]), "|", flush=True)
    return done.returncode == 0 and digits != "failed"


def digest(python: Path, environment: dict[str, str]) -> str:
    """Of all outputs and states of some worlds; the same everywhere."""
    done = subprocess.run([python, "tests/engine/test_without_jit.py"], cwd=ROOT, env=environment,
                          capture_output=True, check=False)  # fmt: skip
    return hashlib.sha256(done.stdout).hexdigest()[:12] if done.returncode == 0 else "failed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cell", action="append", choices=[cell.name for cell in CELLS], help="default: all")
    parser.add_argument("--tests", nargs="+", help="other tests")
    chosen, options = parser.parse_known_args()
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    print("| cell | Python |", " | ".join(SHOWN), "| tests | digest |\n|" + " --- |" * (len(SHOWN) + 4))
    good = True
    for cell in CELLS:
        if chosen.cell and cell.name not in chosen.cell:
            continue
        python = find_python(cell.python)
        if python is None:
            print(f"| {cell.name} |", "can't be had: no such Python here |", flush=True)
            good = False
            continue
        install(cell, python)
        good &= run(cell, tuple(chosen.tests or (KAFKA_TESTS if cell.kafka else ENGINE_TESTS)), options)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
