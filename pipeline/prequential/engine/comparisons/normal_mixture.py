"""The bound of a sum of differences of 0/1 loss, at all times: Robbins' normal mixture.

See Robbins: Statistical methods related to the law of the iterated logarithm, Annals of Mathematical
Statistics 41, 1970. See also Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric, nonasymptotic
confidence sequences, Annals of Statistics 49, 2021, proposition 5.

Suppose that at each outcome where the models differ, either one is wrong with probability 1/2, whatever came
before. Let s be the sum of differences, and v the number of differences that aren't 0. Then exp(λ·s - λ²·v/2)
is a supermartingale for each λ. So is its mixture over λ with a normal density of variance 1/ρ. The sum is

    beyond the bound:   s² >= (v + ρ)·(ln((v + ρ)/ρ) + 2·ln(1/α))

at any time with probability at most α (Ville), for both signs together.
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import inner
from prequential.engine.compiled.mathematics import log

#: ρ. Gaps of 5, 2 and 1 points take 1.5, 1.6 and 1.5 times as many outcomes as with a mixture that assumes
#: independence (`docs/understand/validation.md`). There, exactly one model is wrong in 18% of the outcomes.
#: A smaller ρ finds large gaps sooner, but is wrong more often where outcomes depend on earlier ones.
RHO = 40.0


@inner
def squared_radius(v: float, needed: float) -> float:
    """The value of s² at the bound, by v and `needed`, which is 1/α.

    >>> round(squared_radius(50.0, 20.0) ** 0.5, 4)
    24.7...
    """
    return (v + RHO) * (log((v + RHO) / RHO) + 2.0 * log(needed))


@inner
def radius(v: float, needed: float) -> float:
    """The value of |s| at the bound."""
    return math.sqrt(squared_radius(v, needed))
