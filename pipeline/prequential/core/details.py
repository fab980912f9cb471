"""Details of an estimator beyond its measures; each is put out where the configuration asks for it."""

from __future__ import annotations

from typing import Any

from prequential.core.gradients import class_ratio_gradients, moves_with_class_ratio
from prequential.core.intervals import (
    autocorrelation,
    effective,
    less_one,
    precision_worth,
    shrunk,
    wilson,
)
from prequential.core.measures.matrix import Binary, Matrix, PositiveClass, binary, matrix_of
from prequential.core.measures.per_class import by_class
from prequential.core.memories import Memory
from prequential.core.normalisation import RATIOS, normalised
from prequential.core.pairs import CELL, MAJORITY, PERSISTENT, SIGNS, WRONG

#: Outcomes up to which values are normalised: two measures take time in proportion to them, so that a
#: message about so many costs 1 ms more, and one about ten times as many 9 ms.
_MOST_NORMALISED = 100_000


def details_of(
    names: tuple[str, ...],
    memory: Memory,
    pairs: dict[str, Memory] | None,
    positive: PositiveClass,
) -> dict[str, Any]:
    """The details of these names (see `DETAILS` in `prequential.config`) that an estimator has."""
    if not memory.n:
        return {}
    matrix = matrix_of(memory)
    code = positive.code(matrix.labels)
    one = None if code is None else binary(matrix, code)
    found: dict[str, Any] = {}
    if "per_class" in names:
        found["per_class"] = by_class(matrix, positive.classes.names)
    if "normalised" in names and one is not None and matrix.exact:
        found["normalised"] = _normalised(one)
    if "class_ratio" in names and one is not None:
        found["class_ratio"] = _class_ratio(one)
    if pairs is not None:
        correlations = {sign: autocorrelation(pairs[sign].counts) for sign in SIGNS}
        if "intervals" in names:
            size = effective(memory)
            worth = {sign: shrunk(size, r) / memory.n for sign, r in correlations.items()}
            worth[CELL] = min(worth[WRONG], precision_worth(pairs[CELL].counts) * size / memory.n)
            found["intervals"] = _intervals(matrix, one, worth)
        if "dependence" in names:
            found["dependence"] = _error_dependence(correlations[WRONG], pairs[WRONG])
    return found


def _normalised(one: Binary) -> dict[str, float]:
    """N(M, P:N, x) of the eight measures (2019 paper, eq. 10); none where a class has no label."""
    tp, fn, fp = int(one.tp), int(one.positives - one.tp), int(one.predicted - one.tp)
    tn = int(one.tn)
    if not (tp + fn and fp + tn) or one.n > _MOST_NORMALISED:
        return {}
    return {name: normalised(name, tp, fn, fp, tn) for name in RATIOS}


def _class_ratio(one: Binary) -> dict[str, Any]:
    """The positives' share, and which measures would move if only that did (2019 paper, section IV)."""
    cells = (one.tp, one.positives - one.tp, one.predicted - one.tp, one.tn)
    cells = tuple(max(0.0, float(cell)) for cell in cells)  # type: ignore[assignment]
    return {
        "positives": one.positives / one.n,
        "gradients": class_ratio_gradients(*cells),
        "moving": moves_with_class_ratio(*cells),
    }


def _intervals(
    matrix: Matrix, one: Binary | None, worth: dict[str, float]
) -> dict[str, tuple[float, float]]:
    """95 % intervals of shares; by sign, an outcome is worth `worth` independent ones."""
    shares = {
        "error": (matrix.n - matrix.right, matrix.n, WRONG),
        "accuracy": (matrix.right, matrix.n, WRONG),
        "p_per": (matrix.persistent, matrix.n, PERSISTENT),
        "p_maj": (matrix.majority, matrix.n, MAJORITY),
    }
    if one is not None:
        shares["recall"] = one.tp, one.positives, WRONG
        shares["specificity"] = one.tn, one.n - one.positives, WRONG
    found = {
        name: wilson(min(1.0, part / whole), whole * worth[sign])
        for name, (part, whole, sign) in shares.items()
        if whole
    }
    if one is not None and one.predicted:
        share = min(1.0, one.tp / one.predicted)
        found["precision"] = wilson(share, less_one(one.predicted * worth[CELL]))
    return found


def _error_dependence(correlation: float | None, pairs: Memory) -> dict[str, float]:
    """Whether the errors themselves depend on each other (2015 paper, proposition 8)."""
    if correlation is None:
        return {}
    return {"error_autocorrelation": correlation, "error_autocorrelation_se": effective(pairs) ** -0.5}
