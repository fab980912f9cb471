"""Loops that only loops call, as tests may call them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba


@cache
def from_python(function: Any) -> Any:
    """An `inner` or `inlined` loop of the engine, compiled so that a call from Python runs what loops run.

    The core has such loops compiled without what Python needs for a call (`core.compiled.kernel`).
    Nothing of this is kept on disk: numba's files don't tell in which way a function was compiled, so the
    engine would take it for its own. Without the compiler any function can be called as it is.
    """
    if not hasattr(function, "py_func"):
        return function
    counts = function.targetoptions.get("_nrt", True)  # references, where arrays are made
    return numba.njit(nogil=True, error_model="numpy", _nrt=counts)(function.py_func)
