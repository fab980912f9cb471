"""Which measures a reader asks for first: columns of tables, and what models are compared by."""

from __future__ import annotations

from prequential.core.measures.declaration import CLASSIFICATION, REGRESSION
from prequential.core.measures.registry import MEASURES

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
