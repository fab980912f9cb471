"""Tests that need what not every machine can have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.kafka_jars import Unavailable


@contextmanager
def or_skip() -> Iterator[None]:
    """What is had inside is had, or the test is skipped, with the reason."""
    try:
        yield
    except Unavailable as reason:
        pytest.skip(str(reason))
