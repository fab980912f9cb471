"""A command imports its own file only: a process that runs for months shouldn't carry the others."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("command", "absent"), [("compile", "numba"), ("notify", "prequential.cli.replay")])
def test_a_command_imports_no_other(command: str, absent: str) -> None:
    program = f"""
import sys
from prequential.cli.main import main
try:
    main([{command!r}, "--help"])
except SystemExit:
    pass
print({absent!r} in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
