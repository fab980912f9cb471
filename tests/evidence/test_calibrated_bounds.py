"""Bounds that `prequential calibrate` states: a small part of what `calibration.py` shows, from a seed."""

from __future__ import annotations

import numba
import pytest

from tests.evidence.calibration import PROCESSES, Process, shares

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes hours without the compiler")


@pytest.mark.parametrize("process", PROCESSES)
def test_bounds_hold_what_comes(process: Process) -> None:
    """Of three detectors; one of them may miss."""
    some = [one for one in shares(process, 5_000, 101) if one is not None]
    assert len(some) == 3
    assert sum(low <= came <= high for came, low, high in some) >= 2
