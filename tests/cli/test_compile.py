"""`prequential compile`: what it needs, and what it reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prequential.cli.main import main

_ROOT = Path(__file__).resolve().parents[2]

#: The command, with one small loop in place of all of them.
_ONE_LOOP = """
import sys
from collections.abc import Iterator
from prequential.runtime import compilation

def compile_small(needed):
    import numpy as np
    from prequential.engine.compiled.ids import _spread
    _spread(np.array([5 << 32 | 1]), np.zeros(16, np.int64))

compilation._fill_cache = lambda needed: iter(())
compilation._compile = compile_small
from prequential.cli.main import main
sys.exit(main(["compile", *sys.argv[1:]]))
"""


def compiled(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    folders = (_ROOT, _ROOT / "pipeline", _ROOT / "topics")
    return subprocess.run(
        [sys.executable, "-c", _ONE_LOOP, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **environment},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_a_folder_is_filled_once(tmp_path: Path) -> None:
    """The folder is made, and the variable that the worker needs names the same one."""
    cache = tmp_path / "new" / "loops"
    first = compiled("--cache", str(cache))
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[0].startswith("compiling the engine's loops")
    assert first.stdout.splitlines()[-1].startswith("1 loop compiled in ")
    assert f"the cache in {cache} has all loops for all settings" in first.stdout
    again = compiled(NUMBA_CACHE_DIR=str(cache))
    assert again.stdout.startswith("0 loops compiled in ")
    config = tmp_path / "prequential.yaml"
    config.write_text("defaults: {positive_class: x}\n", encoding="utf-8")
    assert f"the configuration {config}" in compiled("--cache", str(cache), "--config", str(config)).stdout


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main(["compile", "--cache", str(file / "loops")]) == 2
    assert f"--cache {file}/loops: Not a directory; expected a folder" in capsys.readouterr().err


def test_without_the_compiler_it_says_why(tmp_path: Path) -> None:
    refused = compiled("--cache", str(tmp_path), NUMBA_DISABLE_JIT="1")
    assert refused.returncode == 2
    assert "NUMBA_DISABLE_JIT is set" in refused.stderr
