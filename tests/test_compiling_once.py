"""One process at a time compiles; a dead owner and a read-only folder block nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from prequential.runtime.compiling_once import compiling_once

HOLDER = """
import sys
from prequential.runtime.compiling_once import compiling_once
with compiling_once(print):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[str]:
    """A process that has the lock."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "loops"))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("killed", [False, True])
def test_the_second_waits_until_the_first_has_ended(holder: subprocess.Popen[str], killed: bool) -> None:
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        if killed:
            holder.kill()
        else:
            assert holder.stdin is not None
            holder.stdin.close()

    with compiling_once(tell) as waited:
        assert waited
    assert len(told) == 1
    assert told[0].startswith("waiting for another process")
    holder.wait(10)
    if holder.stdin is not None:
        holder.stdin.close()
    assert holder.stdout is not None
    holder.stdout.close()
    with compiling_once(told.append) as waited:
        assert not waited
    assert len(told) == 1


def test_a_folder_that_cannot_be_written_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "no-folder"
    file.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file))
    monkeypatch.setattr("tempfile.tempdir", str(file))
    with compiling_once(pytest.fail) as waited:
        assert not waited
