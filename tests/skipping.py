"""Tests that need what not every machine can have."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.kafka_jars import Unavailable


@contextmanager
def or_skip() -> Iterator[None]:
    """What is had inside is had, or the test is skipped, with the reason."""
    try:
        yield
    except Unavailable as reason:
        pytest.skip(str(reason))


def needs_ipv6() -> None:
    """The test is skipped where this machine has no address of IPv6."""
    try:
        with closing(socket.socket(socket.AF_INET6)) as tried:  # which fails where the kernel has none
            tried.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
