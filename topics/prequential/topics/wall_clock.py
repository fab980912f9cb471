"""The time of this machine, as messages and records have it."""

from __future__ import annotations

from time import time_ns


def now_ms() -> int:
    """Return the time of this machine's clock in epoch ms, rounded down."""
    return time_ns() // 1_000_000
