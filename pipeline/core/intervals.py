"""How sure a share of outcomes is: Wilson's interval on as many outcomes as the estimate is worth.

Faded outcomes count for less than one, and outcomes whose errors depend on each other tell less than
independent ones. Both shrink the number of outcomes to an effective one.
"""

from __future__ import annotations

import math

from pipeline.core.arrays import Floats, Ints
from pipeline.core.memories import Memory
from pipeline.core.memories.faded import Faded

#: Standard normal quantile of a two-sided interval of 95 %.
_Z = 1.959963984540054

#: An autocorrelation nearer to 1 leaves less than a hundredth of the outcomes.
_MOST_CORRELATION = 0.98


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share seen in `n` outcomes, which needn't be a whole number.

    >>> wilson(0.5, 100)
    (0.4038..., 0.5961...)
    """
    center = share + _Z * _Z / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    whole = 1 + _Z * _Z / n
    return max(0.0, (center - half) / whole), min(1.0, (center + half) / whole)


def effective(memory: Memory) -> float:
    """How many equal outcomes a memory is worth: N²/Σw² of its outcomes' weights w.

    For a fading factor A after t outcomes N = (1 - A^t)/(1 - A) and Σw² = (1 - A^2t)/(1 - A²).

    >>> import numpy as np
    >>> memory = Faded(0.5)
    >>> for _ in range(2):
    ...     memory.update(np.array([0]))
    >>> effective(memory)  # (1 + 1/2)² / (1 + 1/4)
    1.8
    """
    n = float(memory.n)
    if not isinstance(memory, Faded) or memory.factor == 1:
        return n
    rest = max(0.0, 1 - n * (1 - memory.factor))  # A^t
    return n * n * (1 - memory.factor**2) / (1 - rest * rest)


def autocorrelation(pairs: Ints | Floats) -> float | None:
    """Correlation of neighbours from the counts (or weights) of 00, 01, 10, 11; None if one never varies.

    >>> import numpy as np
    >>> autocorrelation(np.array([40, 10, 10, 40]))
    0.6
    """
    both_right, worse, better, both_wrong = map(float, pairs[:4])
    first, second = better + both_wrong, worse + both_wrong
    n = both_right + worse + better + both_wrong
    spread = first * (n - first) * second * (n - second)
    if spread <= 0:
        return None
    return (n * both_wrong - first * second) / math.sqrt(spread)


def shrunk(n: float, correlation: float | None) -> float:
    """Independent outcomes that `n` of a first-order autocorrelation are worth: n·(1 - r)/(1 + r).

    A negative correlation isn't taken as a gain.

    >>> shrunk(900, 0.5), shrunk(900, -0.5)
    (300.0, 900.0)
    """
    r = min(_MOST_CORRELATION, max(0.0, correlation or 0.0))
    return n * (1 - r) / (1 + r)
