"""Freed memory goes back to the system, and doesn't stay with the process for good."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prequential.worker import heap

_BLOCK, _COUNT, _KEPT = 1_000, 200_000, 100


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(heap._trim is None, reason="the C library has no malloc_trim")
def test_what_is_free_between_what_is_in_use_is_given_back() -> None:
    blocks = [bytes(_BLOCK) for _ in range(_COUNT)]
    kept = blocks[::_KEPT]  # so that the heap can't simply end earlier
    full = resident()
    del blocks
    assert heap.give_back()
    assert resident() < full - _COUNT * _BLOCK // 2
    assert kept == [bytes(_BLOCK)] * len(kept)


def test_a_c_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_trim", None)
    assert not heap.give_back()
