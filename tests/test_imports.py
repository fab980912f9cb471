"""What importing the library does to a user's process: nothing but to import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Prints the environment's changes after the import of all modules that are given.
_CHANGES = """
import importlib, os, sys
before = dict(os.environ)
for name in sys.argv[1:]:
    importlib.import_module(name)
    changed = {key: value for key, value in os.environ.items() if before.get(key) != value}
    gone = before.keys() - os.environ.keys()
    assert not changed and not gone, f"importing {name} changes {changed or gone}"
"""

#: Runs the program; prints what was set when numpy began to be imported.
_PROGRAM = """
import os, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "numpy":
            print(os.environ.get("OPENBLAS_NUM_THREADS"))

sys.meta_path.insert(0, Finder)
import pipeline.cli.main as program
assert "numpy" not in sys.modules
program.main(["--version"])
"""


def python(code: str, *words: str, **environment: str) -> str:
    """What a new interpreter prints."""
    free = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=Path(__file__).parents[1], env=free | environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_leaves_the_environment_alone() -> None:
    """What model servers and notebooks import, and what it stands on."""
    python(
        _CHANGES,
        "pipeline", "pipeline.serving.temporal", "pipeline.serving.waiting", "topics.producer",
        "topics.admin", "pipeline.core.shard", "pipeline.config", "pipeline.configfile", "pipeline.files",
        "pipeline.broker", "pipeline.cli.main", "pipeline.cli.worker", "pipeline.cli.replay",
    )  # fmt: skip


@pytest.mark.parametrize(("given", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_the_program_has_no_threads_that_wait_for_matrices(given: dict[str, str], used: str) -> None:
    """OpenBLAS starts them when numpy is imported, so it must be set by then; the user's setting wins."""
    assert python(_PROGRAM, **given).splitlines()[0] == used
