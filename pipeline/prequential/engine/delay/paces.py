"""Whether labels come slower than they did: of latest periods, the share of due labels that has come.

The delays of the past give the number of labels that should have come by a maturity. If labels slow down,
less come, whatever their classes are. F counts as that much smaller until the delays of the past have adapted.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.delay.expected import ExpectedModels

#: How much of earlier periods remains with each period.
_REMAINS = 0.7

#: A share differs from 1 if it is this many standard deviations less.
_LESS = 4.0


def watch(models: ExpectedModels, model: int, maturity: int, arrived: float, due: float) -> None:
    """Count the labels of a period that first has a maturity. Changes only `models`."""
    models.arrived[model, maturity] = _REMAINS * models.arrived[model, maturity] + arrived
    models.due[model, maturity] = _REMAINS * models.due[model, maturity] + due
    models.newest_share[model, maturity] = arrived / due if due > 0.0 else 1.0


def shares_arrived(models: ExpectedModels, whose: Ints, maturities: Ints) -> Floats:
    """The shares for periods of models (rows) at maturities, (n,): 1 unless they are certainly less.

    That of the newest period counts if it is larger, as labels come again after an outage. A period that has
    not ended counts as if it were at its end.
    """
    at = whose, np.maximum(maturities, 0)
    due = np.maximum(models.due[at], 1.0)
    shares = np.maximum(models.arrived[at] / due, models.newest_share[at])
    return np.where(1.0 - shares > _LESS / np.sqrt(due), shares, 1.0)
