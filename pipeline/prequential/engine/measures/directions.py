"""A measure's values as detectors take them: they grow when the model gets worse."""

from __future__ import annotations

from prequential.engine.compiled.kernel import inner
from prequential.engine.measures.registry import LESS_COLUMNS, NEARER_COLUMNS


@inner
def worse(measure: int, value: float) -> float:
    """The value of a measure (a column), turned so that it grows when the model gets worse.

    What is best at 0 (`bias`) by its distance from it; losses as they are; v to 1 - v otherwise.

    >>> from prequential.engine.measures.registry import INDEX
    >>> worse(INDEX["kappa"], 0.25), worse(INDEX["mae"], 0.25), worse(INDEX["bias"], -0.25)
    (0.75, 0.25, 0.25)
    """
    for column in NEARER_COLUMNS:
        if measure == column:
            return abs(value)
    for column in LESS_COLUMNS:
        if measure == column:
            return value
    return 1.0 - value
