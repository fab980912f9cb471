"""What an estimator remembers: joint counts of outcomes over all history, a window, or faded.

All three have the same interface: `update` with the places of outcomes, `counts` and `n` to compute
measures from, `grow` when classes are added, `revise` where a revised label can still be moved,
snapshot, restore.
"""

from __future__ import annotations

import re

from prequential.core.memories.all_history import AllHistory
from prequential.core.memories.faded import Faded
from prequential.core.memories.window import Window

#: Fading factors below it forget everything at once, and their weights would overflow.
_SMALLEST = 1e-30

#: Longest window, in outcomes: their numbers stay far within 64 bits.
_LONGEST = 1 << 40

# One spelling, as far as can be, because names stand in messages: Python's own numbers have blanks, signs,
# underscores and all scripts' digits.
_WINDOW = re.compile("window:([1-9][0-9]*)")
_FADING = re.compile(r"fading:(?=[.0-9])((?:0|[1-9][0-9]*)?(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")

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
    if estimator == "all":
        return AllHistory()
    if found := _WINDOW.fullmatch(estimator):
        if len(found[1]) > len(str(_LONGEST)) or int(found[1]) > _LONGEST:
            raise ValueError(f"estimator {estimator!r}: expected a window of at most {_LONGEST} outcomes")
        return Window(int(found[1]))
    if (found := _FADING.fullmatch(estimator)) and _SMALLEST <= (factor := float(found[1])) <= 1:
        return Faded(factor)
    raise ValueError(
        f"estimator {estimator!r}: expected all, window:W (W >= 1) or fading:A (0 < A <= 1)"
    )
