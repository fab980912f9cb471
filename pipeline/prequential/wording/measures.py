"""Which measures a reader asks for first: columns of tables, and what models are compared by."""

from __future__ import annotations

from typing import NamedTuple

from prequential.core.measures.declaration import CLASSIFICATION, REGRESSION, Reference
from prequential.core.measures.registry import LOSSES, MEASURES

#: By task: columns of tables, the most important first; a table shows as many as it has room for.
COLUMNS = {
    CLASSIFICATION: (
        "accuracy", "kappa", "kappa_per", "kappa_plus", "balanced_accuracy", "f1", "log_loss", "mcc",
    ),
    REGRESSION: ("mae", "rmse", "r2", "bias"),
}  # fmt: skip

#: What models are compared by, the first that they have: the usual ones of either task, then any other that
#: says how good a model is.
COMPARED = tuple(dict.fromkeys((
    "accuracy", "mae", "error", "rmse", "mse", "kappa", "f1", "log_loss", "r2",
    *(name for name, one in MEASURES.items() if one.quality),
)))  # fmt: skip


class Beside(NamedTuple):
    """A baseline's accuracy, which says how good a measure's value is."""

    measure: str
    line: Reference
    one_less: bool  # whether 1 less it is what compares


def beside(measure: str) -> list[Beside]:
    """What to draw beside a measure: baselines, where it is the share of what is right, or 1 less it."""
    loss = LOSSES.get(measure)
    if loss is None or loss.signal != "error":
        return []
    return [
        Beside(name, one.reference, not loss.one_less)
        for name, one in MEASURES.items()
        if one.reference is not None and not one.quality and one.needs_label
    ]
