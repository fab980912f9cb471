"""Programs that are built from Go modules once, into a cache outside the project."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

#: Seconds that a build gets: some minutes of processor time with a cold cache.
_BUILD_SECONDS = 1_200


def path_of(name: str, sources: Path) -> Path:
    """Where the program of these sources is, or will be."""
    content = b"".join(path.read_bytes() for path in sorted(sources.iterdir()))
    digest = hashlib.sha256(content).hexdigest()[:12]
    named = os.environ.get("PREQUENTIAL_CACHE")
    cache = Path(named) if named else Path.home() / ".cache" / "prequential"
    return cache.resolve() / f"{name}-{digest}"


def built(name: str, sources: Path, package: str = ".", tags: str = "") -> Path:
    """The program; pytest skips where Go or the modules can't be had."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    program = path_of(name, sources)
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=program.parent) as work:
            made = Path(work, name)
            command = [go, "build", "-p", "2", "-tags", tags, "-ldflags", "-s -w", "-o", str(made), package]
            done = subprocess.run(
                command, cwd=sources, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
            )
            if done.returncode:
                pytest.skip(f"{name} can't be built: {done.stderr.strip()[-300:]}")
            made.replace(program)
    return program
