"""How much tests try: some of it in `make test`, where somebody waits, and all of it in `make nightly`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

#: The environment variable that says which it is, and its values.
VARIABLE = "PREQUENTIAL_TESTS"
_SIZES = ("small", "large")

Number = TypeVar("Number", int, float)


def is_large() -> bool:
    """What the environment says; ValueError for a value that isn't one."""
    given = os.environ.get(VARIABLE) or "small"
    if given not in _SIZES:
        raise ValueError(f"{VARIABLE} is {given!r}: expected {' or '.join(_SIZES)}")
    return given == "large"


#: Whether all is tried: every test marked `nightly`, and of the others all seeds and examples.
NIGHTLY = is_large()


def scaled(small: Number, large: Number) -> Number:
    """How many seeds, examples, outcomes or seconds: `small` in `make test`, `large` in `make nightly`."""
    return large if NIGHTLY else small


def few(cases: Iterable[Any], keep: int = 1) -> list[Any]:
    """Cases to parametrise a test with, of which `make test` tries the first `keep` alone.

    A tuple holds the values of several arguments, as pytest has it.
    """
    found = list(cases)
    rest = [case if type(case) is tuple else (case,) for case in found[keep:]]
    return [*found[:keep], *(pytest.param(*case, marks=pytest.mark.nightly) for case in rest)]
