"""Tables and loops have the same bits, whether loops are compiled or run as plain Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest

#: What has a digest of all that loops make of inputs that are always the same.
MODULES = (
    "outcome_logs", "test_coverage", "test_expected_tables", "test_ids", "test_latency",
    "test_measure_kernels", "test_periods_tables", "test_sampled_labels", "test_selection_tables",
)  # fmt: skip


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    """The digests by a process without the compiler."""
    script = "import json, sys; from importlib import import_module as module; "
    script += "print(json.dumps({name: module(name).digest() for name in sys.argv[1:]}))"
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *MODULES],
        env=settings, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("module", MODULES)
def test_compiled_and_as_plain_python_all_has_the_same_bits(module: str, plain: dict[str, str]) -> None:
    assert plain[module] == import_module(module).digest()
