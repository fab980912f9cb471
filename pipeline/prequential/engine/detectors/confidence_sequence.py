"""A bound of a sum that holds at all times at once: verdicts and the detector `harm` use it.

Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals
of Statistics 49, 2021, theorem 4. The only assumption is x_i >= -1: the x_i needn't be independent or
identically distributed. Expectations are conditional on all earlier values.

Let s = Σ x_i and v = Σ x_i² (the intrinsic time). Then exp(λ·Σ(x_i - E[x_i]) - (-ln(1 - λ) - λ)·v) is a
supermartingale for each λ in [0, 1) (Fan, Grama, Liu 2015). So is its mixture over λ with a gamma density of
parameter ρ cut off at 1 (Howard and others, proposition 9, c = 1). If E[x_1] + … + E[x_n] <= 0, it is at
least

    M(s, v) = Γ(a)·P(a, x)·x^-a·e^x/C,   a = v + ρ,   x = a + s,   C so that M(0, 0) = 1

with P the regularised lower incomplete gamma function. The probability that M ever exceeds 1/α is at most α
(Ville). For a >= 1 we have 1 - P(a, x) <= x^a·e^-x/(Γ(a)·(x - a + 1)), since (1 + w)^(a - 1) <= e^((a - 1)·w)
under the integral. With this bound of P, only logarithms remain. The error is on the safe side, and less than
1e-4 of the width up to a level of 0.05:

    beyond the bound:   G(s, v) >= ln(N + 1/(s + 1)),   G = ln Γ(a) - a·ln x + x,   N = C/α
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import inner
from prequential.engine.compiled.mathematics import exp, log

#: ρ: the bound is tightest at an intrinsic time of about 60 (at a two-sided level of 0.05) to 100 (at 0.005).
#: For the difference of 0/1 losses, that is 60 to 100 outcomes on which exactly one model is right. If these
#: are every twentieth outcome, it is 1,000 to 2,000 outcomes. Doubling or halving ρ costs 1% of the width
#: there. For an integer, Γ and P have simple values.
RHO = 8.0

#: C = P(ρ, ρ)·Γ(ρ)·e^ρ·ρ^-ρ for that ρ.
_C = 0.48987461654486122755

#: A safety factor for a constant that is too small by at most half as much, 5e-5.
_SAFE = 1.0001

#: sqrt(2π)
_ROOT_2PI = 2.50662827463100050242

#: ln(2π)/2
_HALF_LN_2PI = 0.91893853320467274178

#: Newton's steps for a bound; they converge to the last digits in 4 to 6.
_STEPS = 50


@inner
def needed_for(alpha: float) -> float:
    """N for a one-sided level α in (0, 1): at most a share α of sums of expectation 0 ever exceeds the bound.

    >>> needed_for(0.025)
    19.594984661794...
    """
    return _C / alpha


@inner
def needed_with(rho: float, alpha: float) -> float:
    """N for another ρ >= 8, by P(ρ, ρ) ≈ 1/2 + 1/(3·sqrt(2πρ)), which is too small by at most 5e-5.

    >>> needed_with(8.0, 0.025) / needed_for(0.025) - 1
    5...e-05
    """
    return _SAFE * (0.5 + 1.0 / (3.0 * _ROOT_2PI * math.sqrt(rho))) * exp(_at_zero(rho)) / alpha


@inner
def beyond(s: float, variance: float, needed: float, rho: float) -> bool:
    """Whether s = Σ x_i >= 0 is beyond the bound at v = Σ x_i² (`variance`), without solving for the bound.

    `needed` is N, from `needed_for`. The module's docstring has the bound and its source.

    >>> beyond(20.0, 40.0, needed_for(0.025), RHO), beyond(30.0, 40.0, needed_for(0.025), RHO)
    (False, True)
    """
    a = variance + rho
    return _at_zero(a) + (s - a * _log_of_one_plus(s / a)) >= log(needed + 1.0 / (s + 1.0))


@inner
def radius(variance: float, needed: float, rho: float) -> float:
    """Where `beyond` changes: the s with G(s, v) = ln(N + 1/(s + 1)), by Newton's method from above.

    The unit is that of the sum s; divided by n, it is the half-width of an interval of the mean. The search
    starts where the lower bound s²/(2a + 4s/3) of s - a·ln(1 + s/a) reaches the value. It descends, since G
    is convex.

    >>> round(radius(50.0, needed_for(0.025), RHO), 6)  # of 1,000 outcomes with 50 that one model has wrong
    24.57978
    """
    a = variance + rho
    start = _at_zero(a)
    y = (log(needed + 1.0) - start) / a
    s = a * (2.0 / 3.0 * y + math.sqrt(4.0 / 9.0 * y * y + 2.0 * y))
    for _ in range(_STEPS):
        allowed = needed + 1.0 / (s + 1.0)
        excess = start + (s - a * _log_of_one_plus(s / a)) - log(allowed)
        slope = s / (a + s) + 1.0 / (allowed * (s + 1.0) * (s + 1.0))
        below = s - excess / slope
        if not below < s:
            break
        s = below
    return s


@inner
def _at_zero(a: float) -> float:
    """ln Γ(a) - a·ln a + a for a >= ρ, by Stirling's series, cut off so that it is too small (by 6e-12)."""
    z = 1.0 / (a * a)
    series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0)))) / a
    return _HALF_LN_2PI - 0.5 * log(a) + series


@inner
def _log_of_one_plus(x: float) -> float:
    """ln(1 + x) for x >= 0, with the digits of small x that 1 + x loses.

    >>> _log_of_one_plus(1e-18), _log_of_one_plus(1.0)
    (1e-18, 0.6931471805599453)
    """
    w = 1.0 + x
    return x if w == 1.0 else log(w) * (x / (w - 1.0))
