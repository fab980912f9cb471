"""Prometheus' own checks of rules."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str | Path) -> None:
    """Run promtool; its whole answer is the message where it finds fault."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool, a part of Prometheus, is not installed")
    result = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=280, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
