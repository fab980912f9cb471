"""The standard normal distribution, with the same bits on every processor and C library."""

from __future__ import annotations

import math

from prequential.engine.compiled.mathematics import exp

#: 1/sqrt(2π)
_DENSITY_AT_0 = 0.39894228040143267794

#: Up to `_FAR`, the tail is 1 minus a series. Beyond it, the difference loses digits, so a continued fraction
#: is used, which is exact after `_TERMS` terms.
_FAR, _TERMS = 2.5, 100


def density(z: float) -> float:
    """Density of the standard normal distribution.

    >>> density(0.0), density(1.0) == density(-1.0)
    (0.39894228040143..., True)
    """
    return _DENSITY_AT_0 * exp(-z * z / 2)


def both_tails(z: float) -> float:
    """The standard normal distribution's probability of being farther from 0 than z >= 0: 2·(1 - Φ(z)).

    >>> both_tails(0.0), both_tails(1.959963984540054), both_tails(5.0)
    (1.0, 0.0499999999999..., 5.73303143758...e-07)
    """
    if z > _FAR:  # Mills' ratio: 1/(z + 1/(z + 2/(z + 3/(z + …))))
        fraction = z
        for k in range(_TERMS, 0, -1):
            fraction = z + k / fraction
        return 2 * density(z) / fraction
    term = total = z  # Φ(z) - 1/2 = density·(z + z³/3 + z⁵/(3·5) + …)
    k = 1
    while term > total * math.ulp(1.0):
        k += 2
        term *= z * z / k
        total += term
    return 1 - 2 * density(z) * total
