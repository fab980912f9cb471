"""What an estimator remembers: joint counts of outcomes over all history, a window, or faded.

All three have the same interface: `update` with the places of outcomes, `counts` and `n` to compute
measures from, `grow` when classes are added, `revise` where a revised label can still be moved,
snapshot, restore.
"""

from __future__ import annotations

from pipeline.core.memories.all_history import AllHistory
from pipeline.core.memories.faded import Faded
from pipeline.core.memories.window import Window

#: Fading factors below it forget everything at once, and their weights would overflow.
_SMALLEST = 1e-30

Memory = AllHistory | Window | Faded


def build_memory(estimator: str) -> Memory:
    """The memory of an estimator's name: `all`, `window:W` or `fading:A`.

    Raises ValueError quoting the name.

    >>> build_memory("window:1000").size
    1000
    >>> build_memory("fading:2")
    Traceback (most recent call last):
    ...
    ValueError: estimator 'fading:2': expected all, window:W (W >= 1) or fading:A (0 < A <= 1)
    """
    kind, _, parameter = estimator.partition(":")
    try:
        if estimator == "all":
            return AllHistory()
        if kind == "window" and (size := int(parameter)) >= 1:
            return Window(size)
        if kind == "fading" and _SMALLEST <= (factor := float(parameter)) <= 1:
            return Faded(factor)
    except ValueError:
        pass
    raise ValueError(
        f"estimator {estimator!r}: expected all, window:W (W >= 1) or fading:A (0 < A <= 1)"
    )
